//! The newest rows, newest first, as they come.

use model::row::Value;
use ratatui::{
    buffer::Buffer,
    layout::{Flex, Rect},
    text::Line,
    widgets::Widget as _,
};

use super::table::{GAP, TextColumn, into_table};
use crate::{
    action::Action,
    event::NamedRow,
    keymap::Layer,
    screens::data::state::{Pane, sample::Shape},
    view::{Frame, focus_if},
    widget::{format, note, paint, pane},
};

/// Columns of a time of day.
const TIME_WIDTH: u16 = 8;

/// The same with a date.
const DATE_TIME_WIDTH: u16 = 19;

/// The narrowest tape with dates beside its times; in a narrower one the title is the date of the
/// newest row.
const DATED_FROM: u16 = 44;

/// Columns of what a number did, and the space before it.
const ARROW_WIDTH: u16 = 2;

/// The longest title that a column is made wider for.
const TITLE_MAX: usize = 12;

/// The longest number that is written in full.
const NUMBER_MAX: usize = 14;

/// Draws the pane of the newest rows.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    if area.is_empty() {
        return;
    }
    let (state, now, theme) = (&frame.state.data, frame.state.now, frame.theme);
    let body = pane::Pane::new("Live tape")
        .info(tape_info(frame))
        .focus(focus_if(frame.state.data.pane == Pane::Tape))
        .draw(area, buf, theme);
    let shape = state.shape();
    let column = shape.as_ref().and_then(Shape::value_column);
    let Some(column) = column.filter(|_| !state.tape.is_empty()) else {
        let text = if state.selected.is_some() { "no rows yet" } else { "" };
        note::centered(buf, body, &[(text, theme.muted)]);
        return;
    };
    let shown = state.tape.iter().skip(state.n_tape_above());
    let shown: Vec<&NamedRow> = shown.take(usize::from(body.height) + 1).collect();
    let numbers = |name: &str| -> Vec<Option<f64>> {
        shown.iter().map(|row| row.values.get(name).and_then(Value::as_f64)).collect()
    };
    let values = numbers(column);
    let mut main = text_column(column, &values);
    let is_today = shown.iter().all(|row| format::is_same_day(row.timestamp, now));
    let has_dates = !is_today && body.width >= DATED_FROM;
    let title = match shown.first() {
        Some(newest) if !is_today && !has_dates => format::date(newest.timestamp),
        _ => "TIME".to_owned(),
    };
    let title_width = u16::try_from(title.len()).unwrap_or(u16::MAX);
    let time_width = if has_dates { DATE_TIME_WIDTH } else { TIME_WIDTH.max(title_width) };
    let time = |row: &&NamedRow| {
        let date = if has_dates { format::date(row.timestamp) + " " } else { String::new() };
        Line::raw(date + &format::clock(row.timestamp))
    };
    let times = shown.iter().map(time).collect();
    main.width += ARROW_WIDTH;
    main.title.push_span("  ");
    let value = |y: usize| values.get(y).copied().flatten();
    for (y, cell) in main.cells.iter_mut().enumerate() {
        // By how much it is above the one before it in time.
        let change = value(y).zip(value(y + 1)).map_or(0.0, |(value, before)| value - before);
        let arrow = value(y).map_or(' ', |_| arrow(change));
        cell.push_span(format!(" {arrow}"));
        cell.style = theme.signed(change);
    }
    let mut room = body.width.saturating_sub(time_width + GAP + main.width);
    let mut columns = vec![TextColumn { title: title.into(), cells: times, width: time_width }];
    columns.push(main);
    for name in other_columns(column, state.tape.front()) {
        let other = text_column(name, &numbers(name));
        let Some(left) = room.checked_sub(other.width + GAP) else { continue };
        room = left;
        columns.push(other);
    }
    // What is free stands between the columns, so that they span the pane.
    into_table(columns, theme.muted)
        .flex(Flex::SpaceBetween)
        .render(body.intersection(buf.area), buf);
    paint::row_style(buf, body, 0, theme.muted.bold());
}

/// Whether the tape is scrolled, else how live the rows are.
fn tape_info(frame: Frame<'_>) -> String {
    let state = &frame.state.data;
    match state.n_tape_above() {
        0 => state.live.note(frame.state.now),
        n => {
            let key = frame.key(Layer::Data, Action::Follow);
            format!("{} above · {key} newest", format::counted(n, "row"))
        }
    }
}

/// A column of numbers to their common decimals, or to four digits where that would be long.
fn text_column(name: &str, values: &[Option<f64>]) -> TextColumn {
    let decimals = format::decimals_for(values.iter().copied().flatten());
    let short = |value| format::short(value, decimals, NUMBER_MAX);
    let texts = values.iter().map(|value| format::or_none(*value, short)).collect();
    TextColumn::new(name, TITLE_MAX, texts)
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
