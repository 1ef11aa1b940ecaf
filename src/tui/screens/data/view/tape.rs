//! The newest rows, newest first, as they come.

use model::row::Value;
use ratatui::{
    buffer::Buffer,
    layout::{Flex, Rect},
    text::Line,
    widgets::{Row, Table, Widget as _},
};

use crate::{
    event::NamedRow,
    screens::data::state::{Pane, sample::Shape},
    view::{Frame, focus_if},
    widget::{format, note, pane},
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

/// The least columns between two numbers.
const GAP: u16 = 2;

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
        .info(state.live.note(now))
        .focus(focus_if(frame.state.data.pane == Pane::Tape))
        .draw(area, buf, theme);
    let shape = state.shape();
    let column = shape.as_ref().and_then(Shape::value_column);
    let Some(column) = column.filter(|_| !state.tape.is_empty()) else {
        let text = if state.selected.is_some() { "no rows yet" } else { "" };
        note::centered(buf, body, &[(text, theme.muted)]);
        return;
    };
    let shown: Vec<&NamedRow> = state.tape.iter().take(usize::from(body.height) + 1).collect();
    let main = Numbers::from_rows(column, &shown);
    let is_today = shown.iter().all(|row| format::is_same_day(row.timestamp, now));
    let has_dates = !is_today && body.width >= DATED_FROM;
    let time_width = if has_dates { DATE_TIME_WIDTH } else { TIME_WIDTH };
    let mut widths = vec![time_width, main.width + ARROW_WIDTH];
    let mut room = body.width.saturating_sub(time_width + GAP + main.width + ARROW_WIDTH);
    let mut others = Vec::new();
    for name in other_columns(column, state.tape.front()) {
        let numbers = Numbers::from_rows(name, &shown);
        let Some(left) = room.checked_sub(numbers.width + GAP) else { continue };
        room = left;
        widths.push(numbers.width);
        others.push(numbers);
    }
    let title = match shown.first() {
        Some(newest) if !is_today && !has_dates => format::date(newest.timestamp),
        _ => "TIME".to_owned(),
    };
    let titles = others.iter().map(|numbers| Line::raw(numbers.title()).right_aligned());
    let head = [Line::raw(title), Line::raw(format!("{}  ", main.title())).right_aligned()];
    let rows = shown.iter().enumerate().map(|(y, row)| {
        let clock = format::clock(row.timestamp);
        let time =
            if has_dates { format!("{} {clock}", format::date(row.timestamp)) } else { clock };
        let change = main.change(y);
        let style = theme.signed(change);
        let arrow = main.value(y).map_or(' ', |_| arrow(change));
        let value = Line::styled(format!("{} {arrow}", main.text(y)), style).right_aligned();
        let others = others.iter().map(|numbers| Line::raw(numbers.text(y)).right_aligned());
        Row::new([Line::raw(time), value].into_iter().chain(others)).style(theme.muted)
    });
    // What is free stands between the columns, so that they span the pane.
    Table::new(rows, widths)
        .header(Row::new(head.into_iter().chain(titles)).style(theme.muted.bold()))
        .column_spacing(GAP)
        .flex(Flex::SpaceBetween)
        .render(body.intersection(buf.area), buf);
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

    fn title(&self) -> String {
        format::fit(self.name, self.width.into()).to_uppercase()
    }

    fn text(&self, row: usize) -> &str {
        self.texts.get(row).map_or("", String::as_str)
    }

    fn value(&self, row: usize) -> Option<f64> {
        self.values.get(row).copied().flatten()
    }

    /// By how much row `row` is above the one before it in time.
    fn change(&self, row: usize) -> f64 {
        self.value(row).zip(self.value(row + 1)).map_or(0.0, |(value, before)| value - before)
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
