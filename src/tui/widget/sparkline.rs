//! A series in one row or a few: the newest value on the right.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::{axis::Scale, plot};

/// Where the bars of a sparkline stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Floor {
    /// At zero: for amounts, of which half is half as high.
    Zero,
    /// At the lowest value: for levels, whose changes are to be seen.
    Lowest,
}

/// A series of bars.
#[derive(Debug, Clone, Copy)]
pub struct Sparkline<'a> {
    /// The values, oldest first; a gap for none and for what is no number.
    pub values: &'a [Option<f64>],
    /// Where the bars stand.
    pub floor: Floor,
    /// How they are drawn.
    pub style: Style,
}

impl Sparkline<'_> {
    /// Draws the newest values into `area`, one in each column, the newest in the last.
    pub fn draw(&self, area: Rect, buf: &mut Buffer) {
        self.draw_to(f64::NEG_INFINITY, area, buf);
    }

    /// Draws them where the top stands for `high` at least, as other sparklines' tops do.
    pub fn draw_to(&self, high: f64, area: Rect, buf: &mut Buffer) {
        let least_high = high;
        let area = area.intersection(buf.area);
        let n_seen = self.values.len().min(usize::from(area.width));
        let seen = self.values.iter().skip(self.values.len() - n_seen);
        let finite = || seen.clone().copied().flatten().filter(|value| value.is_finite());
        let Some(scale) = Scale::over(finite(), 0.0) else { return };
        // What does not change at all lies on the floor.
        let is_flat = finite().all(|value| finite().next() == Some(value));
        let (low, high) = match self.floor {
            Floor::Lowest if is_flat => (scale.high().min(f64::MAX / 2.0), f64::MAX),
            // Not by the scale: it has air around a value that does not change, also around zero.
            Floor::Zero => {
                let high = finite().fold(least_high.max(0.0), f64::max);
                (finite().fold(0.0, f64::min), if high > 0.0 { high } else { 1.0 })
            }
            Floor::Lowest => (scale.low(), scale.high().max(least_high)),
        };
        let Some(scale) = Scale::between(low, high) else { return };
        let first = area.width - u16::try_from(n_seen).unwrap_or(area.width);
        for (x, value) in (first..area.width).zip(seen.clone()) {
            let Some(value) = value.filter(|value| value.is_finite()) else { continue };
            let share = scale.at(value);
            // The lowest level is an eighth high, so that it is not taken for a gap; and a single
            // row leaves an eighth free, so that it does not run into one above.
            let top = if area.height == 1 { 0.875 } else { 1.0 };
            let share = match self.floor {
                Floor::Zero => share * top,
                Floor::Lowest => share.mul_add(top - 0.125, 0.125),
            };
            let least = 0.125 / f64::from(area.height.max(1));
            plot::bar(buf, area, x, share.max(least), self.style);
        }
    }
}
