//! Color depth of terminals, and the nearest color that a terminal can display.

/// Number of colors of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Depth {
    /// The terminal shows no colors.
    None,
    /// The 16 colors of the terminal's palette.
    Ansi16,
    /// The 16 colors of the palette, a cube of 216 colors, and 24 grays.
    Indexed256,
    /// 256 steps for each of red, green and blue.
    TrueColor,
}

/// First build of Apple's Terminal that supports true color. Earlier builds misinterpret it.
const APPLE_TRUE_COLOR_BUILD: u32 = 465;

/// Values of `TERM` for terminals with true color that do not contain `256color` or `direct`.
const TRUE_COLOR_TERMS: [&str; 5] =
    ["xterm-kitty", "xterm-ghostty", "alacritty", "foot", "wezterm"];

impl Depth {
    /// Returns the color depth of the terminal that environment variables describe. `variable` returns
    /// the value of a variable, or an empty text if it is not set.
    #[must_use]
    pub fn detect(variable: impl Fn(&str) -> String) -> Self {
        let term = variable("TERM");
        if !variable("NO_COLOR").is_empty() || term == "dumb" {
            return Self::None;
        }
        let version = variable("TERM_PROGRAM_VERSION");
        let build = version.split('.').next().unwrap_or_default();
        let is_old = build.parse().unwrap_or(0) < APPLE_TRUE_COLOR_BUILD;
        if variable("TERM_PROGRAM") == "Apple_Terminal" && is_old {
            return Self::Indexed256;
        }
        let says_true_color = matches!(&*variable("COLORTERM"), "truecolor" | "24bit")
            || term.ends_with("-direct")
            || TRUE_COLOR_TERMS.contains(&&*term);
        if says_true_color {
            Self::TrueColor
        } else if term.contains("256color") {
            Self::Indexed256
        } else {
            Self::Ansi16
        }
    }
}

/// Returns the relative luminance of a color according to WCAG 2: 0 for black, 1 for white.
pub(crate) fn luminance(rgb: [u8; 3]) -> f64 {
    let [r, g, b] = rgb.map(|part| {
        let part = f64::from(part) / 255.0;
        if part <= 0.04045 { part / 12.92 } else { ((part + 0.055) / 1.055).powf(2.4) }
    });
    0.2126 * r + 0.7152 * g + 0.0722 * b
}

/// Returns the contrast between two colors according to WCAG 2, from 1 to 21.
pub(crate) fn contrast(one: [u8; 3], other: [u8; 3]) -> f64 {
    let (one, other) = (luminance(one), luminance(other));
    (one.max(other) + 0.05) / (one.min(other) + 0.05)
}

/// Minimum contrast of text according to WCAG 2 (level AA).
pub(crate) const CONTRAST_MIN: f64 = 4.5;

/// Returns the number of a color of the cube or of the grays. This is the color nearest to `rgb` among
/// colors that are legible on all backgrounds `behind`. If no color is legible on all of them, it is the
/// nearest of all colors.
///
/// The first 16 colors are never returned, since they depend on the user's palette.
pub(crate) fn nearest_of_256(rgb: [u8; 3], behind: &[[u8; 3]]) -> u8 {
    let is_legible = |shown| behind.iter().all(|on| contrast(shown, *on) >= CONTRAST_MIN);
    let order = |index: &u8| {
        let shown = rgb_of_256(*index);
        (!is_legible(shown), distance(rgb, shown))
    };
    (16..=255_u8).min_by_key(order).unwrap_or(16)
}

/// Returns the color with the number `index`. Returns black for the first 16 colors, which depend
/// on the user's palette.
pub(crate) fn rgb_of_256(index: u8) -> [u8; 3] {
    /// Levels of red, green and blue in the cube, as defined by xterm.
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

/// Returns the square of the visual distance between two colors. It takes the sensitivity of the
/// eye into account.
fn distance(one: [u8; 3], other: [u8; 3]) -> i32 {
    let [r, g, b] = [0, 1, 2].map(|part: usize| {
        let of = |rgb: [u8; 3]| rgb.get(part).copied().map_or(0, i32::from);
        of(one) - of(other)
    });
    2 * r * r + 4 * g * g + 3 * b * b
}

/// Mixes two colors. `share` is the share of `over`, the rest is `under`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the result is between two bytes"
)]
pub(super) fn mixed(under: [u8; 3], over: [u8; 3], share: f64) -> [u8; 3] {
    let mut parts = under;
    for (part, over) in parts.iter_mut().zip(over) {
        *part = f64::from(over).mul_add(share, f64::from(*part) * (1.0 - share)).round() as u8;
    }
    parts
}
