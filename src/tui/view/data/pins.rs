//! What is pinned: a value, how it moved, how live it is, and a line of its newest values, of each.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Modifier,
    text::{Line, Span},
};

use super::tape;
use crate::{
    state::data::pins::Pin,
    theme::Theme,
    widget::{
        axis::Scale,
        braille, format, paint,
        pane::{self, padded},
    },
};
use model::timestamp::Timestamp;

/// The narrowest card, and the rows of each.
const CARD: (u16, u16) = (34, 4);

/// The rows of a pane of `n_pins` in `width` columns, its borders included; none for no pins.
pub(super) fn height(n_pins: usize, width: u16) -> u16 {
    let n_across = across(n_pins, width);
    let n_rows = u16::try_from(n_pins.div_ceil(n_across.max(1).into())).unwrap_or(0);
    if n_rows == 0 { 0 } else { n_rows * (CARD.1 + 1) + 1 }
}

fn across(n_pins: usize, width: u16) -> u16 {
    (width.saturating_sub(4) / CARD.0).clamp(1, u16::try_from(n_pins).unwrap_or(u16::MAX).max(1))
}

/// Draws the pane.
pub(crate) fn draw(area: Rect, buf: &mut Buffer, pins: &[Pin], now: Timestamp, theme: &Theme) {
    if area.is_empty() {
        return;
    }
    let inside =
        pane::Pane::new("Pinned").info(format!("{} · p unpins", pins.len())).draw(area, buf, theme);
    let body = padded(inside);
    let n_across = across(pins.len(), area.width);
    let pitch = body.width / n_across.max(1);
    for (idx, pin) in (0_u16..).zip(pins) {
        let (column, row) = (idx % n_across, idx / n_across);
        let top = row * (CARD.1 + 1);
        let place = Rect {
            x: body.x + column * pitch,
            y: body.y.saturating_add(top),
            width: pitch.saturating_sub(u16::from(column + 1 < n_across) * 3),
            height: CARD.1,
        };
        draw_card(place.intersection(body), buf, pin, now, theme);
    }
}

fn draw_card(area: Rect, buf: &mut Buffer, pin: &Pin, now: Timestamp, theme: &Theme) {
    if area.is_empty() {
        return;
    }
    let values: Vec<f64> = pin.spark.values().collect();
    let decimals = tape::decimals_for(values.iter().copied());
    let (first, last) = (values.first().copied(), values.last().copied());
    let (dot, dot_style) = if pin.live.is_up() { ('●', theme.up) } else { ('○', theme.warn) };
    paint::put(buf, area, (0, 0), dot, dot_style);
    let note = pin.live.note(now);
    let mut spans = Vec::new();
    if let Some((first, last)) = first.zip(last) {
        let change = last - first;
        let percent = change / first.abs() * 100.0;
        let style = theme.signed(change);
        let bold = theme.text.add_modifier(Modifier::BOLD);
        spans.push(Span::styled(format::grouped(last, decimals), bold));
        let percent = if percent.is_finite() {
            format!(" {} {}%", tape::arrow(change), format::signed(percent, 2))
        } else {
            format!(" {}", tape::arrow(change))
        };
        spans.push(Span::styled(percent, style));
    }
    let figures = Line::from(spans);
    let room = usize::from(area.width).saturating_sub(figures.width() + 4);
    let name = format::fit(&pin.name, room);
    paint::text(buf, area, (2, 0), &name, theme.text.add_modifier(Modifier::BOLD));
    paint::line_right(buf, area, 0, &figures);
    let plot = Rect { y: area.y + 1, height: area.height.saturating_sub(2), ..area };
    draw_spark(plot, buf, &values, theme);
    let y = area.height.saturating_sub(1);
    if y > 0 {
        let style = if pin.live.is_up() { theme.muted } else { theme.warn };
        paint::text(buf, area, (0, y), &format::fit(&note, area.width.into()), style);
        let count = format!("{} values", values.len());
        if usize::from(area.width) > note.len() + count.len() + 2 {
            paint::text_before(buf, area, (area.width, y), &count, theme.muted);
        }
    }
}

/// Draws values as dots, the newest at the right end.
fn draw_spark(area: Rect, buf: &mut Buffer, values: &[f64], theme: &Theme) {
    let n_dots = usize::from(area.width) * usize::from(braille::DOTS.0);
    let shown = values.get(values.len().saturating_sub(n_dots)..).unwrap_or(values);
    let Some(scale) = Scale::over(shown.iter().copied(), 0.0) else { return };
    let mut layer = braille::Layer::new(area.width, area.height);
    let height = f64::from(area.height * braille::DOTS.1) - 1.0;
    let free = u32::try_from(n_dots - shown.len()).unwrap_or(0);
    let mut before = None;
    for (x, value) in (free..).zip(shown) {
        let place = value.is_finite().then(|| (f64::from(x), (1.0 - scale.at(*value)) * height));
        if let Some(to) = place {
            layer.line(before.unwrap_or(to), to);
        }
        before = place;
    }
    layer.draw(area, buf, theme.series(0));
}
