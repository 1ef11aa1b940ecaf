//! Bars: a share of a whole, a difference from a center, and a series of values.

use ratatui::prelude::*;
use ratatui::widgets::Sparkline as Bars;

use crate::widget::axis::Scale;
use crate::widget::paint;

/// Blocks that fill a cell from the left, in eighths.
pub(crate) const BLOCKS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar that shows a share, in the first row of its area: `█████▍····`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareBar {
    /// Share of the bar that is filled, from 0 to 1.
    pub(crate) share: f64,
    /// Style of the bar.
    pub(crate) bar: Style,
    /// Style of the dots behind the bar.
    pub(crate) rest: Style,
}

impl Widget for ShareBar {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let all = area.width.saturating_mul(8);
        let mut eighths = paint::cells(self.share * f64::from(area.width) * 8.0, all);
        // Even a small share is visible, unless it is zero.
        if self.share > 0.0 {
            eighths = eighths.max(1);
        }
        for x in 0..area.width {
            let here = eighths.min(8);
            eighths -= here;
            match BLOCKS.get(usize::from(here)).copied().filter(|_| here > 0) {
                Some(symbol) => paint::put(buf, area, (x, 0), symbol, self.bar),
                None => paint::put(buf, area, (x, 0), '·', self.rest),
            }
        }
    }
}

/// A bar that starts in the center of the first row of its area.
///
/// The bar of a negative value extends to the left, the bar of a positive value to the right, at
/// most to the edge. A value that is not finite has no bar.
#[derive(Debug, Clone, Copy)]
pub(crate) struct DivergingBar {
    /// Difference that the bar shows.
    pub(crate) value: f64,
    /// Difference at which the bar reaches the edge.
    pub(crate) extreme: f64,
    /// Style of the bar.
    pub(crate) bar: Style,
    /// Style of the line in the center.
    pub(crate) center: Style,
}

impl Widget for DivergingBar {
    fn render(self, area: Rect, buf: &mut Buffer) {
        if area.is_empty() {
            return;
        }
        let center = area.width / 2;
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
        // Unicode has no blocks that fill a cell from the right. An inverted block from the left
        // looks the same.
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

/// Value at which the bars of a sparkline start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Floor {
    /// Zero. For amounts.
    Zero,
    /// The lowest value. For levels, of which only the changes are of interest.
    Lowest,
}

/// Bars for a series of values, in one row or more. The latest value is on the right.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sparkline<'a> {
    /// Values, oldest first. `None` and values that are not finite have no bar.
    pub(crate) values: &'a [Option<f64>],
    pub(crate) floor: Floor,
    /// Minimum for the value at the top, so that several sparklines can have the same scale.
    /// Negative infinity for no minimum.
    pub(crate) top_min: f64,
    /// Style of the bars.
    pub(crate) style: Style,
}

impl<'a> Sparkline<'a> {
    /// Returns a sparkline on which the highest value is at the top.
    pub(crate) const fn new(values: &'a [Option<f64>], floor: Floor, style: Style) -> Self {
        Self { values, floor, top_min: f64::NEG_INFINITY, style }
    }

    /// Returns the scale for the visible values. Returns `None` if none of them is finite.
    fn scale(&self, seen: &[Option<f64>]) -> Option<Scale> {
        let finite = || seen.iter().copied().flatten().filter(|value| value.is_finite());
        let scale = Scale::over(finite(), 0.0)?;
        // If all values are equal, their bars have the minimum height.
        let is_flat = finite().all(|value| finite().next() == Some(value));
        let (low, high) = match self.floor {
            Floor::Lowest if is_flat => (scale.high().min(f64::MAX / 2.0), f64::MAX),
            // `scale` is not used, since it has a margin if all values are equal.
            Floor::Zero => {
                let high = finite().fold(self.top_min.max(0.0), f64::max);
                (finite().fold(0.0, f64::min), if high > 0.0 { high } else { 1.0 })
            }
            Floor::Lowest => (scale.low(), scale.high().max(self.top_min)),
        };
        Scale::between(low, high)
    }
}

impl Widget for Sparkline<'_> {
    /// Draws a bar for each of the latest values, one column wide.
    fn render(self, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        let n_older = self.values.len().saturating_sub(area.width.into());
        let seen = self.values.get(n_older..).unwrap_or_default();
        let Some(scale) = self.scale(seen) else { return };
        let all = area.height.saturating_mul(8);
        // In a single row, an eighth at the top is free, so that the bars do not touch the row
        // above.
        let top = if area.height == 1 { 0.875 } else { 1.0 };
        let eighths = |value: f64| {
            let share = match self.floor {
                Floor::Zero => scale.position(value) * top,
                Floor::Lowest => scale.position(value).mul_add(top - 0.125, 0.125),
            };
            // The lowest value has a bar of an eighth of a cell. Without a bar, it would look like a gap.
            u64::from(paint::cells(share * f64::from(all), all).max(1))
        };
        let bars = seen.iter().map(|value| value.filter(|it| it.is_finite()).map(eighths));
        let width = u16::try_from(seen.len()).unwrap_or(area.width);
        let right = Rect { x: area.right() - width, width, ..area };
        let bars = Bars::default().data(bars).max(all.into()).style(self.style);
        bars.absent_value_symbol(" ").render(right, buf);
    }
}
