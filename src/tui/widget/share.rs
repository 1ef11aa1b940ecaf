//! A share of a whole: a bar and a dotted rest.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::paint;
use crate::theme::Theme;

/// Blocks from empty to full, in eighths of a cell from its left.
pub const BLOCKS: [char; 9] = [' ', '▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];

/// Draws `share`, from 0 to 1, over the first row of `area`: `█████▍····`.
pub fn bar(buf: &mut Buffer, area: Rect, share: f64, style: Style, theme: &Theme) {
    let mut eighths =
        paint::cells(share * f64::from(area.width) * 8.0, area.width.saturating_mul(8));
    // A share that is more than nothing can be seen, and one that is less than all shows it.
    if share > 0.0 {
        eighths = eighths.max(1);
    }
    for x in 0..area.width {
        let here = eighths.min(8);
        eighths -= here;
        match BLOCKS.get(usize::from(here)).copied().filter(|_| here > 0) {
            Some(symbol) => paint::put(buf, area, (x, 0), symbol, style),
            None => paint::put(buf, area, (x, 0), '·', theme.faint),
        }
    }
}
