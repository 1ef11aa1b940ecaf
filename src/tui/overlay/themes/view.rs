//! Draws the choice of a theme at the right of the screen, which shows what the choice does.

use ratatui::{
    layout::Rect,
    text::{Line, Span},
};

use super::state::Themes;
use crate::{
    action::Action,
    keymap::Layer,
    overlay::view::{List, Surface, raise},
    theme::Name,
    view::{centered, split_rows},
    widget::{paint, pane::Pane},
};

/// The width of the box.
const WIDTH: u16 = 46;

pub(crate) fn draw(on: Surface<'_>, themes: Themes) {
    let Surface { area, buf, frame, hits } = on;
    let theme = frame.theme;
    let own = frame.state.custom_themes.as_slice();
    let n_rows = u16::try_from(Themes::rows(own).count()).unwrap_or(u16::MAX);
    let place = centered(area, WIDTH, n_rows.saturating_add(6));
    let x = area.right().saturating_sub(place.width.saturating_add(2)).max(area.x);
    let place = Rect { x, y: area.y + (area.height - place.height).min(2), ..place };
    let of = Pane::new("Theme").info(
        frame.hints(Layer::Choice, &[(Action::Open, "takes it"), (Action::Back, "goes back")]),
    );
    let inside = raise(place, buf, frame, of, hits);
    let list = List { n_rows: n_rows.into(), selected: themes.row, pitch: 1 };
    list.draw(split_rows(inside, 1)[1], buf, frame, hits, |buf, place, row| {
        let Some(name) = Themes::rows(own).nth(row) else { return };
        let text = name.map_or_else(|| "auto".to_owned(), |name| name.to_string());
        paint::text(buf, place, (2, 0), &text, theme.text);
        let is_faint = matches!(name, Some(Name::Custom(own)) if !own.low_contrast().is_empty());
        let (words, style) =
            if is_faint { ("! hard to read", theme.warn) } else { (words(name), theme.muted) };
        paint::text(buf, place, (17, 0), words, style);
    });
    let swatches = [
        ("focus ", theme.focus),
        ("▲ up ", theme.up),
        ("▼ down ", theme.down),
        ("warn ", theme.warn),
        ("info ", theme.info),
        ("key", theme.key),
    ];
    let spans = swatches.map(|(text, style)| Span::styled(text, style));
    paint::line(buf, inside, (2, n_rows.saturating_add(2)), &Line::from(spans.to_vec()));
}

/// What a theme is for.
const fn words(name: Option<Name>) -> &'static str {
    match name {
        None => "suits the terminal",
        Some(Name::Dark) => "on dark blue-gray",
        Some(Name::Light) => "on nearly white",
        Some(Name::Cvd) => "blue and orange",
        Some(Name::HighContrast) => "7 to 1 or better",
        Some(Name::Mono) => "weight, no color",
        Some(Name::Custom(_)) => "of your own",
        Some(Name::Ansi16) => "your own 16 colors",
    }
}
