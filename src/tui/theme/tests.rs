use proptest::prelude::*;

use super::depth::*;
use super::*;

/// Returns the names and styles of the tokens that are used for text.
fn text_tokens(theme: &Theme) -> Vec<(&'static str, Style)> {
    vec![
        ("text", theme.text),
        ("muted", theme.muted),
        ("focus", theme.focus),
        ("accent2", theme.accent2),
        ("up", theme.up),
        ("down", theme.down),
        ("warn", theme.warn),
        ("key", theme.key),
        ("info", theme.info),
    ]
}

fn rgb(color: Option<Color>) -> [u8; 3] {
    match color {
        Some(Color::Rgb(r, g, b)) => [r, g, b],
        Some(Color::Indexed(index)) => rgb_of_256(index),
        other => panic!("no painted color: {other:?}"),
    }
}

const PAINTED: [Name; 4] = [Name::Dark, Name::Light, Name::Cvd, Name::HighContrast];

#[test]
fn every_text_is_legible_on_its_backgrounds() {
    for depth in [Depth::TrueColor, Depth::Indexed256] {
        for name in PAINTED {
            let theme = Theme::new(name, depth);
            let least = match (name, depth) {
                (Name::HighContrast, Depth::TrueColor) => 7.0,
                // With 256 colors, the background `sel` is replaced by a lighter color, on which
                // texts have less contrast.
                (Name::HighContrast, _) => 6.0,
                _ => CONTRAST_MIN,
            };
            for (token, style) in text_tokens(&theme) {
                for (on, background) in [("bg", theme.bg), ("bar", theme.bar), ("sel", theme.sel)] {
                    let ratio = contrast(rgb(style.fg), rgb(background.bg));
                    assert!(ratio >= least, "{name} {depth:?}: {token} on {on} is {ratio:.2}");
                }
            }
            for (idx, style) in theme.series.iter().chain(&theme.overlay).enumerate() {
                let ratio = contrast(rgb(style.fg), rgb(theme.bg.bg));
                assert!(ratio >= least, "{name} {depth:?}: series {idx} is {ratio:.2}");
            }
        }
    }
}

#[test]
fn borders_of_every_theme_are_visible_but_faint() {
    for name in PAINTED {
        let theme = Theme::new(name, Depth::TrueColor);
        let faint = contrast(rgb(theme.faint.fg), rgb(theme.bg.bg));
        let text = contrast(rgb(theme.text.fg), rgb(theme.bg.bg));
        assert!((1.5..text / 2.0).contains(&faint), "{name}: faint is {faint:.2}");
    }
}

/// Returns a color as it is seen without red (protanopia) or green (deuteranopia) receptors: the
/// projection of Viénot, Brettel and Mollon (1999) in linear light.
fn seen_without(receptor: &str, rgb: [u8; 3]) -> [f64; 3] {
    let [r, g, b] = rgb.map(|part| (f64::from(part) / 255.0).powf(2.2));
    match receptor {
        "red" => {
            [0.11238 * r + 0.88762 * g, 0.11238 * r + 0.88762 * g, 0.00401 * r - 0.00401 * g + b]
        }
        _ => [0.29275 * r + 0.70725 * g, 0.29275 * r + 0.70725 * g, -0.02234 * r + 0.02234 * g + b],
    }
}

