//! Tables: ratatui's tables with rows that can be clicked. A cut text ends with `…`, and the
//! selected row is always visible.

use ratatui::prelude::*;

use super::{Frame, split_rows, text_cut};
use crate::event::Target;
use crate::state::layout::{HiddenColumns, TableName};
use crate::theme::Theme;
use crate::widget::{format, paint};

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Width of the column. 0 to omit the column. The last column gets all remaining space.
    pub(crate) width: u16,
    /// Alignment of the texts in the column.
    pub(crate) side: Alignment,
}

/// Text and style of a cell.
pub(crate) type Cell = (String, Style);

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Table<'a> {
    /// Columns of the table, left to right.
    pub(crate) columns: &'a [Column],
    /// Index of the selected row.
    pub(crate) selected: Option<usize>,
    /// Number of the pane that shows the table, for click targets.
    pub(crate) pane: usize,
    /// Index of the column by which the table is sorted.
    pub(crate) sorted: Option<usize>,
    /// Number of rows by which the user has scrolled down from the position at which the selected row
    /// is visible.
    pub(crate) n_scrolled: isize,
}

/// Returns the index of the first visible row if `height` of `n_rows` rows fit. The row `selected`
/// is visible.
pub(crate) fn first_row(selected: usize, n_rows: usize, height: usize) -> usize {
    let last = n_rows.saturating_sub(height);
    selected.saturating_sub(height / 2).min(last)
}

/// Draws facts, each in a row. The names of the facts are right-aligned.
pub(crate) fn draw_facts(area: Rect, buf: &mut Buffer, theme: &Theme, facts: &[(&str, String)]) {
    /// Maximum width of a name.
    const NAME_MAX: usize = 12;
    let widest = facts.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let name_width = widest.min(NAME_MAX);
    let end = u16::try_from(name_width).unwrap_or(u16::MAX).saturating_add(1);
    for (y, (name, value)) in (0..area.height).zip(facts) {
        paint::text(buf, area, (0, y), &format::right(name, name_width), theme.muted);
        text_cut(buf, area, (end, y), value, theme.text);
    }
}

impl<'a> Table<'a> {
    /// Returns a table of `columns`. The title of the column called `sorted` is marked. The width of
    /// columns that the user has hidden is set to 0.
    pub(crate) fn new(
        name: TableName,
        columns: &'a mut [Column],
        hidden: &HiddenColumns,
        sorted: Option<&str>,
    ) -> Self {
        for column in columns.iter_mut().filter(|it| hidden.is_hidden(name, it.title)) {
            column.width = 0;
        }
        let sorted = columns.iter().position(|it| Some(it.title) == sorted);
        Self { columns, sorted, ..Self::default() }
    }

    /// Draws the titles, and as many of `rows` as fit. Returns each visible row with its area and
    /// the areas of its cells.
    pub(crate) fn draw<'r, T>(
        &self,
        area: Rect,
        buf: &mut Buffer,
        frame: Frame<'_>,
        rows: &'r [T],
        cells: impl Fn(&'r T) -> Vec<Cell>,
    ) -> Vec<(&'r T, Rect, Vec<Rect>)> {
        let theme = frame.theme;
        let [top, body] = split_rows(area, 1);
        let places = self.places(top);
        let head = theme.muted.add_modifier(Modifier::BOLD);
        let title = |(idx, column): (usize, &Column)| {
            let is_sorted = self.sorted == Some(idx);
            let style = if is_sorted { head.add_modifier(Modifier::UNDERLINED) } else { head };
            frame.hits.add(
                places.get(idx).copied().unwrap_or_default(),
                Target::Column { pane: self.pane, column: column.title },
            );
            (column.title.to_owned(), style)
        };
        let titles: Vec<Cell> = self.columns.iter().enumerate().map(title).collect();
        self.draw_row(top, buf, &titles, &places);
        let first = first_row(self.selected.unwrap_or(0), rows.len(), body.height.into());
        let last = rows.len().saturating_sub(body.height.into());
        let first = first.saturating_add_signed(self.n_scrolled).min(last);
        let visible = rows.iter().enumerate().skip(first).zip(body.rows());
        let drawn = visible.map(|((number, row), place)| {
            let at: Vec<Rect> = places.iter().map(|cell| Rect { y: place.y, ..*cell }).collect();
            self.draw_row(place, buf, &cells(row), &at);
            // The row extends to the borders of the pane.
            let whole = Rect { x: place.x.saturating_sub(1), width: place.width + 2, ..place };
            if self.selected == Some(number) {
                paint::row_style(buf, whole, 0, theme.sel);
            }
            frame.hits.add(whole, Target::Row { pane: self.pane, row: number });
            (row, place, at)
        });
        drawn.collect()
    }

    /// Draws `cells` at `places` in `row`. If the last column is left-aligned and the cells before it
    /// are empty, its text starts in the first of these cells.
    fn draw_row(&self, row: Rect, buf: &mut Buffer, cells: &[Cell], places: &[Rect]) {
        let mut free_from = None;
        for ((column, place), (text, style)) in self.columns.iter().zip(places).zip(cells) {
            if text.is_empty() && !place.is_empty() {
                free_from = free_from.or(Some(place.x));
            }
            if text.is_empty() || place.is_empty() {
                continue;
            }
            let is_last = place.right() == row.right();
            let from = free_from.take().filter(|_| is_last && column.side == Alignment::Left);
            let x = from.unwrap_or(place.x);
            let place = Rect { x, width: place.right() - x, ..*place };
            let line = Line::styled(format::fit(text, place.width.into()), *style);
            let free = place.width.saturating_sub(paint::width(&line));
            let x = match column.side {
                Alignment::Left => 0,
                Alignment::Center => free / 2,
                Alignment::Right => free,
            };
            paint::line(buf, place, (x, 0), &line);
        }
    }

    /// Returns the area of each cell in `row`. The area of an omitted column is empty.
    fn places(&self, row: Rect) -> Vec<Rect> {
        let widths = self.shown_columns().map(|column| Constraint::Length(column.width));
        let mut widths: Vec<_> = widths.collect();
        if let Some(last) = widths.last_mut() {
            *last = Constraint::Fill(1);
        }
        let layout = Layout::horizontal(widths).spacing(self.gap(row.width)).split(row);
        let mut shown = layout.iter().copied();
        let place = |column: &Column| if column.width > 0 { shown.next() } else { None };
        self.columns.iter().map(place).map(Option::unwrap_or_default).collect()
    }

    fn shown_columns(&self) -> impl Iterator<Item = &Column> {
        self.columns.iter().filter(|column| column.width > 0)
    }

    /// Returns the gap between two columns. If the last column is right-aligned, the gap grows
    /// with the free space.
    fn gap(&self, width: u16) -> u16 {
        /// Maximum gap. With a wider gap, rows would be hard to read.
        const GAP_MAX: u16 = 4;
        let n_gaps = self.shown_columns().count().saturating_sub(1);
        let n_gaps = u16::try_from(n_gaps).unwrap_or(u16::MAX);
        let is_right = |last: &Column| last.side == Alignment::Right;
        if n_gaps == 0 || !self.shown_columns().last().is_some_and(is_right) {
            return 1;
        }
        let needed: u16 = self.columns.iter().map(|column| column.width).sum();
        (width.saturating_sub(needed) / n_gaps).clamp(1, GAP_MAX)
    }
}
