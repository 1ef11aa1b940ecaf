//! The themes as data: a color for each token, as red, green and blue.
//!
//! The ratios beside the colors in the design are checked by the tests of [`super`]: text reaches
//! 4.5 to one against every background it may stand on.

/// A color as 0xRRGGBB.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Rgb(pub(super) u32);

impl Rgb {
    /// The color as red, green and blue.
    pub(super) const fn parts(self) -> [u8; 3] {
        let [_, r, g, b] = self.0.to_be_bytes();
        [r, g, b]
    }
}

/// A color for each token of [`super::Theme`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Palette {
    pub(super) bg: Rgb,
    pub(super) bar: Rgb,
    pub(super) sel: Rgb,
    pub(super) text: Rgb,
    pub(super) muted: Rgb,
    pub(super) faint: Rgb,
    pub(super) border: Rgb,
    pub(super) focus: Rgb,
    pub(super) accent2: Rgb,
    pub(super) up: Rgb,
    pub(super) down: Rgb,
    pub(super) warn: Rgb,
    pub(super) key: Rgb,
    pub(super) info: Rgb,
    pub(super) series: [Rgb; 6],
    pub(super) overlay: [Rgb; 3],
}

/// The default. Series are those of Okabe and Ito, which differ for every kind of sight.
pub(super) const DARK: Palette = Palette {
    bg: Rgb(0x0011_131a),
    bar: Rgb(0x0017_1a23),
    sel: Rgb(0x0023_2a3b),
    text: Rgb(0x00d5_d9e6),
    muted: Rgb(0x008a_92a8),
    faint: Rgb(0x004b_5166),
    border: Rgb(0x0033_3a4c),
    focus: Rgb(0x006e_a8fe),
    accent2: Rgb(0x00b7_94f6),
    up: Rgb(0x003f_c294),
    down: Rgb(0x00f2_707b),
    warn: Rgb(0x00f2_b84b),
    key: Rgb(0x00f2_b84b),
    info: Rgb(0x0056_c7e8),
    series: [
        Rgb(0x0056_b4e9),
        Rgb(0x00e6_9f00),
        Rgb(0x003f_c294),
        Rgb(0x00cc_79a7),
        Rgb(0x00f0_e442),
        Rgb(0x00d5_5e00),
    ],
    overlay: [Rgb(0x00e6_9f00), Rgb(0x00b7_94f6), Rgb(0x00f0_e442)],
};

/// For light terminals. `up`, `warn` and `info` are a shade darker than a background alone would
/// need, because they also stand on the selected row.
pub(super) const LIGHT: Palette = Palette {
    bg: Rgb(0x00fb_fbfd),
    bar: Rgb(0x00ee_f1f7),
    sel: Rgb(0x00df_e8fb),
    text: Rgb(0x001c_2030),
    muted: Rgb(0x0056_6079),
    faint: Rgb(0x00a3_abbd),
    border: Rgb(0x00c3_c9d8),
    focus: Rgb(0x001d_5fd1),
    accent2: Rgb(0x006b_3fc4),
    up: Rgb(0x000b_7049),
    down: Rgb(0x00b4_232f),
    warn: Rgb(0x0084_5600),
    key: Rgb(0x0084_5600),
    info: Rgb(0x000b_6b8a),
    series: [
        Rgb(0x000b_6b8a),
        Rgb(0x00a0_5a00),
        Rgb(0x000d_7a50),
        Rgb(0x00a0_3a78),
        Rgb(0x006b_6200),
        Rgb(0x00a8_420a),
    ],
    overlay: [Rgb(0x00a0_5a00), Rgb(0x006b_3fc4), Rgb(0x006b_6200)],
};

/// As [`DARK`], with blue for rises and orange for falls. Its focus is violet, and no line over
/// candles is blue or orange: on candles of nearly their own color such lines were unreadable.
pub(super) const CVD: Palette = Palette {
    focus: Rgb(0x00b7_94f6),
    up: Rgb(0x0056_b4e9),
    down: Rgb(0x00f5_9e42),
    warn: Rgb(0x00f0_e442),
    overlay: [Rgb(0x00f0_e442), Rgb(0x00cc_79a7), Rgb(0x00d5_d9e6)],
    ..DARK
};

/// White on black, with borders and grids that can be seen.
pub(super) const HIGH_CONTRAST: Palette = Palette {
    bg: Rgb(0x0000_0000),
    bar: Rgb(0x000f_0f0f),
    sel: Rgb(0x0010_2f57),
    text: Rgb(0x00ff_ffff),
    muted: Rgb(0x00d0_d4dc),
    faint: Rgb(0x007f_858f),
    border: Rgb(0x0097_9da8),
    focus: Rgb(0x0084_cfff),
    accent2: Rgb(0x00d9_bfff),
    up: Rgb(0x004d_f0a5),
    down: Rgb(0x00ff_a3a8),
    warn: Rgb(0x00ff_d75f),
    key: Rgb(0x00ff_d75f),
    info: Rgb(0x007f_e9ff),
    series: [
        Rgb(0x007c_c8ff),
        Rgb(0x00ff_b833),
        Rgb(0x004d_f0a5),
        Rgb(0x00f2_a6d0),
        Rgb(0x00ff_f066),
        Rgb(0x00ff_9a57),
    ],
    overlay: [Rgb(0x00ff_b833), Rgb(0x00d9_bfff), Rgb(0x00ff_f066)],
};
