//! Themes: a style for each token, such as `up` or `focus`.
//!
//! No other module contains colors. A token is a whole [`Style`], so that a theme without colors
//! can distinguish tokens by their weight. The background color of the terminal is queried by the
//! caller.

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
    /// Like dark, but with blue and orange for green and red.
    Cvd,
    /// White on black, with a contrast of at least 7 to 1 for all text.
    HighContrast,
    /// No colors. Tokens differ in weight and inversion.
    Mono,
    /// The 16 colors of the terminal's palette on the terminal's background.
    Ansi16,
    /// A user-defined theme. It is never freed.
    #[strum(to_string = "{0}")]
    Custom(&'static CustomTheme),
}

/// A text is not the name of a theme.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown theme `{text}`, expected dark, light, cvd, high-contrast, mono or ansi16")]
pub struct NameError {
    text: String,
}

/// Tokens that are backgrounds.
const GROUNDS: [&str; 3] = ["bg", "bar", "sel"];

/// A style for each token.
///
/// The styles [`bg`](Self::bg), [`bar`](Self::bar) and [`sel`](Self::sel) are backgrounds. All
/// other styles have no background and are combined with one of these.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) name: Name,
    /// Background of the screen.
    pub(crate) bg: Style,
    /// Background of header, footer, and boxes on top of a chart.
    pub(crate) bar: Style,
    /// Background of selected rows and focused fields.
    pub(crate) sel: Style,
    /// Texts and values without another meaning.
    pub(crate) text: Style,
    /// Labels, units and outdated values.
    pub(crate) muted: Style,
    /// Lines between rows, grids and placeholders. The contrast is too low for texts.
    pub(crate) faint: Style,
    /// Border of a pane.
    pub(crate) border: Style,
    /// Border of the focused pane, marks of selections, names and ids.
    pub(crate) focus: Style,
    /// Other kinds of names, such as roles and sources.
    pub(crate) accent2: Style,
    /// Rising values, success.
    pub(crate) up: Style,
    /// Falling values, failures.
    pub(crate) down: Style,
    /// Warnings and values near a limit.
    pub(crate) warn: Style,
    /// Keys to press.
    pub(crate) key: Style,
    /// Work in progress.
    pub(crate) info: Style,
    /// Lines and dots of different series.
    pub(crate) series: [Style; 6],
    /// Lines over candles. They differ from [`up`](Self::up) and [`down`](Self::down).
    pub(crate) overlay: [Style; 3],
}

/// Theme when the screen opens.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum InitialTheme {
    /// The theme of the last session, or the theme that matches the terminal.
    #[default]
    Session,
    /// This theme, or the theme that matches the terminal if it is `None`. The theme is used only for
    /// this start: the session's theme does not change unless the user chooses another theme.
    Given(Option<Name>),
}

impl Name {
    /// All built-in themes, in the order in which they are listed.
    pub const ALL: [Self; 6] =
        [Self::Dark, Self::Light, Self::Cvd, Self::HighContrast, Self::Mono, Self::Ansi16];

