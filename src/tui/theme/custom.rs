//! User-defined themes: colors of tokens that replace the colors of a built-in theme.

use std::fmt;

use super::Name;
use super::palette::Palette;
use crate::user_file::{Fault, Setting};

/// A user-defined theme.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CustomTheme {
    /// Display name of the theme.
    pub name: String,
    pub(super) palette: Palette,
}

impl fmt::Display for CustomTheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// Name of the entry with the built-in theme.
const BASE: &str = "base";

impl CustomTheme {
    /// Reads the theme `name` from entries such as `focus = "#6ea8fe"`.
    ///
    /// Tokens without an entry have the color of a built-in theme. The entry `base` is the name of
    /// that theme. The default is `dark`.
    ///
    /// # Errors
    /// A [`Fault`] for every invalid entry.
    pub fn read(name: &str, tokens: &[Setting]) -> Result<Self, Vec<Fault>> {
        let mut palette = Palette::default();
        let mut faults = Vec::new();
        let mut ordered: Vec<_> = tokens.iter().collect();
        ordered.sort_by_key(|token| token.name != BASE);
        for Setting { name, value, line, .. } in ordered {
            if let Err(why) = set(&mut palette, name, value) {
                faults.push(Fault { line: *line, why });
            }
        }
        faults.sort_by_key(|fault| fault.line);
        if faults.is_empty() { Ok(Self { name: name.to_owned(), palette }) } else { Err(faults) }
    }
}

/// Returns the colors of the theme `name` in the format of a theme file. `None` if the theme has
/// no colors.
#[must_use]
pub fn text_of(name: Name) -> Option<String> {
    let palette = Palette::of_theme(name)?;
    let mut text = format!(
        "# The colors of the theme {name}. Put such a file into the directory themes next to the\n\
         # configuration file. Tokens that are left out have the color of the base.\n{BASE} = {:?}\n",
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
            format!("`{value}` is not a base theme, expected dark, light, cvd or high-contrast")
        })?;
        return Ok(());
    }
    let Some(place) = palette.color_mut(token) else {
        let tokens: Vec<&str> = Palette::tokens().collect();
        return Err(format!(
            "unknown token `{token}`, expected one of {BASE}, {}",
            tokens.join(", ")
        ));
    };
    let digits = value.strip_prefix('#').filter(|digits| digits.len() == 6);
    let color = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    *place = color.ok_or_else(|| {
        format!("`{value}` is not a color, expected red, green and blue as \"#rrggbb\"")
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(lines: &[(&str, &str)]) -> Vec<Setting> {
        let lines: Vec<_> = lines.iter().map(|(name, value)| ("", *name, *value)).collect();
        crate::harness::entries(&lines)
    }

    #[test]
    fn theme_tokens_override_the_base_theme_in_any_order() {
        let own =
            CustomTheme::read("mine", &tokens(&[("focus", "#010203"), ("base", "light")])).unwrap();
        let light = Palette::of_theme(Name::Light).unwrap();
        assert_eq!(own.palette.rgb("focus"), [1, 2, 3]);
        assert_eq!(own.palette.rgb("bg"), light.rgb("bg"));
    }

    #[test]
    fn each_invalid_line_of_a_theme_is_reported() {
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
