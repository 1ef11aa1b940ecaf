//! Draws rows of datasets as text, and cards of pinned datasets.

use std::cmp::Ordering;

use line_clipping::Point;
use model::resolution::Resolution;
use model::row::Value;
use model::timestamp::Timestamp;
use ratatui::layout::Flex;
use ratatui::prelude::*;
use ratatui::widgets::{self, Row, TableState};
use unicode_width::UnicodeWidthStr as _;

use crate::event::NamedRow;
use crate::keymap::{Action, Layer};
use crate::screens::data::state::Pane;
use crate::screens::data::state::chart::Shape;
use crate::screens::data::state::live::{PERCENT, PIN_VALUES, WatchedDataset, is_past};
use crate::screens::data::state::rows::{OlderRows, RecentValues, SPARK_VALUES, Table};
use crate::state::services::{Health, Service};
use crate::theme::Theme;
use crate::view::{Frame, draw_centered, draw_failure, first_row, split_rows, strip};
use crate::widget::axis::Scale;
use crate::widget::braille;
use crate::widget::{format, paint, pane};

/// Maximum width of a text column.
const TEXT_MAX: usize = 32;

/// Width of a timestamp.
const STAMP_WIDTH: u16 = 19;

/// Minimum gap between two columns.
const GAP: u16 = 2;

/// A column of texts, with a title and a width.
struct TextColumn {
    title: Line<'static>,
    cells: Vec<Line<'static>>,
    width: u16,
}

impl TextColumn {
    /// Returns a column that is as wide as the widest of `texts`. A wider `name` widens it to at
    /// most `name_max`.
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

/// Returns a table with the titles and cells of `columns`.
fn into_table(columns: Vec<TextColumn>, style: Style) -> widgets::Table<'static> {
    let widths: Vec<u16> = columns.iter().map(|column| column.width).collect();
    let n_rows = columns.first().map_or(0, |column| column.cells.len());
    let (head, mut cells): (Vec<_>, Vec<_>) =
        columns.into_iter().map(|column| (column.title, column.cells.into_iter())).unzip();
    let mut row = || cells.iter_mut().filter_map(Iterator::next).collect::<Vec<_>>();
    let rows: Vec<_> = (0..n_rows).map(|_| Row::new(row()).style(style)).collect();
    widgets::Table::new(rows, widths).header(Row::new(head)).column_spacing(GAP)
}

