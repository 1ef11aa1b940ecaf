//! The distribution of values: a dot for each inferer, a triangle for each forecaster, and lines for
//! the combined and the naive value.
//!
//! ```text
//!          ◇   ◆
//!          ┊   ┃ ●
//!    ●     ┊ ● ┃ ●  ●         ●
//!          ┊  ▲┃▲
//! ┴────────┊───┃──┴──────────┴─
//! 67 380          67 430
//! ```

use ratatui::{buffer::Buffer, layout::Rect, style::Style, widgets::Widget};

use super::{
    axis::Scale,
    format, paint,
    stats::{self, Quartiles},
};
use crate::theme::Theme;

/// A distribution of values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strip<'a> {
    /// The values of the inferers.
    pub(crate) inferers: &'a [f64],
    /// The forecast-implied values.
    pub(crate) forecasters: &'a [f64],
    /// The combined value.
    pub(crate) combined: Option<f64>,
    /// The naive value: combined without forecasters.
    pub(crate) naive: Option<f64>,
    /// The value of the selected actor.
    pub(crate) selected: Option<f64>,
    /// The colors to draw with.
    pub(crate) theme: &'a Theme,
}

/// Values further from the middle half than this many times its length are drawn at the edge.
const REACH: f64 = 4.0;

/// The margin at both ends, as a share of the scale.
const MARGIN: f64 = 0.05;

/// The rows of the parts of a strip.
#[derive(Debug, Clone, Copy)]
struct Rows {
    /// The first row of the lines: below the row of marks, if there is one.
    top: u16,
    /// The row of the lowest dots.
    dots: u16,
    /// The row of the triangles.
    triangles: u16,
    /// The row of the rule, if there is one; the last but one.
    rule: Option<u16>,
}

impl Rows {
    fn divide(height: u16, has_forecasters: bool) -> Option<Self> {
        let last = height.checked_sub(1)?;
        let (rule, last) = if height >= 4 { (Some(height - 2), height - 3) } else { (None, last) };
        let dots = if has_forecasters { last.saturating_sub(1) } else { last };
        Some(Self { top: u16::from(dots > 0), dots, triangles: last, rule })
    }
}

impl Widget for Strip<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let theme = self.theme;
        let area = area.intersection(buf.area);
        let Some(rows) = Rows::divide(area.height, !self.forecasters.is_empty()) else { return };
        let quartiles = Quartiles::compute(self.inferers);
        let Some(scale) = self.scale(quartiles) else { return };
        if area.width == 0 {
            return;
        }
        draw_rule(buf, area, rows, scale, theme);
        if let Some(quartiles) = quartiles {
            draw_band(buf, area, rows, scale, quartiles, theme);
        }
        if let Some(naive) = self.naive {
            let x = column(scale, naive, area.width);
            draw_mark(buf, area, rows, x, ['┊', '◇'], theme.text);
        }
        if let Some(combined) = self.combined {
            let x = column(scale, combined, area.width);
            draw_mark(buf, area, rows, x, ['┃', '◆'], theme.series(1));
        }
        self.draw_dots(area, rows, scale, buf);
        for value in self.forecasters.iter().copied().filter(|value| value.is_finite()) {
            let x = column(scale, value, area.width);
            paint::put(buf, area, (x, rows.triangles), '▲', theme.series(3));
        }
        self.draw_selected(area, rows, scale, buf);
    }
}

