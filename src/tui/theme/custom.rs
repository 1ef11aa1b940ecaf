//! User-defined themes: colors of tokens, on top of a built-in theme.

use super::Name;
use super::depth::{CONTRAST_MIN, contrast};
use super::palette::Palette;
use crate::user_file::{Entry, Fault};

/// A user-defined theme.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CustomTheme {
    /// Display name.
    pub name: String,
    pub(super) palette: Palette,
}

/// A text color with a low contrast to one of its backgrounds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LowContrast {
    /// Token of the text.
    pub(crate) token: &'static str,
    /// Token of the background.
    pub(crate) on: &'static str,
    /// Contrast according to WCAG 2.
    pub(crate) ratio: f64,
}

/// Tokens of text, which has to be legible on every background.
const TEXTS: [&str; 9] = ["text", "muted", "focus", "accent2", "up", "down", "warn", "key", "info"];

/// Tokens of the backgrounds of text.
const GROUNDS: [&str; 3] = ["bg", "bar", "sel"];

/// Key of the built-in theme for tokens that are left out.
const BASE: &str = "base";

impl CustomTheme {
    /// Reads the theme `name` from entries such as `focus = "#6ea8fe"`.
    ///
    /// The entry `base` names the theme for tokens that are left out, by default `dark`.
    ///
    /// # Errors
    /// A [`Fault`] for every invalid entry.
    pub fn read(name: &str, tokens: &[Entry]) -> Result<Self, Vec<Fault>> {
        let mut palette = Palette::default();
        let mut faults = Vec::new();
        let mut ordered: Vec<_> = tokens.iter().collect();
        ordered.sort_by_key(|token| token.name != BASE);
        for Entry { name, value, line, .. } in ordered {
            if let Err(why) = set(&mut palette, name, value) {
                faults.push(Fault { line: *line, why });
            }
        }
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() { Ok(Self { name: name.to_owned(), palette }) } else { Err(faults) }
    }

    /// Returns the combinations with a low contrast, worst first: text on any background, lines on the
    /// background of the screen. The list is empty for the built-in themes.
    pub(crate) fn low_contrast(&self) -> Vec<LowContrast> {
        let lines = Palette::tokens().filter(|token| token.contains('-'));
        let texts = TEXTS.iter().flat_map(|token| GROUNDS.map(|on| (*token, on)));
        let pairs: Vec<_> = texts.chain(lines.map(|token| (token, "bg"))).collect();
        let ratio = |(token, on)| {
            let ratio = contrast(self.palette.rgb(token), self.palette.rgb(on));
            (ratio < CONTRAST_MIN).then_some(LowContrast { token, on, ratio })
        };
        let mut faint: Vec<_> = pairs.into_iter().filter_map(ratio).collect();
        faint.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
        faint
    }
}

/// Returns the colors of the theme `name` as a theme file, or `None` for a theme without colors.
#[must_use]
pub fn text_of(name: Name) -> Option<String> {
    let palette = Palette::of_theme(name)?;
    let mut text = format!(
        "# The colors of the theme {name}. Put a file like this into the folder themes beside the\n\
         # configuration file; what is left out is as in the base.\n{BASE} = {:?}\n",
        match name {
            Name::Custom(_) => Name::Dark.to_string(),
            name => name.to_string(),
        }
    );
    for token in Palette::tokens() {
        let [r, g, b] = palette.rgb(token);
        text.extend([token, " = \"#", &format!("{r:02x}{g:02x}{b:02x}"), "\"\n"]);
    }
    Some(text)
}

fn set(palette: &mut Palette, token: &str, value: &str) -> Result<(), String> {
    if token == BASE {
        let base = value.parse().ok().and_then(Palette::of_theme);
        *palette = base.ok_or_else(|| {
            format!("`{value}` is no theme to start from: dark, light, cvd or high-contrast")
        })?;
        return Ok(());
    }
    let Some(place) = palette.color_mut(token) else {
        let tokens: Vec<&str> = Palette::tokens().collect();
        return Err(format!(
            "there is no token `{token}`; there are {BASE}, {}",
            tokens.join(", ")
        ));
    };
    let digits = value.strip_prefix('#').filter(|digits| digits.len() == 6);
    let color = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    *place = color.ok_or_else(|| {
        format!("`{value}` is no color: write red, green and blue as \"#rrggbb\"")
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(lines: &[(&str, &str)]) -> Vec<Entry> {
        let lines: Vec<_> = lines.iter().map(|(name, value)| ("", *name, *value)).collect();
        crate::harness::entries(&lines)
    }

    #[test]
    fn tokens_override_the_base_in_any_order() {
        let own =
            CustomTheme::read("mine", &tokens(&[("focus", "#010203"), ("base", "light")])).unwrap();
        let light = Palette::of_theme(Name::Light).unwrap();
        assert_eq!(own.palette.rgb("focus"), [1, 2, 3]);
        assert_eq!(own.palette.rgb("bg"), light.rgb("bg"));
    }

    #[test]
    fn low_contrast_is_listed_worst_first() {
        let own = |lines: &[(&str, &str)]| CustomTheme::read("mine", &tokens(lines)).unwrap();
        let own = own(&[("muted", "#333a4c"), ("series-2", "#11131a")]);
        let faint = own.low_contrast();
        let named: Vec<_> = faint.iter().map(|faint| (faint.token, faint.on)).collect();
        assert_eq!(
            named,
            [("series-2", "bg"), ("muted", "sel"), ("muted", "bar"), ("muted", "bg")]
        );
        assert!(faint[0].ratio < 1.01 && faint[3].ratio < CONTRAST_MIN, "{faint:?}");
    }

    #[test]
    fn built_in_themes_are_legible_as_custom_ones() {
        for base in ["dark", "light", "cvd", "high-contrast"] {
            let own = CustomTheme::read("mine", &tokens(&[("base", base)])).unwrap();
            assert_eq!(own.low_contrast(), [], "{base}");
        }
    }

    #[test]
    fn each_invalid_line_is_reported() {
        let lines = [("fokus", "#010203"), ("bg", "blue"), ("base", "mono"), ("series-7", "#0")];
        let faults = CustomTheme::read("mine", &tokens(&lines)).unwrap_err();
        let told: Vec<usize> = faults.iter().map(|fault| fault.line).collect();
        assert_eq!(told, [0, 1, 2, 3]);
        assert!(faults[0].why.contains("focus") && faults[1].why.contains("#rrggbb"));
    }

    #[test]
    fn printed_themes_round_trip() {
        for name in [Name::Dark, Name::Light, Name::Cvd, Name::HighContrast] {
            let text = text_of(name).unwrap();
            let lines = text.lines().filter_map(|line| line.split_once(" = "));
            let read: Vec<_> = lines.map(|(a, b)| (a, b.trim_matches('"'))).collect();
            let own = CustomTheme::read("again", &tokens(&read)).unwrap();
            assert_eq!(Some(own.palette), Palette::of_theme(name), "{name}");
        }
        assert_eq!(text_of(Name::Mono), None);
    }
}
