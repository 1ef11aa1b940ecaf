//! What is pinned: a value, how it moved, how live it is, and a line of its newest values, of each.

use model::timestamp::Timestamp;
use ratatui::{
    buffer::Buffer,
    layout::Rect,
    text::{Line, Span},
    widgets::Widget as _,
};
use unicode_width::UnicodeWidthStr as _;

use crate::{
    action::Action,
    keymap::Layer,
    screens::data::{
        state::{
            live::{PERCENT, PIN_VALUES, WatchedDataset, is_past},
            rows::{RecentValues, SPARK_VALUES},
        },
        view::rows,
    },
    state::services::{Health, Service},
    theme::Theme,
    view::Frame,
    widget::{
        axis::Scale,
        braille::{self, Dot},
        format, paint, pane,
    },
};

/// The narrowest card, and the rows of each.
const CARD: (u16, u16) = (34, 4);

/// The tallest card: a line of a few values says no more when it is taller.
const CARD_HEIGHT_MAX: u16 = 20;

/// The columns of a number at an end of a scale.
const ENDS_WIDTH: usize = 9;

/// The lowest line of values with a tint below.
const WASH_FROM: u16 = 3;

/// The rows of a pane of `n_pins` in `width` columns, its borders included; none for no pins.
pub(crate) fn height(n_pins: usize, width: u16) -> u16 {
    let n_across = across(n_pins, width);
    let n_rows = u16::try_from(n_pins.div_ceil(n_across.max(1).into())).unwrap_or(0);
    if n_rows == 0 { 0 } else { n_rows * (CARD.1 + 1) + 1 }
}

fn across(n_pins: usize, width: u16) -> u16 {
    (width.saturating_sub(4) / CARD.0).clamp(1, u16::try_from(n_pins).unwrap_or(u16::MAX).max(1))
}

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, frame: Frame<'_>) {
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

/// Draws a card for each of `watched` into `area`, as tall as there is room for; returns the places
/// of those that fit.
pub(crate) fn draw_cards(
    area: Rect,
    buf: &mut Buffer,
    watched: &[WatchedDataset<'_>],
    frame: Frame<'_>,
) -> Vec<(usize, Rect)> {
    let n_across = across(watched.len(), area.width.saturating_add(4));
    let n_rows = u16::try_from(watched.len().div_ceil(n_across.into())).unwrap_or(u16::MAX).max(1);
    let height = (area.height.saturating_add(1) / n_rows).saturating_sub(1);
    let height = height.clamp(CARD.1, CARD_HEIGHT_MAX);
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
    // The stream of a pinned one says how it reconnects.
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
        let number = format::telling(*value, decimals, format::grouped);
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
    // All kept values span the card, once that many have arrived.
    let n_kept = if one.pin.is_some() { PIN_VALUES } else { SPARK_VALUES };
    let all = || values.iter().copied();
    if let Some(scale) = share_scale(one.unit, all()).or_else(|| Scale::over(all(), 0.0)) {
        let trace = Trace { values: &values, n_kept, unit: one.unit, scale };
        draw_spark(plot, buf, &trace, theme);
    }
    if area.height > 1 {
        let bottom = Rect { y: area.bottom() - 1, height: 1, ..area };
        let note = away.map_or_else(|| note(one, frame.state.now), |it| it.content.into_owned());
        let end = paint::text(buf, bottom, (0, 0), &format::fit(&note, area.width.into()), style);
        let room = usize::from(area.width.saturating_sub(end + 2));
        draw_move(bottom, buf, one, &values, room, theme);
    }
}

/// Draws how far the values of a card moved at the right of a row, if it fits into `room` columns.
fn draw_move(
    row: Rect,
    buf: &mut Buffer,
    one: &WatchedDataset<'_>,
    values: &[f64],
    room: usize,
    theme: &Theme,
) {
    let (Some(first), Some(last)) = (values.first(), values.last()) else { return };
    let change = last - first;
    let percent = change / first.abs() * 100.0;
    let by = format::signed(change, format::decimals_for(values.iter().copied()));
    let (moved, style) = match rows::arrow(change) {
        _ if change == 0.0 => ("unchanged".to_owned(), theme.muted),
        // Shares move by points.
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

/// How live a dataset is, in a few words.
fn note(one: &WatchedDataset<'_>, now: Timestamp) -> String {
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

/// The whole scale of shares, which mean nothing without its ends, where all `values` are shares.
pub(crate) fn share_scale(unit: &str, values: impl IntoIterator<Item = f64>) -> Option<Scale> {
    let mut values = values.into_iter().filter(|value| value.is_finite());
    let is_share = unit == PERCENT && values.all(|value| (0.0..=100.0).contains(&value));
    Scale::between(0.0, 100.0).filter(|_| is_share)
}

/// The values of a card.
#[derive(Clone, Copy)]
struct Trace<'a> {
    values: &'a [f64],
    /// How many values span the card.
    n_kept: usize,
    /// What they are counted in.
    unit: &'a str,
    scale: Scale,
}

/// Draws the ends of the scale of values at the right of `area`; returns what is left for them.
fn draw_ends(area: Rect, buf: &mut Buffer, trace: &Trace<'_>, theme: &Theme) -> Rect {
    /// The least columns for a line beside its scale.
    const LINE_MIN: u16 = 20;
    let is_flat = trace.values.iter().all(|value| Some(value) == trace.values.first());
    if area.height < 2 || (is_flat && trace.unit != PERCENT) {
        return area;
    }
    let values = || trace.values.iter().copied();
    let is_share = share_scale(trace.unit, values()).is_some();
    let decimals = if is_share { 0 } else { format::decimals_for(values()) };
    let text = |value| format::short(value, decimals, ENDS_WIDTH);
    let (high, low) = (text(trace.scale.high()), text(trace.scale.low()));
    let width = u16::try_from(high.width().max(low.width())).unwrap_or(u16::MAX) + 1;
    let rest = area.width.checked_sub(width).filter(|rest| *rest >= LINE_MIN);
    let Some(rest) = rest else { return area };
    paint::text_before(buf, area, (area.width, 0), &high, theme.muted);
    paint::text_before(buf, area, (area.width, area.height - 1), &low, theme.muted);
    Rect { width: rest, ..area }
}

/// Draws values as a line of dots, the newest at the right end.
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
        value.is_finite().then(|| Dot { x, y: (1.0 - scale.position(*value)) * height })
    }));
    // In a row or two the tint would be a stair, not an area.
    if area.height >= WASH_FROM {
        layer.wash(area, buf, theme);
    }
    layer.render(area, buf);
}
