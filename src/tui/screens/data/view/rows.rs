//! Rows of the dataset as text: the table of all columns, and the tape of the newest rows.

use std::cmp::Ordering;

use model::row::Value;
use ratatui::{
    buffer::Buffer,
    layout::{Flex, Rect},
    style::Style,
    text::Line,
    widgets::{self, Row, StatefulWidget, TableState, Widget},
};
use unicode_width::UnicodeWidthStr;

use crate::{
    action::Action,
    event::NamedRow,
    keymap::Layer,
    screens::data::state::{
        Pane,
        chart::Shape,
        rows::{OlderRows, Table},
    },
    state::services::Service,
    theme::Theme,
    view::{Frame, focus_if, split_rows, table::first_row},
    widget::{format, note, paint, pane},
};

/// The widest column of text.
const TEXT_MAX: usize = 32;

/// The columns of a timestamp.
const STAMP_WIDTH: u16 = 19;

/// The least columns between two.
const GAP: u16 = 2;

/// A column of texts, with its title and its width.
struct TextColumn {
    title: Line<'static>,
    cells: Vec<Line<'static>>,
    width: u16,
}

impl TextColumn {
    /// As wide as the widest of `texts`, and as `name` up to `name_max`.
    fn new(name: &str, name_max: usize, texts: Vec<String>) -> Self {
        let widths = texts.iter().map(|text| text.width());
        let width = widths.chain([name.width().min(name_max)]).max().unwrap_or(0);
        let right = |text| Line::raw(text).right_aligned();
        Self {
            title: right(format::fit(name, width).to_uppercase()),
            cells: texts.into_iter().map(right).collect(),
            width: u16::try_from(width).unwrap_or(u16::MAX),
        }
    }
}

/// The columns beside one another, below a head.
fn into_table(columns: Vec<TextColumn>, style: Style) -> widgets::Table<'static> {
    let widths: Vec<u16> = columns.iter().map(|column| column.width).collect();
    let n_rows = columns.first().map_or(0, |column| column.cells.len());
    let (head, mut cells): (Vec<_>, Vec<_>) =
        columns.into_iter().map(|column| (column.title, column.cells.into_iter())).unzip();
    let mut row = || cells.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>();
    let rows: Vec<_> = (0..n_rows).map(|_| Row::new(row()).style(style)).collect();
    widgets::Table::new(rows, widths).header(Row::new(head)).column_spacing(GAP)
}

/// Draws the rows around the chosen one into `area`.
pub(super) fn draw_table(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (table, theme) = (&frame.state.data.table, frame.theme);
    if area.height < 3 {
        return;
    }
    if table.rows.is_empty() {
        return match &table.failure {
            Some(why) => note::failed(buf, area, why, theme),
            None if table.asked.is_some() => frame.draw_loading(area, buf),
            None => note::centered(buf, area, &[("no rows", theme.muted)]),
        };
    }
    // The last row says what there is beyond those above.
    let [body, last] = split_rows(area, area.height - 1);
    let n_shown = usize::from(body.height - 1);
    let chosen = table.selected_idx();
    let first = first_row(chosen, table.rows.len(), n_shown);
    let shown: Vec<&NamedRow> = table.rows.iter().skip(first).take(n_shown).collect();
    let time = |row: &&NamedRow| {
        let time = format!("{} {}", format::date(row.timestamp), format::clock(row.timestamp));
        Line::styled(time, theme.muted)
    };
    let names = frame.state.data.table_columns();
    let n_hidden = table.n_hidden.min(names.len().saturating_sub(1));
    let times = shown.iter().map(time).collect();
    let mut columns = vec![TextColumn { title: "TIME".into(), cells: times, width: STAMP_WIDTH }];
    let mut end = STAMP_WIDTH;
    for name in names.into_iter().skip(n_hidden) {
        let cells = || shown.iter().map(|row| row.values.get(name));
        let decimals = format::decimals_for(cells().flatten().filter_map(Value::as_f64));
        // A float that is a whole number reads as an integer.
        let has_floats = cells().flatten().any(|value| matches!(value, Value::Float(_)));
        let texts = cells().map(|value| match value {
            Some(number @ Value::Integer(_)) if has_floats => {
                format::grouped(number.as_f64().unwrap_or_default(), decimals)
            }
            value => cell_text(value, decimals),
        });
        let texts = texts.collect();
        let column = TextColumn::new(name, TEXT_MAX, texts);
        end = end.saturating_add(column.width).saturating_add(GAP);
        if end > body.width {
            break;
        }
        columns.push(column);
    }
    let mut selection = TableState::new().with_selected(chosen - first);
    let head_style = theme.muted.bold();
    let rows = into_table(columns, theme.text).row_highlight_style(theme.sel);
    StatefulWidget::render(rows, body.intersection(buf.area), buf, &mut selection);
    paint::row_style(buf, body, 0, head_style);
    // Hints at columns before and after stand where they would begin.
    if n_hidden > 0 {
        paint::text(buf, body, (STAMP_WIDTH + 1, 0), "…", head_style);
    }
    if end > body.width {
        paint::text_before(buf, body, (body.width, 0), "…", head_style);
    }
    paint::text(buf, last, (0, 0), &beyond(table, chosen), theme.muted);
}

/// What there is before and after the rows that are kept.
fn beyond(table: &Table, chosen: usize) -> String {
    let here = format!("row {} of {} read", chosen + 1, format::count(table.rows.len() as u64));
    let older = match &table.failure {
        Some(why) => format!("failed to {}: {}", why.what, why.why),
        None if table.asked.is_some() => "reading older rows…".to_owned(),
        None if table.older == OlderRows::Nothing => "oldest row reached".to_owned(),
        None => "more rows follow".to_owned(),
    };
    let newest = if table.chosen.is_none() { " · follows the newest" } else { "" };
    format!("{here} · {older}{newest}")
}

fn cell_text(value: Option<&Value>, decimals: usize) -> String {
    match value {
        None => format::NONE.to_owned(),
        Some(Value::String(text)) => format::fit(text, TEXT_MAX).into_owned(),
        Some(Value::Boolean(truth)) => truth.to_string(),
        Some(Value::Integer(number)) => format::integer(*number),
        Some(Value::Float(number)) => format::telling(*number, decimals, format::grouped),
    }
}

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
pub(super) fn draw_tape(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
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
    let rows = into_table(columns, theme.muted).flex(Flex::SpaceBetween);
    Widget::render(rows, body.intersection(buf.area), buf);
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
pub(super) fn arrow(change: f64) -> char {
    match change.partial_cmp(&0.0) {
        Some(Ordering::Greater) => '▲',
        Some(Ordering::Less) => '▼',
        _ => '·',
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
