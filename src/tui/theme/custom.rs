//! Themes of the user's own: tokens and their colors, over those of a theme there is.

use super::{
    Name,
    depth::{CONTRAST_MIN, contrast},
    palette::{self, Palette, Rgb},
};

/// A theme of the user's own.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CustomTheme {
    /// The display name.
    pub name: String,
    pub(super) palette: Palette,
}

/// Why a line of a theme cannot be followed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// Which, by its place among the tokens.
    pub token: usize,
    /// Why, and what to write instead.
    pub why: String,
}

/// A color that is hard to read on a background it may stand on.
#[derive(Debug, Clone, PartialEq)]
pub struct LowContrast {
    /// The token of the letters.
    pub token: &'static str,
    /// The token of what is behind them.
    pub on: &'static str,
    /// Their contrast, by WCAG 2.
    pub ratio: f64,
}

/// The tokens that text is written in, which has to be legible on every background.
const TEXTS: [&str; 9] = ["text", "muted", "focus", "accent2", "up", "down", "warn", "key", "info"];

/// The backgrounds of text.
const GROUNDS: [&str; 3] = ["bg", "bar", "sel"];

/// The token that names the theme beneath.
const BASE: &str = "base";

/// Every token, in the order of a theme's file.
const TOKENS: [&str; 23] = [
    "bg",
    "bar",
    "sel",
    "text",
    "muted",
    "faint",
    "border",
    "focus",
    "accent2",
    "up",
    "down",
    "warn",
    "key",
    "info",
    "series-1",
    "series-2",
    "series-3",
    "series-4",
    "series-5",
    "series-6",
    "overlay-1",
    "overlay-2",
    "overlay-3",
];

impl CustomTheme {
    /// The theme `name` of these tokens and colors, such as `("focus", "#6ea8fe")`.
    ///
    /// The token `base` names the theme whose colors hold for tokens that are left out; that of dark
    /// terminals where there is none.
    ///
    /// # Errors
    /// A [`Fault`] for every token that cannot be followed.
    pub fn read(name: &str, tokens: &[(String, String)]) -> Result<Self, Vec<Fault>> {
        let mut palette = palette::DARK;
        let mut faults = Vec::new();
        let mut ordered: Vec<_> = tokens.iter().enumerate().collect();
        ordered.sort_by_key(|(_, (key, _))| key != BASE);
        for (token, (key, value)) in ordered {
            if let Err(why) = set(&mut palette, key, value) {
                faults.push(Fault { token, why });
            }
        }
        faults.sort_by_key(|fault| fault.token);
        if faults.is_empty() { Ok(Self { name: name.to_owned(), palette }) } else { Err(faults) }
    }
}

impl CustomTheme {
    /// What of it is hard to read, the worst first: text on any background, lines on that of panes,
    /// each held to what the themes of the program reach.
    #[must_use]
    pub fn low_contrast(&self) -> Vec<LowContrast> {
        let mut palette = self.palette.clone();
        let lines = TOKENS.iter().filter(|token| token.contains('-'));
        let texts = TEXTS.iter().flat_map(|token| GROUNDS.map(|on| (*token, on)));
        let pairs: Vec<_> = texts.chain(lines.map(|token| (*token, "bg"))).collect();
        let mut rgb = |token| slot(&mut palette, token).map(|color| color.parts());
        let ratio = |(token, on)| {
            let ratio = contrast(rgb(token)?, rgb(on)?);
            (ratio < CONTRAST_MIN).then_some(LowContrast { token, on, ratio })
        };
        let mut faint: Vec<_> = pairs.into_iter().filter_map(ratio).collect();
        faint.sort_by(|one, other| one.ratio.total_cmp(&other.ratio));
        faint
    }
}

/// The colors of the theme `name` as a theme's file; none if it paints nothing itself.
#[must_use]
pub fn text_of(name: Name) -> Option<String> {
    let mut palette = name.palette()?.clone();
    let mut text = format!(
        "# The colors of the theme {name}. Put a file like this into the folder themes beside the\n\
         # configuration file; what is left out is as in the base.\n{BASE} = {:?}\n",
        match name {
            Name::Custom(_) => Name::Dark.to_string(),
            name => name.to_string(),
        }
    );
    for token in TOKENS {
        if let Some(Rgb(color)) = slot(&mut palette, token) {
            text.extend([token, " = \"", &format!("#{color:06x}"), "\"\n"]);
        }
    }
    Some(text)
}

fn set(palette: &mut Palette, token: &str, value: &str) -> Result<(), String> {
    if token == BASE {
        let base = value.parse::<Name>().ok().and_then(Name::palette);
        *palette = base.cloned().ok_or_else(|| {
            format!("`{value}` is no theme to start from: dark, light, cvd or high-contrast")
        })?;
        return Ok(());
    }
    let Some(place) = slot(palette, token) else {
        return Err(format!(
            "there is no token `{token}`; there are {BASE}, {}",
            TOKENS.join(", ")
        ));
    };
    let digits = value.strip_prefix('#').filter(|digits| digits.len() == 6);
    let color = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
    *place = Rgb(color.ok_or_else(|| {
        format!("`{value}` is no color: write red, green and blue as \"#rrggbb\"")
    })?);
    Ok(())
}

fn slot<'a>(palette: &'a mut Palette, token: &str) -> Option<&'a mut Rgb> {
    Some(match token {
        "bg" => &mut palette.bg,
        "bar" => &mut palette.bar,
        "sel" => &mut palette.sel,
        "text" => &mut palette.text,
        "muted" => &mut palette.muted,
        "faint" => &mut palette.faint,
        "border" => &mut palette.border,
        "focus" => &mut palette.focus,
        "accent2" => &mut palette.accent2,
        "up" => &mut palette.up,
        "down" => &mut palette.down,
        "warn" => &mut palette.warn,
        "key" => &mut palette.key,
        "info" => &mut palette.info,
        _ => {
            let (kind, number) = token.split_once('-')?;
            let idx = number.parse::<usize>().ok()?.checked_sub(1)?;
            return match kind {
                "series" => palette.series.get_mut(idx),
                "overlay" => palette.overlay.get_mut(idx),
                _ => None,
            };
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(lines: &[(&str, &str)]) -> Vec<(String, String)> {
        lines.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
    }

    #[test]
    fn tokens_override_the_base_in_any_order() {
        let own =
            CustomTheme::read("mine", &tokens(&[("focus", "#010203"), ("base", "light")])).unwrap();
        let light = &palette::LIGHT;
        assert_eq!((own.palette.focus, own.palette.bg), (Rgb(0x0001_0203), light.bg));
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
        let told: Vec<usize> = faults.iter().map(|fault| fault.token).collect();
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
            assert_eq!(Some(&own.palette), name.palette(), "{name}");
        }
        assert_eq!(text_of(Name::Mono), None);
    }
}
