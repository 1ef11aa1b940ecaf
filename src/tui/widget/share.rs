//! A share of a whole: a bar, and dots for the rest, which ratatui's gauges do not have.

use ratatui::{buffer::Buffer, layout::Rect, style::Style, widgets::Widget};

use super::paint;

/// Blocks from empty to full, in eighths of a cell from its left.
pub(crate) const BLOCKS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// A bar in the first row of its area: `█████▍····`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ShareBar {
    /// The share, from 0 to 1.
    pub(crate) share: f64,
    /// The style of the bar.
    pub(crate) bar: Style,
    /// The style of the dots.
    pub(crate) rest: Style,
}

impl Widget for ShareBar {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let all = area.width.saturating_mul(8);
        let mut eighths = paint::cells(self.share * f64::from(area.width) * 8.0, all);
        // A share above zero is always seen.
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
