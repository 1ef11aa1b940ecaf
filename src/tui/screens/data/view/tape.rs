//! The newest rows, newest first, as they come.

use model::row::Value;
use ratatui::{
    buffer::Buffer,
    layout::{Flex, Rect},
    text::Line,
    widgets::Widget as _,
};

use super::table::{GAP, TextColumn, cell_text, into_table};
use crate::{
    action::Action,
    event::NamedRow,
    keymap::Layer,
    screens::data::state::{Pane, sample::Shape},
    state::services::Service,
    theme::Theme,
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
        .info(frame.silent_or(Service::Data, tape_info(frame)))
        .focus(focus_if(frame.state.data.pane == Pane::Tape))
        .draw(area, buf, theme);
    if state.tape.is_empty() {
        let text = if state.selected.is_some() { "no rows yet" } else { "" };
        note::centered(buf, body, &[(text, theme.muted)]);
        return;
    }
    let shape = state.shape();
    let column = shape.as_ref().and_then(Shape::value_column);
    let shown = state.tape.iter().skip(state.n_tape_above());
    let shown: Vec<&NamedRow> = shown.take(usize::from(body.height) + 1).collect();
    let main = column.map(|column| main_column(column, &numbers(&shown, column), theme));
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
    let main_width = main.as_ref().map_or(0, |main| main.width);
    let mut room = body.width.saturating_sub(time_width + GAP + main_width);
    let mut columns = vec![TextColumn { title: title.into(), cells: times, width: time_width }];
    columns.extend(main);
    for (name, is_number) in other_columns(column, state.tape.front()) {
        let other = if is_number {
            text_column(name, &numbers(&shown, name))
        } else {
            let texts = shown.iter().map(|row| cell_text(row.values.get(name), 0)).collect();
            TextColumn::new(name, TITLE_MAX, texts)
        };
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

/// The numbers of column `name`.
fn numbers(rows: &[&NamedRow], name: &str) -> Vec<Option<f64>> {
    rows.iter().map(|row| row.values.get(name).and_then(Value::as_f64)).collect()
}

/// The column that is charted: each value, and whether it is above the one before it in time.
fn main_column(name: &str, values: &[Option<f64>], theme: &Theme) -> TextColumn {
    let mut main = text_column(name, values);
    main.width += ARROW_WIDTH;
    main.title.push_span("  ");
    let value = |y: usize| values.get(y).copied().flatten();
    for (y, cell) in main.cells.iter_mut().enumerate() {
        let change = value(y).zip(value(y + 1)).map_or(0.0, |(value, before)| value - before);
        let arrow = value(y).map_or(' ', |_| arrow(change));
        cell.push_span(format!(" {arrow}"));
        cell.style = theme.signed(change);
    }
    main
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

/// The other columns of a row, and whether each is of numbers: the volume, other numbers by name, then
/// the rest by name.
fn other_columns<'a>(column: Option<&str>, row: Option<&'a NamedRow>) -> Vec<(&'a str, bool)> {
    let values = row.into_iter().flat_map(|row| &row.values);
    let mut names: Vec<_> = values
        .map(|(name, value)| (name.as_str(), value.as_f64().is_some()))
        .filter(|(name, _)| Some(*name) != column)
        .collect();
    names.sort_by_key(|(name, is_number)| (!is_number, *name != "volume", *name));
    names
}