/// Draws the rows around the selected one into `area`.
pub(super) fn draw_table(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (table, theme) = (&frame.state.data.table, frame.theme);
    if area.height < 3 {
        return;
    }
    if table.rows.is_empty() {
        return match &table.failure {
            Some(why) => draw_failure(buf, area, why, theme),
            None if table.asked.is_some() => frame.draw_loading(area, buf),
            None => draw_centered(buf, area, &[("no rows", theme.muted)]),
        };
    }
    // The last line describes the position of the selection.
    let [body, last] = split_rows(area, area.height - 1);
    let n_shown = usize::from(body.height - 1);
    let chosen = table.selected_idx();
    let first = first_row(chosen, table.rows.len(), n_shown);
    let shown: Vec<&NamedRow> = table.rows.iter().skip(first).take(n_shown).collect();
    let time = |row: &&NamedRow| {
        let time = match frame.state.data.chart.resolution() {
            Resolution::Day => format::bucket_date(row.timestamp),
            _ => format!("{} {}", format::date(row.timestamp), format::clock(row.timestamp)),
        };
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
        // A float without a fraction was parsed as an integer. If the column has other floats, it
        // is formatted like them.
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
    // An ellipsis at either end stands for hidden columns.
    if n_hidden > 0 {
        paint::text(buf, body, (STAMP_WIDTH + 1, 0), "…", head_style);
    }
    if end > body.width {
        paint::text_before(buf, body, (body.width, 0), "…", head_style);
    }
    paint::text(buf, last, (0, 0), &beyond(table, chosen), theme.muted);
}

/// Describes the position of the selection, and whether further rows can be loaded.
fn beyond(table: &Table, chosen: usize) -> String {
    let here = format!("row {} of {} read", chosen + 1, format::count(table.rows.len() as u64));
    let older = match &table.failure {
        Some(why) => format!(" · failed to {}: {}", why.what, why.why),
        None if table.asked.is_some() => " · reading older rows…".to_owned(),
        None if table.older == OlderRows::Nothing => " · oldest row reached".to_owned(),
        None => String::new(),
    };
    let newest = if table.chosen.is_none() { " · follows the newest" } else { "" };
    format!("{here}{older}{newest}")
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

/// Width up to which a title can widen its column.
const TITLE_MAX: usize = 12;

/// Draws the tape, the pane of the latest rows.
pub(super) fn draw_tape(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    if area.is_empty() {
        return;
    }
    let (state, now, theme) = (&frame.state.data, frame.state.now, frame.theme);
    let body = pane::Pane::new("Live tape")
        .info(frame.silent_or(Service::Data, tape_info(frame)))
        .focus(frame.state.data.pane == Pane::Tape)
        .draw(area, buf, theme);
    if state.tape.is_empty() {
        let text = if state.selected.is_some() { "no rows yet" } else { "" };
        draw_centered(buf, body, &[(text, theme.muted)]);
        return;
    }
    let shape = state.shape();
    let column = shape.as_ref().and_then(Shape::value_column);
    let shown = state.tape.iter().skip(state.n_tape_above());
    let shown: Vec<&NamedRow> = shown.take(usize::from(body.height) + 1).collect();
    let main = column.map(|column| main_column(column, &numbers(&shown, column), theme));
    let is_today = shown.iter().all(|row| format::is_same_day(row.timestamp, now));
    // If a tape is too narrow for a date in each row, its title is the date of the latest row.
    let has_dates = !is_today && body.width >= 44;
    let title = match shown.first() {
        Some(newest) if !is_today && !has_dates => format::date(newest.timestamp),
        _ => "TIME".to_owned(),
    };
    let title_width = u16::try_from(title.len()).unwrap_or(u16::MAX);
    // Width of a date with a time, or of a time only.
    let time_width = if has_dates { 19 } else { title_width.max(8) };
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
    // Free space is distributed between the columns, so that they fill the pane.
    let rows = into_table(columns, theme.muted).flex(Flex::SpaceBetween);
    Widget::render(rows, body.intersection(buf.area), buf);
    paint::row_style(buf, body, 0, theme.muted.bold());
}

/// Returns the scroll position of the tape. If it is not scrolled, the state of the stream.
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

/// Returns the numbers in column `name`. `None` for rows without a number.
fn numbers(rows: &[&NamedRow], name: &str) -> Vec<Option<f64>> {
    rows.iter().map(|row| row.values.get(name).and_then(Value::as_f64)).collect()
}

/// Returns the charted column. An arrow after each value shows the change since the previous row.
fn main_column(name: &str, values: &[Option<f64>], theme: &Theme) -> TextColumn {
    let mut main = text_column(name, values);
    // Space for the arrow after a value.
    main.width += 2;
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

/// Returns a column of numbers with the same number of decimals. Long numbers are shortened.
fn text_column(name: &str, values: &[Option<f64>]) -> TextColumn {
    let decimals = format::decimals_for(values.iter().copied().flatten());
    // A number of more than 14 characters is shortened.
    let short = |value| format::short(value, decimals, 14);
    let texts = values.iter().map(|value| format::or_none(*value, short)).collect();
    TextColumn::new(name, TITLE_MAX, texts)
}

/// Returns an arrow for the direction of a change.
pub(super) fn arrow(change: f64) -> char {
    match change.partial_cmp(&0.0) {
        Some(Ordering::Greater) => '▲',
        Some(Ordering::Less) => '▼',
        _ => '·',
    }
}

/// Returns the names of all columns of `row` except `column`, each with true if its value is a number.
/// The volume is first, followed by other numbers and by the rest, each sorted by name.
fn other_columns<'a>(column: Option<&str>, row: Option<&'a NamedRow>) -> Vec<(&'a str, bool)> {
    let values = row.into_iter().flat_map(|row| &row.values);
    let mut names: Vec<_> = values
        .map(|(name, value)| (name.as_str(), value.as_f64().is_some()))
        .filter(|(name, _)| Some(*name) != column)
        .collect();
    names.sort_by_key(|(name, is_number)| (!is_number, *name != "volume", *name));
    names
}

/// Minimum width and height of a card.
const CARD: (u16, u16) = (34, 4);

/// Returns the height of the pane for `n_pins` pins in `width` columns, including its border. 0
/// without pins.
pub(crate) fn pins_height(n_pins: usize, width: u16) -> u16 {
    let n_across = across(n_pins, width);
    let n_rows = u16::try_from(n_pins.div_ceil(n_across.max(1).into())).unwrap_or(0);
    if n_rows == 0 { 0 } else { n_rows * (CARD.1 + 1) + 1 }
}

fn across(n_pins: usize, width: u16) -> u16 {
    (width.saturating_sub(4) / CARD.0).clamp(1, u16::try_from(n_pins).unwrap_or(u16::MAX).max(1))
}

/// Draws the pane of pinned datasets.
pub(crate) fn draw_pins(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
    let (pins, theme) = (&frame.state.data.pins, frame.theme);
    if area.is_empty() {
        return;
    }
    let info = format!("{} · {} unpins", pins.len(), frame.key(Layer::Data, Action::Pin));
    let inside = pane::Pane::new("Pinned").info(info).draw(area, buf, theme);
    let mut watched = frame.state.data.watched();
    watched.truncate(pins.len());
    draw_cards(inside, buf, &watched, frame);
}

/// Draws a card for each of `watched` into `area`, as tall as possible. Returns the index and the
/// area of each drawn card.
pub(crate) fn draw_cards(
    area: Rect,
    buf: &mut Buffer,
    watched: &[WatchedDataset<'_>],
    frame: Frame<'_>,
) -> Vec<(usize, Rect)> {
    let n_across = across(watched.len(), area.width.saturating_add(4));
    let n_rows = u16::try_from(watched.len().div_ceil(n_across.into())).unwrap_or(u16::MAX).max(1);
    let height = (area.height.saturating_add(1) / n_rows).saturating_sub(1);
    // A card has few values, so a line in a taller card would show nothing more.
    let height = height.clamp(CARD.1, 20);
    let pitch = area.width / n_across.max(1);
    let mut places = Vec::new();
    for (idx, one) in watched.iter().enumerate() {
        let at = u16::try_from(idx).unwrap_or(u16::MAX);
        let (column, row) = (at % n_across, at / n_across);
        let top = row.saturating_mul(height + 1);
        if top + 1 >= area.height {
            break;
        }
        let place = Rect {
            x: area.x + column * pitch,
            y: area.y + top,
            width: pitch.saturating_sub(u16::from(column + 1 < n_across) * 3),
            height: height.min(area.height - top),
        };
        draw_card(place, buf, one, frame);
        places.push((idx, place));
    }
    places
}

fn draw_card(area: Rect, buf: &mut Buffer, one: &WatchedDataset<'_>, frame: Frame<'_>) {
    if area.is_empty() {
        return;
    }
    let theme = frame.theme;
    // The card of a pinned dataset shows that its stream reconnects, so it shows a failure of the
    // service only if the service does not respond at all. Other cards show every failure.
    let is_silent = *frame.state.services.health(Service::Data) == Health::Silent;
    let away = frame.away(Service::Data).filter(|_| is_silent || one.pin.is_none());
    let is_up = one.pin.map(|pin| pin.live.is_up());
    let (dot, dot_style, style) = match is_up {
        _ if away.is_some() => ('!', theme.down, theme.down),
        Some(true) => ('●', theme.up, theme.muted),
        Some(false) => ('○', theme.warn, theme.warn),
        None => ('·', theme.muted, theme.muted),
    };
    paint::put(buf, area, (0, 0), dot, dot_style);
    let values: Vec<f64> = one.spark.map(|spark| spark.values().collect()).unwrap_or_default();
    let decimals = format::decimals_for(values.iter().copied());
    let mut line = Line::default();
    if let Some(value) = values.last() {
        let number = telling_in(one.unit, *value, decimals, format::grouped);
        line.push_span(Span::styled(number, theme.text.bold()));
        if !one.unit.is_empty() {
            line.push_span(Span::styled(format!(" {}", one.unit), theme.muted));
        }
    }
    paint::line_right(buf, area, 0, &line);
    let room = usize::from(area.width).saturating_sub(line.width() + 4);
    let x = paint::text(buf, area, (2, 0), &format::fit(one.name, room), theme.text.bold());
    if let Some(column) = &one.column {
        let room = (room + 1).saturating_sub(x.into());
        paint::text(buf, area, (x + 1, 0), &format::fit(column, room), theme.muted);
    }
    let plot = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
    // A sparkline with the maximum number of values is as wide as the card.
    let n_kept = if one.pin.is_some() { PIN_VALUES } else { SPARK_VALUES };
    let all = || values.iter().copied();
    if let Some(scale) = share_scale(one.unit, all()).or_else(|| Scale::over(all(), 0.0)) {
        let trace = Trace { values: &values, n_kept, unit: one.unit, scale };
        draw_spark(plot, buf, &trace, theme);
    }
    if area.height > 1 {
        let bottom = Rect { y: area.bottom() - 1, height: 1, ..area };
        let note =
            away.map_or_else(|| pin_note(one, frame.state.now), |it| it.content.into_owned());
        let end = paint::text(buf, bottom, (0, 0), &format::fit(&note, area.width.into()), style);
        let room = strip(bottom, (end + 2, 0), area.width.saturating_sub(end + 2));
        draw_move(room, buf, one, &values, theme);
    }
}

/// Draws the change of a card's values at the right end of `row`, if it fits.
fn draw_move(row: Rect, buf: &mut Buffer, one: &WatchedDataset<'_>, values: &[f64], theme: &Theme) {
    let room = usize::from(row.width);
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
    let change = last - first;
    let percent = change / first.abs() * 100.0;
    let by = format::signed(change, format::decimals_for(values.iter().copied()));
    let (moved, style) = match arrow(change) {
        _ if change == 0.0 => ("unchanged".to_owned(), theme.muted),
        // The difference of two percentages is in percentage points.
        arrow if one.unit == PERCENT => (format!("{arrow} {by} points"), theme.signed(change)),
        arrow if percent.is_finite() => {
            (format!("{arrow} {}%", format::percent(percent)), theme.signed(change))
        }
        arrow => (format!("{arrow} {by}"), theme.signed(change)),
    };
    let length = one.spark.map(RecentValues::length).unwrap_or_default();
    let over = format!(" over {}", format::span(length));
    let mut line = Line::from(Span::styled(moved, style));
    if line.width() + over.width() <= room {
        line.push_span(Span::styled(over, theme.muted));
    }
    if line.width() <= room {
        paint::line_right(buf, row, 0, &line);
    }
}

/// Describes the state of a dataset's stream, or the age of its values if it has no stream.
fn pin_note(one: &WatchedDataset<'_>, now: Timestamp) -> String {
    let text = one.spark.and_then(RecentValues::text);
    if let Some(pin) = one.pin {
        return match (pin.details.value(), pin.details.failure()) {
            (None, Some(why)) => format!("waiting · {}", why.why),
            (None, None) => "waiting for the service".to_owned(),
            _ if text.is_some() => format!("no numbers · {}", pin.live.note(now)),
            _ => pin.live.note(now),
        };
    }
    let Some(spark) = one.spark else { return "not read yet".to_owned() };
    match (spark.newest(), text) {
        (Some((time, _)), _) if is_past(time, now) => format!("newest of {}", format::date(time)),
        (Some(_), _) => format!("newest {}", format::ago(spark.age(now))),
        (None, Some((time, _))) => format!("no numbers · newest {}", format::ago(now.since(time))),
        (None, None) => "no rows yet".to_owned(),
    }
}

/// Formats a value in `unit` by `write`. A small percentage gets more decimals, other small values are
/// written as powers of ten.
pub(crate) fn telling_in(
    unit: &str,
    value: f64,
    decimals: usize,
    write: fn(f64, usize) -> String,
) -> String {
    if unit == PERCENT {
        format::plain(value, decimals, write)
    } else {
        format::telling(value, decimals, write)
    }
}

/// Returns a scale from 0 to 100 if the unit is percent and all `values` are within it.
pub(crate) fn share_scale(unit: &str, values: impl IntoIterator<Item = f64>) -> Option<Scale> {
    let mut values = values.into_iter().filter(|value| value.is_finite());
    let is_share = unit == PERCENT && values.all(|value| (0.0..=100.0).contains(&value));
    Scale::between(0.0, 100.0).filter(|_| is_share)
}

/// The values of a card and how they are drawn.
#[derive(Clone, Copy)]
struct Trace<'a> {
    values: &'a [f64],
    /// Number of values that fill the width of the card.
    n_kept: usize,
    /// Unit of the values.
    unit: &'a str,
    scale: Scale,
}

/// Draws the highest and the lowest value of the scale at the right of `area`. Returns the
/// remaining area.
fn draw_ends(area: Rect, buf: &mut Buffer, trace: &Trace<'_>, theme: &Theme) -> Rect {
    let is_flat = trace.values.iter().all(|value| Some(value) == trace.values.first());
    if area.height < 2 || (is_flat && trace.unit != PERCENT) {
        return area;
    }
    let values = || trace.values.iter().copied();
    let is_share = share_scale(trace.unit, values()).is_some();
    let decimals = if is_share { 0 } else { format::decimals_for(values()) };
    // The values have space for nine characters.
    let text = |value| format::short(value, decimals, 9);
    let (high, low) = (text(trace.scale.high()), text(trace.scale.low()));
    let width = u16::try_from(high.width().max(low.width())).unwrap_or(u16::MAX) + 1;
    // The values of the scale are omitted if fewer than 20 columns would remain for the line.
    let rest = area.width.checked_sub(width).filter(|rest| *rest >= 20);
    let Some(rest) = rest else { return area };
    paint::text_before(buf, area, (area.width, 0), &high, theme.muted);
    paint::text_before(buf, area, (area.width, area.height - 1), &low, theme.muted);
    Rect { width: rest, ..area }
}

/// Draws values as a line. The latest value is at the right end.
fn draw_spark(area: Rect, buf: &mut Buffer, trace: &Trace<'_>, theme: &Theme) {
    let Trace { values, n_kept, scale, .. } = *trace;
    let area = draw_ends(area, buf, trace, theme);
    let n_dots = usize::from(area.width) * usize::from(braille::DOTS.0);
    let shown = values.get(values.len().saturating_sub(n_dots)..).unwrap_or(values);
    let mut layer = braille::Layer::new(area.width, area.height, theme.series(0));
    let height = f64::from(area.height * braille::DOTS.1) - 1.0;
    let dots = |n: usize| f64::from(u32::try_from(n.saturating_sub(1)).unwrap_or(u32::MAX));
    let step = (dots(n_dots) / dots(n_kept).max(1.0)).max(1.0);
    layer.path(shown.iter().enumerate().map(|(idx, value)| {
        let x = dots(n_dots) - dots(shown.len() - idx) * step;
        value.is_finite().then(|| Point { x, y: (1.0 - scale.position(*value)) * height })
    }));
    // In a lower area, a tint below the line would look like stairs.
    if area.height >= 3 {
        layer.wash(area, buf, theme);
    }
    layer.render(area, buf);
}
