//! Rows under a head of column titles; the selected one stays in view.

use ratatui::{
    buffer::Buffer,
    layout::Rect,
    style::{Modifier, Style},
};

use super::{hits::Hits, split_rows};
use crate::{
    event::Target,
    theme::Theme,
    widget::{format, paint},
};

/// The side a column's texts stand on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Left,
    Right,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Its width; the last one takes what is left. A column of none is left out, with its cells.
    pub(crate) width: u16,
    /// The side its texts stand on.
    pub(crate) side: Side,
}

/// A text and how it is drawn.
pub(crate) type Cell = (String, Style);

#[derive(Debug, Clone, Copy)]
pub(crate) struct Table<'a> {
    /// The columns, a space between each.
    pub(crate) columns: &'a [Column],
    /// How many rows there are.
    pub(crate) n_rows: usize,
    /// The selected row.
    pub(crate) selected: Option<usize>,
    /// The pane it is in, for what is selected.
    pub(crate) pane: usize,
}

/// The first of `n_rows` rows to be drawn in `height`, so that row `selected` is among them.
pub(crate) fn first_row(selected: usize, n_rows: usize, height: usize) -> usize {
    let last = n_rows.saturating_sub(height);
    selected.saturating_sub(height / 2).min(last)
}

/// Draws those of `items` that fit below the head of a list in `area`, with row `selected` among
/// them; returns the number and the place of each, as `draw` does.
pub(crate) fn visible_rows<T>(
    area: Rect,
    selected: Option<usize>,
    items: &[T],
    mut draw: impl FnMut(Rect, &T) -> Rect,
) -> Vec<(usize, Rect)> {
    let [_, body] = split_rows(area, 1);
    let first = selected.map_or(0, |idx| (idx + 1).saturating_sub(body.height.into()));
    let shown = items.iter().enumerate().skip(first);
    body.rows().zip(shown).map(|(row, (idx, item))| (idx, draw(row, item))).collect()
}

/// Lights `row` from border to border if it is selected; returns the whole of it, which can be
/// clicked.
pub(crate) fn light_row(row: Rect, buf: &mut Buffer, theme: &Theme, is_selected: bool) -> Rect {
    let whole = Rect { x: row.x.saturating_sub(1), width: row.width + 2, ..row };
    if is_selected {
        paint::row_style(buf, whole, 0, theme.sel);
    }
    whole
}

impl Table<'_> {
    /// Draws the head and as many rows as fit; `row` gives the cells of each.
    pub(crate) fn draw(
        &self,
        area: Rect,
        buf: &mut Buffer,
        theme: &Theme,
        hits: &mut Hits,
        row: impl Fn(usize) -> Vec<Cell>,
    ) {
        let head = theme.muted.add_modifier(Modifier::BOLD);
        let titles = self.columns.iter().map(|column| (column.title.to_owned(), head));
        self.draw_row(area, buf, 0, titles.collect());
        let height = usize::from(area.height.saturating_sub(1));
        let first = first_row(self.selected.unwrap_or(0), self.n_rows, height);
        let shown = first..self.n_rows.min(first.saturating_add(height));
        for (y, number) in (1..area.height).zip(shown) {
            self.draw_row(area, buf, y, row(number));
            // After what stands there, which would take the weight of an inverted row away.
            if self.selected == Some(number) {
                paint::row_style(buf, area, y, theme.sel);
            }
            let place = Rect { y: area.y.saturating_add(y), height: 1, ..area };
            hits.add(place, Target::Row { pane: self.pane, row: number });
        }
    }

    /// The columns between two columns: more than one where the last is a number, which ends at the
    /// edge, and there is room to spare.
    fn gap(shown: &[(&Column, Cell)], width: u16) -> u16 {
        /// More, and the eye would lose the row.
        const GAP_MAX: u16 = 4;
        let n_gaps = u16::try_from(shown.len()).unwrap_or(u16::MAX).saturating_sub(1);
        if n_gaps == 0 || shown.last().is_none_or(|(last, _)| last.side == Side::Left) {
            return 1;
        }
        let needed: u16 = shown.iter().map(|(column, _)| column.width).sum();
        (width.saturating_sub(needed) / n_gaps).clamp(1, GAP_MAX)
    }

    fn draw_row(&self, area: Rect, buf: &mut Buffer, y: u16, cells: Vec<Cell>) {
        let mut x = 0_u16;
        let cells = self.columns.iter().zip(cells);
        let cells: Vec<(&Column, Cell)> = cells.filter(|(column, _)| column.width > 0).collect();
        let (gap, n_columns) = (Self::gap(&cells, area.width), cells.len());
        // The last text begins where those before it left their columns empty.
        let n_before = n_columns.saturating_sub(1);
        let before = cells.iter().take(n_before).rev();
        let n_empty = before.take_while(|(_, (text, _))| text.is_empty()).count();
        let spills_from = n_before - n_empty;
        let mut spill = None;
        for (idx, (column, (text, style))) in cells.into_iter().enumerate() {
            let is_last = idx + 1 == n_columns;
            if idx == spills_from {
                spill = Some(x);
            }
            if is_last && column.side == Side::Left {
                x = spill.unwrap_or(x);
            }
            let left = area.width.saturating_sub(x);
            let width = if is_last { left } else { column.width.min(left) };
            let text = match column.side {
                Side::Left => format::left(&text, width.into()),
                Side::Right => format::right(&text, width.into()),
            };
            paint::text(buf, area, (x, y), &text, style);
            x = x.saturating_add(width).saturating_add(gap);
        }
    }
}
