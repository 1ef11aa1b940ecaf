//! Themes: a style for each token, such as `up` or `focus`.
//!
//! Only this module names colors. A token is a whole [`Style`], so that a theme without colors can
//! still distinguish things by weight. The caller queries the terminal for its background.

pub mod custom;
pub mod depth;
mod palette;

use std::str::FromStr;

use ratatui::buffer::Cell;
use ratatui::prelude::*;

use self::custom::CustomTheme;
use self::depth::Depth;
use self::palette::Palette;

/// Name of a theme.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, strum::Display)]
#[strum(serialize_all = "kebab-case")]
pub enum Name {
    /// Light on dark blue-gray.
    Dark,
    /// Dark on nearly white.
    Light,
    /// As dark, with blue and orange in place of green and red.
    Cvd,
    /// White on black, with a contrast of at least 7 to 1 for all text.
    HighContrast,
    /// No colors: weight and inversion only.
    Mono,
    /// The 16 colors of the terminal's palette, on its background.
    Ansi16,
    /// A user-defined theme, which lives as long as the program.
    #[strum(to_string = "{0}")]
    Custom(&'static CustomTheme),
}

/// The text is not the name of a theme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown theme `{text}`, expected dark, light, cvd, high-contrast, mono or ansi16")]
pub struct NameError {
    text: String,
}

/// Tokens of the backgrounds.
const GROUNDS: [&str; 3] = ["bg", "bar", "sel"];

/// Fill of the body of a falling candle.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fill {
    /// Filled like a rising candle, which differs in its color.
    Solid,
    /// Shaded, for themes without colors.
    Shaded,
}

/// A style for each meaning.
///
/// The backgrounds [`bg`](Self::bg), [`bar`](Self::bar) and [`sel`](Self::sel) are combined with
/// one of the other styles, which set no background.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) name: Name,
    /// Background of the screen.
    pub(crate) bg: Style,
    /// Background of the header, the footer, and boxes over a chart.
    pub(crate) bar: Style,
    /// Background of the selected row and the focused field.
    pub(crate) sel: Style,
    /// Text.
    pub(crate) text: Style,
    /// Labels, units, old values.
    pub(crate) muted: Style,
    /// Rules, grids and placeholders. Its contrast is too low for text.
    pub(crate) faint: Style,
    /// Border of a pane.
    pub(crate) border: Style,
    /// Border of the focused pane, selections, identities.
    pub(crate) focus: Style,
    /// Second kind of identities: roles, sources.
    pub(crate) accent2: Style,
    /// Rising values, success.
    pub(crate) up: Style,
    /// Falling values, failures.
    pub(crate) down: Style,
    /// Warnings.
    pub(crate) warn: Style,
    /// Keys to press.
    pub(crate) key: Style,
    /// Work in progress.
    pub(crate) info: Style,
    /// Lines and dots that only have to be distinct from one another.
    pub(crate) series: [Style; 6],
    /// Lines over candles: distinct from [`up`](Self::up) and [`down`](Self::down).
    pub(crate) overlay: [Style; 3],
    /// Fill of falling candles.
    pub(crate) fill_down: Fill,
}

/// Theme at the start of the screen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialTheme {
    /// The theme of the last session, or the theme that matches the terminal.
    #[default]
    Session,
    /// This theme, or `None` to match the terminal. It applies only to this start and does not change
    /// the session's theme, unless the user chooses another one.
    Given(Option<Name>),
}

impl Name {
    /// All built-in themes, in the order of the list.
    pub const ALL: [Self; 6] =
        [Self::Dark, Self::Light, Self::Cvd, Self::HighContrast, Self::Mono, Self::Ansi16];

    /// Returns the built-in or user-defined theme with the name `text`.
    #[must_use]
    pub fn among(text: &str, own: &[&'static CustomTheme]) -> Option<Self> {
        let is_it = |it: &&&'static CustomTheme| it.name == text;
        text.parse().ok().or_else(|| own.iter().find(is_it).map(|own| Self::Custom(own)))
    }

    /// Returns the theme that suits a background color.
    pub(crate) fn for_background(rgb: [u8; 3]) -> Self {
        /// Luminance at which black and white text are equally legible.
        const EVEN: f64 = 0.179;
        if depth::luminance(rgb) > EVEN { Self::Light } else { Self::Dark }
    }
}

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|name| name.to_string() == text)
            .ok_or_else(|| NameError { text: text.chars().take(32).collect() })
    }
}

impl Theme {
    /// Returns theme `name` in the colors of a terminal with color depth `depth`.
    ///
    /// With 16 colors, every theme uses the terminal's palette, which may be illegible on a painted
    /// background. Without colors, it uses only weight.
    pub(crate) fn new(name: Name, depth: Depth) -> Self {
        let Some(palette) = Palette::of_theme(name) else {
            let is_plain = name == Name::Mono || depth == Depth::None;
            return if is_plain { Self::mono(name) } else { Self::ansi16(name) };
        };
        match depth {
            Depth::None => Self::mono(name),
            Depth::Ansi16 => Self::ansi16(name),
            Depth::Indexed256 => {
                let nearest = |token: &str, behind: &[[u8; 3]]| {
                    depth::nearest_of_256(palette.rgb(token), behind)
                };
                let behind = GROUNDS.map(|token| depth::rgb_of_256(nearest(token, &[])));
                Self::painted(name, |token| {
                    Color::Indexed(match token {
                        "bg" | "bar" | "sel" | "faint" | "border" => nearest(token, &[]),
                        // Lines and dots are drawn only on the background of the screen.
                        _ if token.contains('-') => nearest(token, &behind[..1]),
                        _ => nearest(token, &behind),
                    })
                })
            }
            Depth::TrueColor => Self::painted(name, |token| palette.rgb(token).into()),
        }
    }

