//! Colors of the tokens in each theme.
//!
//! The tests of [`super`] check that each text has a contrast of at least 4.5 to 1 on every
//! background.

use super::Name;

/// Names of the tokens of [`super::Theme`] in the order of a theme file. Each has a color as
/// 0xRRGGBB in the themes dark, light, cvd and high-contrast.
///
/// The series of the dark theme have the colors of Okabe and Ito, which can be told apart with any
/// color vision deficiency. In the light theme, `up`, `warn` and `info` are dark enough for the
/// background of a selected row. In cvd, rising values are blue and falling values are orange, so
/// the focus is violet, and no overlay is blue or orange. In high-contrast, text is white on
/// black, and borders and grids are clearly visible.
const COLORS: [(&str, [u32; 4]); 23] = [
    ("bg", [0x0011_131a, 0x00fb_fbfd, 0x0011_131a, 0x0000_0000]),
    ("bar", [0x0017_1a23, 0x00ee_f1f7, 0x0017_1a23, 0x000f_0f0f]),
    ("sel", [0x0023_2a3b, 0x00df_e8fb, 0x0023_2a3b, 0x0010_2f57]),
    ("text", [0x00d5_d9e6, 0x001c_2030, 0x00d5_d9e6, 0x00ff_ffff]),
    ("muted", [0x008a_92a8, 0x0056_6079, 0x008a_92a8, 0x00d0_d4dc]),
    ("faint", [0x004b_5166, 0x00a3_abbd, 0x004b_5166, 0x007f_858f]),
    ("border", [0x0033_3a4c, 0x00c3_c9d8, 0x0033_3a4c, 0x0097_9da8]),
    ("focus", [0x006e_a8fe, 0x001d_5fd1, 0x00b7_94f6, 0x0084_cfff]),
    ("accent2", [0x00b7_94f6, 0x006b_3fc4, 0x00b7_94f6, 0x00d9_bfff]),
    ("up", [0x003f_c294, 0x000b_7049, 0x0056_b4e9, 0x004d_f0a5]),
    ("down", [0x00f2_707b, 0x00b4_232f, 0x00f5_9e42, 0x00ff_a3a8]),
    ("warn", [0x00f2_b84b, 0x0084_5600, 0x00f0_e442, 0x00ff_d75f]),
    ("key", [0x00f2_b84b, 0x0084_5600, 0x00f2_b84b, 0x00ff_d75f]),
    ("info", [0x0056_c7e8, 0x000b_6b8a, 0x0056_c7e8, 0x007f_e9ff]),
    ("series-1", [0x0056_b4e9, 0x000b_6b8a, 0x0056_b4e9, 0x007c_c8ff]),
    ("series-2", [0x00e6_9f00, 0x00a0_5a00, 0x00e6_9f00, 0x00ff_b833]),
    ("series-3", [0x003f_c294, 0x000d_7a50, 0x003f_c294, 0x004d_f0a5]),
    ("series-4", [0x00cc_79a7, 0x00a0_3a78, 0x00cc_79a7, 0x00f2_a6d0]),
    ("series-5", [0x00f0_e442, 0x006b_6200, 0x00f0_e442, 0x00ff_f066]),
    ("series-6", [0x00d5_5e00, 0x00a8_420a, 0x00d5_5e00, 0x00ff_9a57]),
    ("overlay-1", [0x00e6_9f00, 0x00a0_5a00, 0x00f0_e442, 0x00ff_b833]),
    ("overlay-2", [0x00b7_94f6, 0x006b_3fc4, 0x00cc_79a7, 0x00d9_bfff]),
    ("overlay-3", [0x00f0_e442, 0x006b_6200, 0x00d5_d9e6, 0x00ff_f066]),
];

/// A color for each token, in the order of [`COLORS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Palette([u32; COLORS.len()]);

impl Default for Palette {
    /// Returns the colors of the dark theme.
    fn default() -> Self {
        Self::of_column(0)
    }
}

impl Palette {
    fn of_column(column: usize) -> Self {
        Self(COLORS.map(|(_, colors)| colors.get(column).copied().unwrap_or_default()))
    }

    /// Returns the colors of the theme `name`. `None` if the theme has no colors.
    pub(super) fn of_theme(name: Name) -> Option<Self> {
        let column = match name {
            Name::Dark => 0,
            Name::Light => 1,
            Name::Cvd => 2,
            Name::HighContrast => 3,
            Name::Custom(own) => return Some(own.palette),
            Name::Mono | Name::Ansi16 => return None,
        };
        Some(Self::of_column(column))
    }

    /// Returns the names of the tokens, in the order of a theme file.
    pub(super) fn tokens() -> impl Iterator<Item = &'static str> {
        COLORS.iter().map(|(token, _)| *token)
    }

    /// Returns the color of the token called `token` as 0xRRGGBB. `None` if there is no such
    /// token.
    pub(super) fn color_mut(&mut self, token: &str) -> Option<&mut u32> {
        self.0.get_mut(Self::tokens().position(|known| known == token)?)
    }

    /// Returns the color of the token called `token` as red, green and blue. Black if there is no
    /// such token.
    pub(super) fn rgb(mut self, token: &str) -> [u8; 3] {
        let [_, r, g, b] = self.color_mut(token).copied().unwrap_or_default().to_be_bytes();
        [r, g, b]
    }
}
