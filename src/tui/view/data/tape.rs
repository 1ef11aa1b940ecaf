//! The newest rows, newest first, as they come.

use model::row::Value;
use ratatui::{buffer::Buffer, layout::Rect, style::Modifier};

use super::Scene;
use crate::{
    event::NamedRow,
    state::data::{Pane, sample::Shape},
    widget::{format, note, paint, pane, pane::padded},
};

/// Draws the pane of the newest rows.
pub(super) fn draw(area: Rect, buf: &mut Buffer, scene: Scene<'_>) {
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
    let value_of = |row: &NamedRow| row.values.get(column).and_then(Value::as_f64);
    let other = other_column(shape.as_ref(), state.tape.front());
    let other_of = |row: &NamedRow| other.and_then(|name| row.values.get(name)?.as_f64());
    let shown = || state.tape.iter().take(usize::from(body.height) + 1);
    let decimals = decimals_for(shown().filter_map(value_of));
    let is_whole = shown().filter_map(other_of).all(|number| number.fract() == 0.0);
    let header = theme.muted.add_modifier(Modifier::BOLD);
    let widest = shown().filter_map(value_of).map(|value| format::grouped(value, decimals).len());
    let widest = widest.chain([column.len().min(16)]).max().unwrap_or(0);
    let value_end = 10 + u16::try_from(widest).unwrap_or(0);
    let other_width = usize::from(body.width.saturating_sub(value_end + 4));
    paint::text(buf, body, (0, 0), "TIME", header);
    let title = format::fit(column, widest).to_uppercase();
    paint::text_before(buf, body, (value_end, 0), &title, header);
    let title = format::fit(other.unwrap_or_default(), other_width).to_uppercase();
    paint::text_before(buf, body, (body.width, 0), &title, header);
    for (y, (idx, row)) in (1..body.height).zip(state.tape.iter().enumerate()) {
        let before = state.tape.get(idx + 1).and_then(value_of);
        paint::text(buf, body, (0, y), &format::clock(row.timestamp), theme.muted);
        let Some(value) = value_of(row) else { continue };
        let change = before.map_or(0.0, |before| value - before);
        let style = theme.signed(change);
        paint::text_before(buf, body, (value_end, y), &format::grouped(value, decimals), style);
        paint::put(buf, body, (value_end + 1, y), arrow(change), style);
        if let Some(number) = other_of(row) {
            let text = if is_whole { format::grouped(number, 0) } else { format::compact(number) };
            let text = format::fit(&text, other_width);
            paint::text_before(buf, body, (body.width, y), &text, theme.muted);
        }
    }
}

/// The sign of a change.
pub(super) fn arrow(change: f64) -> char {
    if change > 0.0 {
        '▲'
    } else if change < 0.0 {
        '▼'
    } else {
        '·'
    }
}

/// The places that these values have, at most as many as tell values of their size apart.
pub(super) fn decimals_for(values: impl Iterator<Item = f64>) -> usize {
    let (mut highest, mut decimals) = (0.0_f64, 0);
    for value in values.filter(|value| value.is_finite()) {
        highest = highest.max(value.abs());
        decimals = decimals.max(places(value));
    }
    decimals.min(format::decimals_of(highest))
}

/// The places a decimal number was written with, as far as a float remembers them.
fn places(value: f64) -> usize {
    let is_told = |decimals: &u8| {
        let scaled = value * 10_f64.powi(i32::from(*decimals));
        (scaled - scaled.round()).abs() <= scaled.abs() * 1e-9
    };
    (0..8).find(is_told).unwrap_or(8).into()
}

/// A second number worth a place beside the first: the volume, else the next one by name.
fn other_column<'a>(shape: Option<&Shape>, row: Option<&'a NamedRow>) -> Option<&'a str> {
    let row = row?;
    let column = shape.and_then(Shape::value_column);
    let numbers = row.values.iter().filter(|(_, value)| value.as_f64().is_some());
    let mut names = numbers.map(|(name, _)| name.as_str()).filter(|name| Some(*name) != column);
    if row.values.contains_key("volume") && column != Some("volume") {
        return Some("volume");
    }
    names.next()
}
