//! The rows of the dataset as a table: all columns, as far into the past as one scrolls.

use std::borrow::Cow;

use model::row::Value;
use ratatui::{buffer::Buffer, layout::Rect, style::Modifier};
use unicode_width::UnicodeWidthStr;

use super::Scene;
use crate::{
    screens::data::state::table::{Table, TableRow},
    widget::{format, note, paint},
};

/// The widest column of text.
const TEXT_MAX: usize = 32;

/// The columns of a timestamp.
const TIME_WIDTH: u16 = 19;

/// Draws the rows around the chosen one into `area`; returns where each of the list is.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) -> Vec<(usize, Rect)> {
    let (table, theme) = (&scene.state.table, scene.theme);
    if area.height < 3 {
        return Vec::new();
    }
    if table.rows().is_empty() {
        draw_nothing(area, buf, scene);
        return Vec::new();
    }
    // The last row says what there is beyond those above.
    let body = Rect { height: area.height - 1, ..area };
    let n_shown = usize::from(body.height - 1);
    let chosen = table.selected_idx();
    let n_beyond = table.rows().len().saturating_sub(n_shown);
    let first = chosen.saturating_sub(n_shown / 2).min(n_beyond);
    let shown: Vec<&TableRow> = table.rows().iter().skip(first).take(n_shown).collect();
    let header = theme.muted.add_modifier(Modifier::BOLD);
    paint::text(buf, body, (0, 0), "TIME", header);
    let mut end = TIME_WIDTH;
    if table.n_hidden > 0 {
        paint::text(buf, body, (TIME_WIDTH + 1, 0), "…", header);
    }
    for (idx, name) in table.columns.iter().enumerate().skip(table.n_hidden) {
        let cells = || shown.iter().map(|row| row.cells.get(idx).and_then(Option::as_ref));
        let decimals = format::decimals_for(cells().flatten().filter_map(Value::as_f64));
        let texts: Vec<_> = cells().map(|value| cell_text(value, decimals)).collect();
        let title = format::fit(name, TEXT_MAX).to_uppercase();
        let width = texts.iter().map(|text| text.width()).chain([title.width()]).max();
        let width = u16::try_from(width.unwrap_or(0)).unwrap_or(u16::MAX);
        end = end.saturating_add(width).saturating_add(2);
        if end > body.width {
            // The hint at more rows stands where they would begin.
            paint::text_before(buf, body, (body.width, 0), "…", header);
            break;
        }
        paint::text_before(buf, body, (end, 0), &title, header);
        for (y, text) in (1..body.height).zip(&texts) {
            paint::text_before(buf, body, (end, y), text, theme.text);
        }
    }
    let mut places = Vec::new();
    for (y, (idx, row)) in (1..body.height).zip(shown.iter().enumerate()) {
        let time = format!("{} {}", format::date(row.time), format::clock(row.time));
        paint::text(buf, body, (0, y), &time, theme.muted);
        let place = Rect { y: body.y + y, height: 1, ..body };
        if first + idx == chosen {
            paint::row_style(buf, place, 0, theme.sel);
        }
        places.push((first + idx, place));
    }
    let text = beyond(table, chosen);
    paint::text(buf, area, (0, area.height - 1), &text, theme.muted);
    places
}

/// What there is before and after the rows that are kept.
fn beyond(table: &Table, chosen: usize) -> String {
    let here = format!("row {} of {} read", chosen + 1, format::count(table.rows().len() as u64));
    let older = match &table.failure {
        Some(why) => format!("failed to {}: {}", why.what, why.why),
        None if table.is_loading() => "reading older rows…".to_owned(),
        None if table.is_at_start() => "oldest row reached".to_owned(),
        None => "more rows follow".to_owned(),
    };
    let newest = if table.is_following() { " · follows the newest" } else { "" };
    format!("{here} · {older}{newest}")
}

fn cell_text(value: Option<&Value>, decimals: usize) -> Cow<'_, str> {
    match value {
        None => format::NONE.into(),
        Some(Value::String(text)) => format::fit(text, TEXT_MAX),
        Some(Value::Boolean(truth)) => truth.to_string().into(),
        Some(Value::Integer(number)) => format::integer(*number).into(),
        Some(Value::Float(number)) => format::telling(*number, decimals, format::grouped).into(),
    }
}

fn draw_nothing(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    let (table, theme) = (&scene.state.table, scene.theme);
    match &table.failure {
        Some(why) => {
            note::failed(buf, area, why, theme.down, theme);
        }
        None if table.is_loading() => {
            note::centered(buf, area, &[(&*scene.loading(), theme.muted)]);
        }
        None => note::centered(buf, area, &[("no rows", theme.muted)]),
    }
}