impl Strip<'_> {
    /// The scale of all values but those beyond [`REACH`].
    fn scale(&self, quartiles: Option<Quartiles>) -> Option<Scale> {
        let named = self.combined.into_iter().chain(self.naive);
        let all = self.inferers.iter().chain(self.forecasters).copied();
        let Some(Quartiles { lower, upper, .. }) = quartiles else {
            return Scale::over(all.chain(named), MARGIN);
        };
        let reach = (upper - lower) * REACH;
        if reach <= 0.0 || !reach.is_finite() {
            return Scale::over(all.chain(named), MARGIN);
        }
        let held = all.map(|value| value.clamp(lower - reach, upper + reach));
        Scale::over(held.chain(named), MARGIN)
    }

    fn draw_dots(&self, area: Rect, rows: Rows, scale: Scale, buf: &mut Buffer) {
        let mut stacks = vec![0_u16; usize::from(area.width)];
        for (value, is_outlier) in self.inferers.iter().zip(stats::outliers(self.inferers)) {
            if !value.is_finite() {
                continue;
            }
            let x = column(scale, *value, area.width);
            let Some(stack) = stacks.get_mut(usize::from(x)) else { continue };
            let style = if is_outlier { self.theme.down } else { self.theme.series(0) };
            let symbol = match scale.position(*value) {
                at if at < 0.0 => '‹',
                at if at > 1.0 => '›',
                _ => '●',
            };
            // A full stack shows so on its top.
            match rows.dots.checked_sub(*stack).filter(|row| *row >= rows.top) {
                Some(row) => paint::put(buf, area, (x, row), symbol, style),
                None => paint::put(buf, area, (x, rows.top), '+', style),
            }
            *stack = stack.saturating_add(1);
        }
    }

    fn draw_selected(&self, area: Rect, rows: Rows, scale: Scale, buf: &mut Buffer) {
        let Some(value) = self.selected.filter(|value| value.is_finite()) else { return };
        let x = column(scale, value, area.width);
        if let (Some(rule), true) = (rows.rule, area.width > 0) {
            paint::put(buf, area, (x, rule), '┻', self.theme.focus);
        }
    }
}

/// The column of `value`; the first or last one if it is beyond.
fn column(scale: Scale, value: f64, width: u16) -> u16 {
    let last = width.saturating_sub(1);
    paint::cells(scale.position(value) * f64::from(last), last)
}

/// Draws a line of the first symbol in column `x`, with the second one on top.
fn draw_mark(buf: &mut Buffer, area: Rect, rows: Rows, x: u16, symbols: [char; 2], style: Style) {
    let [line, head] = symbols;
    for row in rows.top..=rows.rule.unwrap_or(rows.triangles) {
        paint::put(buf, area, (x, row), line, style);
    }
    paint::put(buf, area, (x, 0), head, style);
}

fn draw_band(
    buf: &mut Buffer,
    area: Rect,
    rows: Rows,
    scale: Scale,
    quartiles: Quartiles,
    theme: &Theme,
) {
    let from = column(scale, quartiles.lower, area.width);
    let to = column(scale, quartiles.upper, area.width);
    for row in rows.top..=rows.triangles {
        for x in from..=to {
            // Where a theme cannot paint behind a dot, the band is a pattern that dots replace.
            if theme.sel.bg.is_some() {
                paint::put(buf, area, (x, row), ' ', theme.sel);
            } else {
                paint::put(buf, area, (x, row), '░', theme.faint);
            }
        }
    }
}

fn draw_rule(buf: &mut Buffer, area: Rect, rows: Rows, scale: Scale, theme: &Theme) {
    let Some(rule) = rows.rule else { return };
    for x in 0..area.width {
        paint::put(buf, area, (x, rule), '─', theme.border);
    }
    let ticks = scale.ticks((area.width / 22).clamp(1, 7));
    let mut free_from = 0;
    for value in ticks.values {
        let x = column(scale, value, area.width);
        let label = format::grouped(value, ticks.decimals);
        let width = u16::try_from(label.len()).unwrap_or(u16::MAX);
        // Centered below its tick, but within the area.
        let start = x.saturating_sub(width / 2).min(area.width.saturating_sub(width));
        paint::put(buf, area, (x, rule), '┴', theme.border);
        if start >= free_from && width <= area.width {
            paint::text(buf, area, (start, rule + 1), &label, theme.muted);
            free_from = start + width + 1;
        }
    }
}
