//! How many colors a terminal shows, and the nearest one that it can.

/// How many colors a terminal shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// None, or none are wanted.
    None,
    /// The sixteen of the user's palette.
    Ansi16,
    /// Those sixteen, a cube of 216 colors, and 24 grays.
    Indexed256,
    /// Red, green and blue of 256 steps each.
    TrueColor,
}

/// What the environment says of the terminal; an empty text for what is not set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints<'a> {
    /// `NO_COLOR`: any text but an empty one asks for no colors.
    pub no_color: &'a str,
    /// `COLORTERM`: `truecolor` or `24bit` where the terminal says so.
    pub colorterm: &'a str,
    /// `TERM`: the name of the terminal's description.
    pub term: &'a str,
    /// `TERM_PROGRAM`: the terminal's own name.
    pub term_program: &'a str,
    /// `TERM_PROGRAM_VERSION`: its version or build.
    pub term_program_version: &'a str,
}

/// The first build of Apple's Terminal that shows true color. Earlier ones draw garbage.
const APPLE_TRUE_COLOR_BUILD: u32 = 465;

/// Terminals whose `TERM` says neither `256color` nor `direct`, and that all show true color.
const TRUE_COLOR_TERMS: [&str; 5] =
    ["xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm"];

impl Depth {
    /// How many colors the terminal of these hints shows.
    #[must_use]
    pub fn detect(hints: Hints<'_>) -> Self {
        if !hints.no_color.is_empty() || hints.term == "dumb" {
            return Self::None;
        }
        if hints.term_program == "Apple_Terminal" && apple_build(hints) < APPLE_TRUE_COLOR_BUILD {
            return Self::Indexed256;
        }
        let says_true_color = matches!(hints.colorterm, "truecolor" | "24bit")
            || hints.term.ends_with("-direct")
            || TRUE_COLOR_TERMS.contains(&hints.term);
        if says_true_color {
            Self::TrueColor
        } else if hints.term.contains("256color") {
            Self::Indexed256
        } else {
            Self::Ansi16
        }
    }
}

/// The build of Apple's Terminal: the digits its version starts with.
fn apple_build(hints: Hints<'_>) -> u32 {
    hints.term_program_version.split('.').next().and_then(|build| build.parse().ok()).unwrap_or(0)
}

/// The relative luminance of a color, by WCAG 2: 0 for black, 1 for white.
pub(crate) fn luminance(rgb: [u8; 3]) -> f64 {
    let [r, g, b] = rgb.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// The contrast of two colors, by WCAG 2: 1 for equal ones to 21 for black and white.
pub(crate) fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// The least contrast of text, by WCAG 2 (level AA).
pub(crate) const CONTRAST_MIN: f64 = 4.5;

/// As [`nearest_of_256`], among the colors that are legible on each of the backgrounds `behind`.
pub(crate) fn nearest_legible_of_256(rgb: [u8; 3], behind: &[[u8; 3]]) -> u8 {
    let is_legible = |index: &u8| {
        let shown = rgb_of_256(*index);
        behind.iter().all(|on| contrast(shown, *on) >= CONTRAST_MIN)
    };
    (16..=255_u8)
        .filter(is_legible)
        .min_by_key(|&index| distance(rgb, rgb_of_256(index)))
        .unwrap_or_else(|| nearest_of_256(rgb))
}

/// The number of the color of the 256 that is nearest to `rgb`, of the cube or the grays.
///
/// The first sixteen are never chosen: their shades are the user's.
pub(crate) fn nearest_of_256(rgb: [u8; 3]) -> u8 {
    (16..=255_u8).min_by_key(|&index| distance(rgb, rgb_of_256(index))).unwrap_or(16)
}

/// The color that number `index` of the 256 stands for; black for the first sixteen.
pub(crate) fn rgb_of_256(index: u8) -> [u8; 3] {
    /// The steps of the cube, as xterm defines them.
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    let step = |n: u8| STEPS.get(usize::from(n % 6)).copied().unwrap_or(0);
    match index {
        0..16 => [0, 0, 0],
        16..232 => {
            let n = index - 16;
            [step(n / 36), step(n / 6), step(n)]
        }
        232.. => [8 + 10 * (index - 232); 3],
    }
}

/// How far apart two colors look: squared, with the eye's weights for green, red and blue.
fn distance(one: [u8; 3], other: [u8; 3]) -> i32 {
    let [r, g, b] = [0, 1, 2].map(|part: usize| {
        let of = |rgb: [u8; 3]| rgb.get(part).copied().map_or(0, i32::from);
        of(one) - of(other)
    });
    2 * r * r + 4 * g * g + 3 * b * b
}

/// `share` of one color over another.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "between two bytes, so a byte"
)]
pub(super) fn mixed(under: [u8; 3], over: [u8; 3], share: f64) -> [u8; 3] {
    let mut parts = under;
    for (part, over) in parts.iter_mut().zip(over) {
        *part = f64::from(over).mul_add(share, f64::from(*part) * (1.0 - share)).round() as u8;
    }
    parts
}
