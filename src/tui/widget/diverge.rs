//! A bar to the left or to the right of a center: the difference of a value from one in the middle.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
    widgets::Widget,
};

use super::{paint, share::BLOCKS};

/// A bar in the first row of its area.
///
/// Values below zero go left. A bar is cut where it leaves the area; a value that is not finite has
/// none.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DivergingBar {
    /// The difference that the bar shows.
    pub(crate) value: f64,
    /// The difference whose bar would reach the edge.
    pub(crate) extreme: f64,
    /// The style of the bar.
    pub(crate) bar: Style,
    /// The style of the line in the middle.
    pub(crate) center: Style,
}

/// The column of the center in an area of `width` columns.
pub(crate) const fn center(width: u16) -> u16 {
    width / 2
}

impl Widget for DivergingBar {
    fn render(self, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let center = center(area.width);
        paint::put(buf, area, (center, 0), '│', self.center);
        let share = self.value / self.extreme.abs();
        if !share.is_finite() || share == 0.0 {
            return;
        }
        let room = if share < 0.0 { center } else { area.width - center - 1 };
        let all = room.saturating_mul(8);
        let eighths = paint::cells(share.abs() * f64::from(room) * 8.0, all);
        let eighths = eighths.max(u16::from(room > 0));
        let (full, rest) = (eighths / 8, usize::from(eighths % 8));
        let column = |n: u16| if share > 0.0 { center + 1 + n } else { center - 1 - n };
        for n in 0..full {
            paint::put(buf, area, (column(n), 0), '█', self.bar);
        }
        // There are no blocks from the right: the free part of an inverted one from the left is one.
        let (eighths, style) = if share > 0.0 {
            (rest, self.bar)
        } else {
            (8 - rest, self.bar.add_modifier(Modifier::REVERSED))
        };
        if let Some(symbol) = BLOCKS.get(eighths).filter(|_| rest > 0) {
            paint::put(buf, area, (column(full), 0), *symbol, style);
        }
    }
}
