//! A layer of braille dots for drawing lines. A cell has two columns and four rows of dots.

use line_clipping::cohen_sutherland::clip_line;
use line_clipping::{LineSegment, Point, Window};
use ratatui::prelude::*;

use super::paint;
use crate::theme::Theme;

/// First braille symbol, which has no dots.
const BLANK: u32 = 0x2800;

/// Number of columns and rows of dots in a cell.
pub(crate) const DOTS: (u16, u16) = (2, 4);

/// Dots on an area of cells. Dots outside of the area are ignored.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    width: u16,
    height: u16,
    style: Style,
    /// The dots of each cell, row by row.
    cells: Vec<u8>,
}

impl Layer {
    /// Returns a layer without dots that is `width` cells wide and `height` cells high.
    pub(crate) fn new(width: u16, height: u16, style: Style) -> Self {
        Self { width, height, style, cells: vec![0; usize::from(width) * usize::from(height)] }
    }

    /// Sets the dot in column `x` and row `y`, counted in dots.
    pub(crate) fn set(&mut self, x: i32, y: i32) {
        /// Bit of each dot by row and column, as numbered by Unicode.
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

    /// Sets the dots of a straight line, including both ends. Their positions are distances from
    /// the upper left corner, in dots.
    ///
    /// The cost depends only on the part of the line that is within the layer.
    pub(crate) fn line(&mut self, from: Point, to: Point) {
        if ![from.x, from.y, to.x, to.y].iter().all(|place| place.is_finite()) {
            return;
        }
        let (width, height) = (f64::from(self.width * DOTS.0), f64::from(self.height * DOTS.1));
        // A margin of one dot, since positions are rounded.
        let window = Window::new(-1.0, width + 1.0, -1.0, height + 1.0);
        let clipped = clip_line(LineSegment::new(from, to), window);
        let Some(LineSegment { p1: from, p2: to }) = clipped else { return };
        let (dx, dy) = (to.x - from.x, to.y - from.y);
        let n_steps = dx.abs().max(dy.abs()).ceil().max(1.0);
        let mut step = 0.0;
        while step <= n_steps {
            let along = step / n_steps;
            self.set(nearest(from.x + dx * along), nearest(from.y + dy * along));
            step += 1.0;
        }
    }

    /// Sets the dots of a line through all of `places`. `None` interrupts the line.
    pub(crate) fn path(&mut self, places: impl Iterator<Item = Option<Point>>) {
        let mut before = None;
        for place in places {
            if let Some(to) = place {
                self.line(before.unwrap_or(to), to);
            }
            before = place;
        }
    }

    /// Tints the background of the cells below the dots with the color of the layer. The tint
    /// fades towards the bottom. Does nothing if the terminal does not support mixed colors.
    pub(crate) fn wash(&self, area: Rect, buf: &mut Buffer, theme: &Theme) {
        for x in 0..self.width.min(area.width) {
            let is_set = |y: &u16| {
                let idx = usize::from(*y) * usize::from(self.width) + usize::from(x);
                self.cells.get(idx).is_some_and(|bits| *bits != 0)
            };
            let Some(top) = (0..self.height).find(is_set) else { continue };
            for y in top + 1..self.height {
                let Some(bg) = theme.wash(self.style, 1.0 - f64::from(y) / f64::from(self.height))
                else {
                    return;
                };
                if let Some(cell) = paint::cell(buf, area, x, y) {
                    cell.set_bg(bg);
                }
            }
        }
    }
}

impl Widget for &Layer {
    /// Draws the dots. Adds them to braille dots that a cell already contains, and replaces other
    /// symbols.
    fn render(self, area: Rect, buf: &mut Buffer) {
        for (idx, bits) in self.cells.iter().enumerate().filter(|(_, bits)| **bits != 0) {
            let width = usize::from(self.width.max(1));
            let (Ok(x), Ok(y)) = (u16::try_from(idx % width), u16::try_from(idx / width)) else {
                continue;
            };
            let Some(cell) = paint::cell(buf, area, x, y) else { continue };
            let before = cell.symbol().chars().next().map_or(0, u32::from);
            let before = before.checked_sub(BLANK).filter(|bits| *bits <= 0xff).unwrap_or(0);
            if let Some(symbol) = char::from_u32(BLANK + (before | u32::from(*bits))) {
                cell.set_char(symbol).set_style(self.style);
            }
        }
    }
}

/// Returns the number of the dot that is nearest to a position.
#[expect(clippy::cast_possible_truncation, reason = "the cast saturates")]
fn nearest(place: f64) -> i32 {
    place.round() as i32
}