    /// Returns the inverse of a token, with its color as the background: for tags and the current
    /// tab.
    pub(crate) fn tag(&self, token: Style) -> Style {
        match (self.bg.bg, token.fg) {
            (Some(bg), Some(fg)) if bg != Color::Reset => {
                Style::new().fg(bg).bg(fg).add_modifier(Modifier::BOLD)
            }
            _ => token.add_modifier(Modifier::REVERSED | Modifier::BOLD),
        }
    }

    /// Returns the background tinted with the color of `token`, by a `strength` from 0 to 1. Returns
    /// `None` if colors cannot be mixed.
    pub(crate) fn wash(&self, token: Style, strength: f64) -> Option<Color> {
        /// Maximum share of the color at which text stays legible.
        const STRONGEST: f64 = 0.3;
        let (Some(Color::Rgb(r, g, b)), Some(Color::Rgb(r0, g0, b0))) = (token.fg, self.bg.bg)
        else {
            return None;
        };
        let share = strength.clamp(0.0, 1.0) * STRONGEST;
        let [r, g, b] = depth::mixed([r0, g0, b0], [r, g, b], share);
        Some(Color::Rgb(r, g, b))
    }

    /// Returns the style of a number by its sign.
    pub(crate) fn signed(&self, value: f64) -> Style {
        if value > 0.0 {
            self.up
        } else if value < 0.0 {
            self.down
        } else {
            self.text
        }
    }

    /// Returns the style of series `idx`, wrapping around.
    pub(crate) fn series(&self, idx: usize) -> Style {
        self.series.get(idx % self.series.len()).copied().unwrap_or(self.text)
    }

    /// Paints `area` with the background and blanks it.
    pub(crate) fn clear(&self, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.is_empty() {
            return;
        }
        // The blank is created once, since each frame starts with thousands of them.
        let mut blank = Cell::EMPTY;
        blank.set_style(self.bg.patch(self.text));
        for y in area.top()..area.bottom() {
            let start = buf.index_of(area.left(), y);
            if let Some(row) = buf.content.get_mut(start..start + usize::from(area.width)) {
                row.fill(blank.clone());
            }
        }
    }

    /// Returns the theme with the style that `style` returns for each token.
    fn of_styles(name: Name, fill_down: Fill, style: impl Fn(&str) -> Style) -> Self {
        Self {
            name,
            bg: style("bg"),
            bar: style("bar"),
            sel: style("sel"),
            text: style("text"),
            muted: style("muted"),
            faint: style("faint"),
            border: style("border"),
            focus: style("focus"),
            accent2: style("accent2"),
            up: style("up"),
            down: style("down"),
            warn: style("warn"),
            key: style("key"),
            info: style("info"),
            series: ["series-1", "series-2", "series-3", "series-4", "series-5", "series-6"]
                .map(&style),
            overlay: ["overlay-1", "overlay-2", "overlay-3"].map(&style),
            fill_down,
        }
    }

    fn painted(name: Name, color: impl Fn(&str) -> Color) -> Self {
        Self::of_styles(name, Fill::Solid, |token| {
            let is_ground = GROUNDS.contains(&token);
            let style = Style::new();
            if is_ground { style.bg(color(token)) } else { style.fg(color(token)) }
        })
    }

    fn ansi16(name: Name) -> Self {
        let fg = |color| Style::new().fg(color);
        let plain = fg(Color::Reset);
        let is_cvd = name == Name::Cvd;
        Self::of_styles(name, Fill::Solid, |token| match (token, is_cvd) {
            ("bg" | "bar", _) => Style::new().bg(Color::Reset),
            // One color for the whole row, which would otherwise be a row of patches.
            ("sel", _) => plain.add_modifier(Modifier::REVERSED),
            ("muted", _) => plain.add_modifier(Modifier::DIM),
            ("faint" | "border", _) => fg(Color::DarkGray),
            // The plain blue of many terminals is too dark on black.
            ("focus", _) => fg(Color::LightBlue),
            ("key", _) => fg(Color::Yellow).add_modifier(Modifier::BOLD),
            ("info" | "series-1", _) | ("overlay-3", false) | ("overlay-2", true) => {
                fg(Color::Cyan)
            }
            ("accent2", _)
            | ("series-4" | "overlay-2", false)
            | ("series-2" | "overlay-1", true) => fg(Color::Magenta),
            ("up", false) | ("series-3", _) | ("overlay-3", true) => fg(Color::Green),
            ("down" | "series-6", false) | ("series-4", true) => fg(Color::Red),
            ("up", true) | ("series-5", _) => fg(Color::Blue),
            ("warn", _) | ("series-2" | "overlay-1", false) | ("down" | "series-6", true) => {
                fg(Color::Yellow)
            }
            _ => plain,
        })
    }

    fn mono(name: Name) -> Self {
        let plain = Style::new();
        let bold = plain.add_modifier(Modifier::BOLD);
        let dim = plain.add_modifier(Modifier::DIM);
        Self::of_styles(name, Fill::Shaded, |token| match token {
            "sel" => plain.add_modifier(Modifier::REVERSED),
            "muted" | "faint" | "border" | "series-4" | "series-6" | "overlay-3" => dim,
            "focus" | "warn" | "series-2" | "series-5" | "overlay-1" => bold,
            "key" => bold.add_modifier(Modifier::UNDERLINED),
            _ => plain,
        })
    }
}

#[cfg(test)]
mod tests;
