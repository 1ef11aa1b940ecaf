//! Bars to the left and to the right of a center: by how much values differ from one in the middle.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::{paint, share::BLOCKS};

/// How a bar and its center are drawn.
#[derive(Debug, Clone, Copy)]
pub struct Styles {
    /// The bar.
    pub bar: Style,
    /// The line in the middle.
    pub center: Style,
}

/// The column of the center in an area of `width` columns.
#[must_use]
pub const fn center(width: u16) -> u16 {
    width / 2
}

/// Draws `value` over the first row of `area`, so that `extreme` would reach its end.
///
/// Values below zero go left. What reaches further than the area, or is no number, is drawn as
/// far as there is room, or not at all.
pub fn bar(buf: &mut Buffer, area: Rect, value: f64, extreme: f64, styles: Styles) {
    if area.is_empty() {
        return;
    }
    let center = center(area.width);
    paint::put(buf, area, (center, 0), '│', styles.center);
    let share = value / extreme.abs();
    if !share.is_finite() || share == 0.0 {
        return;
    }
    let room = if share < 0.0 { center } else { area.width - center - 1 };
    let all = room.saturating_mul(8);
    let eighths = paint::cells(share.abs() * f64::from(room) * 8.0, all).max(u16::from(room > 0));
    let (full, rest) = (eighths / 8, usize::from(eighths % 8));
    if share > 0.0 {
        for x in 0..full {
            paint::put(buf, area, (center + 1 + x, 0), '█', styles.bar);
        }
        if let Some(symbol) = BLOCKS.get(rest).filter(|_| rest > 0) {
            paint::put(buf, area, (center + 1 + full, 0), *symbol, styles.bar);
        }
    } else {
        for x in 0..full {
            paint::put(buf, area, (center - 1 - x, 0), '█', styles.bar);
        }
        // There are no blocks from the right: what the block from the left leaves free is one.
        if let Some(symbol) = BLOCKS.get(8 - rest).filter(|_| rest > 0) {
            let style = styles.bar.add_modifier(Modifier::REVERSED);
            paint::put(buf, area, (center - 1 - full, 0), *symbol, style);
        }
    }
}
