//! A series in one row or a few, the newest value on the right: ratatui's sparkline, scaled.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::Style,
    widgets::{Sparkline as Bars, Widget},
};

use super::{axis::Scale, paint};

/// Where the bars of a sparkline stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Floor {
    /// At zero: for amounts, of which half is half as high.
    Zero,
    /// At the lowest value: for levels, whose changes are to be seen.
    Lowest,
}

/// A series of bars.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sparkline<'a> {
    /// The values, oldest first; a gap for `None` and for values that are not finite.
    pub(crate) values: &'a [Option<f64>],
    /// Where the bars stand.
    pub(crate) floor: Floor,
    /// The least value of the top, as of other sparklines beside it; negative infinity for none.
    pub(crate) top_min: f64,
    /// The style of the bars.
    pub(crate) style: Style,
}

impl<'a> Sparkline<'a> {
    /// A sparkline whose top is its highest value.
    pub(crate) const fn new(values: &'a [Option<f64>], floor: Floor, style: Style) -> Self {
        Self { values, floor, top_min: f64::NEG_INFINITY, style }
    }

    /// The scale of the values `seen`; `None` if there are none.
    fn scale(&self, seen: &[Option<f64>]) -> Option<Scale> {
        let finite = || seen.iter().copied().flatten().filter(|value| value.is_finite());
        let scale = Scale::over(finite(), 0.0)?;
        // A series that does not change at all lies on the floor.
        let is_flat = finite().all(|value| finite().next() == Some(value));
        let (low, high) = match self.floor {
            Floor::Lowest if is_flat => (scale.high().min(f64::MAX / 2.0), f64::MAX),
            // Not by the scale, which has air around a series that does not change.
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
    /// Draws the newest values, one in each column, the newest in the last.
    fn render(self, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        let n_older = self.values.len().saturating_sub(area.width.into());
        let seen = self.values.get(n_older..).unwrap_or_default();
        let Some(scale) = self.scale(seen) else { return };
        let all = area.height.saturating_mul(8);
        // A single row leaves an eighth free, so that it does not run into the row above.
        let top = if area.height == 1 { 0.875 } else { 1.0 };
        let eighths = |value: f64| {
            let share = match self.floor {
                Floor::Zero => scale.position(value) * top,
                Floor::Lowest => scale.position(value).mul_add(top - 0.125, 0.125),
            };
            // The lowest level is an eighth high, so that it is not taken for a gap.
            u64::from(paint::cells(share * f64::from(all), all).max(1))
        };
        let bars = seen.iter().map(|value| value.filter(|it| it.is_finite()).map(eighths));
        let width = u16::try_from(seen.len()).unwrap_or(area.width);
        let right = Rect { x: area.right() - width, width, ..area };
        let bars = Bars::default().data(bars).max(all.into()).style(self.style);
        bars.absent_value_symbol(" ").render(right, buf);
    }
}