    /// Returns the theme called `text`, which is built in or one of `own`.
    #[must_use]
    pub fn among(text: &str, own: &[&'static CustomTheme]) -> Option<Self> {
        let is_it = |it: &&&'static CustomTheme| it.name == text;
        text.parse().ok().or_else(|| own.iter().find(is_it).map(|own| Self::Custom(own)))
    }

    /// Returns the theme that matches a background color.
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
    /// Returns the theme `name` for a terminal with this color depth.
    ///
    /// With 16 colors, every theme uses the terminal's palette and background, since the colors of
    /// the palette may be illegible on another background. Without colors, tokens differ only in
    /// weight.
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
                        // Tokens with a hyphen color lines and dots, which are only drawn on the
                        // background `bg`.
                        _ if token.contains('-') => nearest(token, &behind[..1]),
                        _ => nearest(token, &behind),
                    })
                })
            }
            Depth::TrueColor => Self::painted(name, |token| palette.rgb(token).into()),
        }
    }

    /// Returns the inverse of a token: text in the color of the background, on the color of the
    /// token. For tags and the current tab.
    pub(crate) fn tag(&self, token: Style) -> Style {
        match (self.bg.bg, token.fg) {
            (Some(bg), Some(fg)) if bg != Color::Reset => {
                Style::new().fg(bg).bg(fg).add_modifier(Modifier::BOLD)
            }
            _ => token.add_modifier(Modifier::REVERSED | Modifier::BOLD),
        }
    }

    /// Returns the background color tinted with the color of `token`. `strength` is from 0 to 1.
    /// Returns `None` if the terminal does not support mixed colors.
    pub(crate) fn wash(&self, token: Style, strength: f64) -> Option<Color> {
        /// Maximum share of the token's color with which texts are still legible.
        const STRONGEST: f64 = 0.3;
        let (Some(Color::Rgb(r, g, b)), Some(Color::Rgb(r0, g0, b0))) = (token.fg, self.bg.bg)
        else {
            return None;
        };
        let share = strength.clamp(0.0, 1.0) * STRONGEST;
        let [r, g, b] = depth::mixed([r0, g0, b0], [r, g, b], share);
        Some(Color::Rgb(r, g, b))
    }

    /// Returns the style for a number, depending on its sign.
    pub(crate) fn signed(&self, value: f64) -> Style {
        if value > 0.0 {
            self.up
        } else if value < 0.0 {
            self.down
        } else {
            self.text
        }
    }

    /// Returns the style of the series `idx`. If there are more series than styles, styles are
    /// repeated.
    pub(crate) fn series(&self, idx: usize) -> Style {
        self.series.get(idx % self.series.len()).copied().unwrap_or(self.text)
    }

    /// Fills `area` with blanks in the background color.
    pub(crate) fn clear(&self, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        if area.is_empty() {
            return;
        }
        // Each frame starts with thousands of blanks, so the blank cell is created once and
        // cloned.
        let mut blank = Cell::EMPTY;
        blank.set_style(self.bg.patch(self.text));
        for y in area.top()..area.bottom() {
            let start = buf.index_of(area.left(), y);
            if let Some(row) = buf.content.get_mut(start..start + usize::from(area.width)) {
                row.fill(blank.clone());
            }
        }
    }

    /// Returns a theme with the styles that `style` returns for the names of the tokens.
    fn of_styles(name: Name, style: impl Fn(&str) -> Style) -> Self {
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
        }
    }

    fn painted(name: Name, color: impl Fn(&str) -> Color) -> Self {
        Self::of_styles(name, |token| {
            let is_ground = GROUNDS.contains(&token);
            let style = Style::new();
            if is_ground { style.bg(color(token)) } else { style.fg(color(token)) }
        })
    }

    fn ansi16(name: Name) -> Self {
        let fg = |color| Style::new().fg(color);
        let plain = fg(Color::Reset);
        let is_cvd = name == Name::Cvd;
        Self::of_styles(name, |token| match (token, is_cvd) {
            ("bg" | "bar", _) => Style::new().bg(Color::Reset),
            // The whole row is inverted in a single color. If each cell were inverted in its
            // color, the row would be a patchwork.
            ("sel", _) => plain.add_modifier(Modifier::REVERSED),
            ("muted", _) => plain.add_modifier(Modifier::DIM),
            ("faint" | "border", _) => fg(Color::DarkGray),
            // Many terminals have a blue that is too dark on black.
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
        Self::of_styles(name, |token| match token {
            "sel" => plain.add_modifier(Modifier::REVERSED),
            "muted" | "faint" | "border" | "series-4" | "overlay-3" => dim,
            "focus" | "warn" | "series-2" | "overlay-1" => bold,
            "series-3" => plain.add_modifier(Modifier::UNDERLINED),
            "key" | "series-5" => bold.add_modifier(Modifier::UNDERLINED),
            "series-6" => dim.add_modifier(Modifier::UNDERLINED),
            _ => plain,
        })
    }
}

#[cfg(test)]
mod tests;
