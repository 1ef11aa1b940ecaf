//! A layer of dots, two by four in a cell, to draw lines with.

use ratatui::{buffer::Buffer, layout::Rect, style::Style};

use super::paint;
use crate::theme::Theme;

/// The first of the braille symbols, the one without dots.
const BLANK: u32 = 0x2800;

/// Dots in a cell, across and down.
pub const DOTS: (u16, u16) = (2, 4);

/// Dots over an area of cells. Dots outside are dropped.
#[derive(Debug, Clone)]
pub struct Layer {
    width: u16,
    height: u16,
    /// The dots of each cell, row by row.
    cells: Vec<u8>,
}

impl Layer {
    /// Returns a layer without dots over `width` by `height` cells.
    #[must_use]
    pub fn new(width: u16, height: u16) -> Self {
        Self { width, height, cells: vec![0; usize::from(width) * usize::from(height)] }
    }

    /// Sets the dot in column `x` and row `y` of the dots.
    pub fn set(&mut self, x: i32, y: i32) {
        /// The bit of a dot, by row and column of its cell, as Unicode numbers them.
        const BITS: [[u8; 2]; 4] = [[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]];
        let (Ok(x), Ok(y)) = (u16::try_from(x), u16::try_from(y)) else { return };
        let (column, row) = (x / DOTS.0, y / DOTS.1);
        if column >= self.width || row >= self.height {
            return;
        }
        let bit = BITS
            .get(usize::from(y % DOTS.1))
            .and_then(|row| row.get(usize::from(x % DOTS.0)))
            .copied()
            .unwrap_or(0);
        let idx = usize::from(row) * usize::from(self.width) + usize::from(column);
        if let Some(cell) = self.cells.get_mut(idx) {
            *cell |= bit;
        }
    }

    /// Sets the dots from one place to another, both included.
    ///
    /// The line is straight wherever it ends, but only its part within a layer's length of the
    /// layer is walked, so that it costs no more than the layer is large.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64)) {
        let (width, height) = (f64::from(self.width * DOTS.0), f64::from(self.height * DOTS.1));
        let Some(((x0, y0), (x1, y1))) = clipped(from, to, (width, height)) else { return };
        let n_steps = (x1 - x0).abs().max((y1 - y0).abs()).ceil().max(1.0);
        let mut step = 0.0;
        while step <= n_steps {
            let along = step / n_steps;
            self.set(dot(x0 + (x1 - x0) * along), dot(y0 + (y1 - y0) * along));
            step += 1.0;
        }
    }

    /// Tints what is below the dots of each column of `area` with a breath of `style`'s color, less
    /// and less the further down; nothing where colors cannot be mixed.
    pub fn wash(&self, area: Rect, buf: &mut Buffer, style: Style, theme: &Theme) {
        for x in 0..self.width.min(area.width) {
            let is_set = |y: &u16| {
                let idx = usize::from(*y) * usize::from(self.width) + usize::from(x);
                self.cells.get(idx).is_some_and(|bits| *bits != 0)
            };
            let Some(top) = (0..self.height).find(is_set) else { continue };
            for y in top + 1..self.height {
                let Some(bg) = theme.wash(style, 1.0 - f64::from(y) / f64::from(self.height))
                else {
                    return;
                };
                if let Some(cell) = paint::cell(buf, area, x, y) {
                    cell.set_bg(bg);
                }
            }
        }
    }

    /// Draws the dots into `area`, on what is there already.
    ///
    /// A cell that holds dots keeps them; any other symbol is replaced.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, style: Style) {
        for (idx, bits) in self.cells.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            let width = usize::from(self.width.max(1));
            let (Ok(x), Ok(y)) = (u16::try_from(idx % width), u16::try_from(idx / width)) else {
                continue;
            };
            let Some(cell) = paint::cell(buf, area, x, y) else { continue };
            let before = cell.symbol().chars().next().map_or(0, u32::from);
            let before = before.checked_sub(BLANK).filter(|bits| *bits <= 0xff).unwrap_or(0);
            if let Some(symbol) = char::from_u32(BLANK + (before | u32::from(*bits))) {
                cell.set_char(symbol).set_style(style);
            }
        }
    }
}

/// The dot a place falls on.
#[expect(clippy::cast_possible_truncation, reason = "floats convert to the nearest integer")]
fn dot(place: f64) -> i32 {
    place.round() as i32
}

/// The part of a line that is within a box from zero to `size`, with a dot to spare (Liang and
/// Barsky); none if there is no such part, or an end is no number.
fn clipped(
    (x0, y0): (f64, f64),
    (x1, y1): (f64, f64),
    (width, height): (f64, f64),
) -> Option<((f64, f64), (f64, f64))> {
    let (dx, dy) = (x1 - x0, y1 - y0);
    if ![x0, y0, x1, y1, dx, dy].iter().all(|place| place.is_finite()) {
        return None;
    }
    let (mut start, mut end) = (0.0_f64, 1.0_f64);
    for (toward, room) in
        [(-dx, x0 + 1.0), (dx, width + 1.0 - x0), (-dy, y0 + 1.0), (dy, height + 1.0 - y0)]
    {
        if toward == 0.0 {
            if room < 0.0 {
                return None;
            }
        } else if toward < 0.0 {
            start = start.max(room / toward);
        } else {
            end = end.min(room / toward);
        }
    }
    (start <= end).then_some(((x0 + start * dx, y0 + start * dy), (x0 + end * dx, y0 + end * dy)))
}