/// Returns the perceived difference between two colors in linear light: their distance in CIELAB.
fn difference(one: [f64; 3], other: [f64; 3]) -> f64 {
    let lab = |[r, g, b]: [f64; 3]| {
        let white = [0.95047, 1.0, 1.08883];
        let xyz = [
            0.4124 * r + 0.3576 * g + 0.1805 * b,
            0.2126 * r + 0.7152 * g + 0.0722 * b,
            0.0193 * r + 0.1192 * g + 0.9505 * b,
        ];
        let part = |idx: usize| {
            let share = f64::max(xyz[idx] / white[idx], 0.0);
            if share > 0.008_856 { share.cbrt() } else { 7.787 * share + 16.0 / 116.0 }
        };
        let [x, y, z] = [part(0), part(1), part(2)];
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    };
    lab(one).iter().zip(lab(other)).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

#[test]
fn colors_of_rises_and_falls_differ_for_color_blind_users() {
    for name in PAINTED {
        let theme = Theme::new(name, Depth::TrueColor);
        // At least twice the just noticeable difference. In the theme for color-blind users, far
        // more. Rising and falling values also differ in their symbols.
        let least = if name == Name::Cvd { 50.0 } else { 5.0 };
        for receptor in ["red", "green"] {
            let seen = |style: Style| seen_without(receptor, rgb(style.fg));
            let apart = difference(seen(theme.up), seen(theme.down));
            assert!(apart >= least, "{name} without {receptor}: {apart:.1}");
        }
    }
}

#[test]
fn theme_without_color_depth_uses_no_colors() {
    for name in Name::ALL {
        let theme = Theme::new(name, Depth::None);
        let mut styles = vec![theme.bg, theme.bar, theme.sel, theme.faint, theme.border];
        styles.extend(text_tokens(&theme).into_iter().map(|(_, style)| style));
        styles.extend(theme.series);
        styles.extend([theme.tag(theme.up), theme.signed(-1.0)]);
        for style in styles {
            assert_eq!((style.fg, style.bg), (None, None), "{name}");
        }
    }
}

#[test]
fn styles_of_series_differ_in_every_theme_and_color_depth() {
    for name in Name::ALL {
        for depth in [Depth::None, Depth::Ansi16, Depth::TrueColor] {
            let series = Theme::new(name, depth).series;
            for (idx, style) in series.iter().enumerate() {
                assert!(!series[..idx].contains(style), "{name} {depth:?}: series {idx}");
            }
        }
    }
}

#[test]
fn sixteen_colors_leave_the_background_to_the_terminal() {
    for name in PAINTED {
        let theme = Theme::new(name, Depth::Ansi16);
        assert_eq!(theme.bg.bg, Some(Color::Reset), "{name}");
        assert_ne!(theme.up.fg, theme.down.fg, "{name}");
    }
}

#[test]
fn names_of_themes_round_trip() {
    for name in Name::ALL {
        assert_eq!(name.to_string().parse(), Ok(name));
    }
    assert!("solarized".parse::<Name>().is_err());
}

#[test]
fn theme_is_chosen_by_the_background_color() {
    assert_eq!(Name::for_background([0, 0, 0]), Name::Dark);
    assert_eq!(Name::for_background([40, 44, 52]), Name::Dark);
    assert_eq!(Name::for_background([253, 246, 227]), Name::Light);
}

#[track_caller]
fn check(variables: &[(&str, &str)], want: Depth) {
    let value = |name: &str| variables.iter().rfind(|it| it.0 == name).map_or("", |it| it.1);
    assert_eq!(Depth::detect(|name| value(name).to_owned()), want, "{variables:?}");
}

#[test]
fn color_depth_is_chosen_by_the_environment() {
    check(&[], Depth::Ansi16);
    check(&[("TERM", "xterm")], Depth::Ansi16);
    check(&[("TERM", "xterm-256color")], Depth::Indexed256);
    check(&[("TERM", "xterm-direct")], Depth::TrueColor);
    check(&[("TERM", "xterm-kitty")], Depth::TrueColor);
    let color = [("TERM", "xterm-256color"), ("COLORTERM", "truecolor")];
    check(&color, Depth::TrueColor);
    check(&[color[0], color[1], ("NO_COLOR", "1")], Depth::None);
    check(&[("TERM", "dumb"), color[1]], Depth::None);
    for (build, want) in [("453", Depth::Indexed256), ("465.1", Depth::TrueColor)] {
        let apple = [("TERM_PROGRAM", "Apple_Terminal"), ("TERM_PROGRAM_VERSION", build)];
        check(&[color, apple].concat(), want);
    }
}

#[test]
fn nearest_of_256_colors_is_the_exact_color_if_it_exists() {
    for index in 16..=255_u8 {
        let rgb = rgb_of_256(index);
        assert_eq!(rgb_of_256(nearest_of_256(rgb, &[])), rgb, "{index}");
    }
    assert_eq!(nearest_of_256([255, 255, 255], &[]), 231);
    assert_eq!(nearest_of_256([0x11, 0x13, 0x1a], &[]), 233);
}

proptest! {
    #[test]
    fn clearing_any_area_does_not_panic(
        x in 0..20u16, y in 0..20u16, w in 0..40u16, h in 0..40u16,
    ) {
        let mut buf = Buffer::empty(Rect::new(3, 3, 12, 9));
        for name in Name::ALL {
            let theme = Theme::new(name, Depth::TrueColor);
            theme.clear(Rect::new(x, y, w, h), &mut buf);
        }
    }
}
