//! The newest rows, newest first, as they come.

use model::row::Value;
use ratatui::{buffer::Buffer, layout::Rect, style::Modifier};

use super::Scene;
use crate::{
    event::NamedRow,
    screens::data::state::{Pane, sample::Shape},
    widget::{
        format, note, paint,
        pane::{self, padded},
    },
};

/// Columns of a time of day, and a gap.
const TIME_WIDTH: u16 = 10;

/// The same with a date.
const DATE_TIME_WIDTH: u16 = 21;

/// The narrowest tape with dates beside its times; in a narrower one the title is the date of the
/// newest row.
const DATED_FROM: u16 = 44;

/// Columns of what a number did, and the space before it.
const ARROW_WIDTH: u16 = 2;

/// The least columns between two numbers.
const GAP: u16 = 2;

/// The longest title that a column is made wider for.
const TITLE_MAX: usize = 12;

/// The longest number that is written in full.
const NUMBER_MAX: usize = 14;

/// Draws the pane of the newest rows.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
    if area.is_empty() {
        return;
    }
    let (state, theme) = (scene.state, scene.theme);
    let inside = pane::Pane::new("Live tape")
        .info(state.live.note(scene.now))
        .focus(scene.focus(Pane::Tape))
        .draw(area, buf, theme);
    let body = padded(inside);
    let shape = state.shape();
    let column = shape.as_ref().and_then(Shape::value_column);
    let Some(column) = column.filter(|_| !state.tape.is_empty()) else {
        let text = if state.selected.is_some() { "no rows yet" } else { "" };
        note::centered(buf, body, &[(text, theme.muted)]);
        return;
    };
    let shown: Vec<&NamedRow> = state.tape.iter().take(usize::from(body.height) + 1).collect();
    let main = Numbers::from_rows(column, &shown);
    let main_width = main.width;
    let is_today = shown.iter().all(|row| format::is_same_day(row.timestamp, scene.now));
    let has_dates = !is_today && body.width >= DATED_FROM;
    let time_width = if has_dates { DATE_TIME_WIDTH } else { TIME_WIDTH };
    let mut columns = vec![main];
    let mut room = body.width.saturating_sub(time_width + main_width + ARROW_WIDTH);
    for name in other_columns(column, state.tape.front()) {
        let numbers = Numbers::from_rows(name, &shown);
        let Some(left) = room.checked_sub(numbers.width + GAP) else { continue };
        room = left;
        columns.push(numbers);
    }
    // What is free stands between the columns, so that they span the pane.
    let n_gaps = u16::try_from(columns.len()).unwrap_or(1).saturating_sub(1).max(1);
    let air = GAP + room / n_gaps;
    let header = theme.muted.add_modifier(Modifier::BOLD);
    let title = match shown.first() {
        Some(newest) if !is_today && !has_dates => format::date(newest.timestamp),
        _ => "TIME".to_owned(),
    };
    paint::text(buf, body, (0, 0), &title, header);
    for (y, row) in (1..body.height).zip(&shown) {
        let clock = format::clock(row.timestamp);
        let time =
            if has_dates { format!("{} {clock}", format::date(row.timestamp)) } else { clock };
        paint::text(buf, body, (0, y), &time, theme.muted);
    }
    let mut end = time_width;
    for (idx, numbers) in columns.iter().enumerate() {
        let is_main = idx == 0;
        end = match idx {
            0 => end + numbers.width,
            1 => end + ARROW_WIDTH + air + numbers.width,
            _ => end + air + numbers.width,
        };
        if idx > 0 && idx + 1 == columns.len() {
            end = body.width;
        }
        let title = format::fit(numbers.name, numbers.width.into()).to_uppercase();
        paint::text_before(buf, body, (end, 0), &title, header);
        let rows = numbers.values.iter().zip(&numbers.texts).enumerate();
        for (y, (at, (value, text))) in (1..body.height).zip(rows) {
            let before = numbers.values.get(at + 1).copied().flatten();
            let change = value.zip(before).map_or(0.0, |(value, before)| value - before);
            let style = if is_main { theme.signed(change) } else { theme.muted };
            paint::text_before(buf, body, (end, y), text, style);
            if is_main && value.is_some() {
                paint::put(buf, body, (end + 1, y), arrow(change), style);
            }
        }
    }
}

/// The numbers of a column, newest first, and how wide they are.
struct Numbers<'a> {
    name: &'a str,
    values: Vec<Option<f64>>,
    /// The values to the decimals of the column, or to four digits where that would be long.
    texts: Vec<String>,
    width: u16,
}

impl<'a> Numbers<'a> {
    fn from_rows(name: &'a str, rows: &[&NamedRow]) -> Self {
        let value = |row: &&NamedRow| row.values.get(name).and_then(Value::as_f64);
        let values: Vec<_> = rows.iter().map(value).collect();
        let decimals = format::decimals_for(values.iter().copied().flatten());
        let text = |value: &Option<f64>| {
            format::or_none(*value, |value| format::short(value, decimals, NUMBER_MAX))
        };
        let texts: Vec<String> = values.iter().map(text).collect();
        let widest = texts.iter().map(|text| text.chars().count()).max();
        let width = widest.unwrap_or(0).max(name.len().min(TITLE_MAX));
        Self { name, values, texts, width: u16::try_from(width).unwrap_or(u16::MAX) }
    }
}

/// The sign of a change.
pub(crate) fn arrow(change: f64) -> char {
    if change > 0.0 {
        '▲'
    } else if change < 0.0 {
        '▼'
    } else {
        '·'
    }
}

/// The other numbers of a row, the volume before the rest by name.
fn other_columns<'a>(column: &'a str, row: Option<&'a NamedRow>) -> impl Iterator<Item = &'a str> {
    let numbers = row.into_iter().flat_map(|row| &row.values);
    let numbers = numbers.filter(|(_, value)| value.as_f64().is_some());
    let mut names: Vec<_> =
        numbers.map(|(name, _)| name.as_str()).filter(|name| *name != column).collect();
    names.sort_by_key(|name| (*name != "volume", *name));
    names.into_iter()
}
