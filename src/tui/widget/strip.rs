//! A distribution of values: dots for inferers, triangles for forecasters, and lines for the
//! combined and the naive value.
//!
//! ```text
//!          ◇   ◆
//!          ┊   ┃ ●
//!    ●     ┊ ● ┃ ●  ●         ●
//!          ┊  ▲┃▲
//! ┴────────┊───┃──┴──────────┴─
//! 67 380          67 430
//! ```

use ratatui::prelude::*;

use super::axis::Scale;
use super::paint;
use super::stats::{self, Quartiles};
use crate::theme::Theme;

/// A distribution of values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Strip<'a> {
    /// Values of the inferers.
    pub(crate) inferers: &'a [f64],
    /// The forecast-implied values.
    pub(crate) forecasters: &'a [f64],
    /// The combined value.
    pub(crate) combined: Option<f64>,
    /// Naive value: combined without forecasters.
    pub(crate) naive: Option<f64>,
    /// Value of the selected actor.
    pub(crate) selected: Option<f64>,
    /// Theme of the screen.
    pub(crate) theme: &'a Theme,
}

/// Maximum distance from the interquartile range, as a multiple of its length, that the scale
/// contains. Values further away are drawn at the edge.
const REACH: f64 = 4.0;

/// Margin on both sides, as a share of the scale's length.
const MARGIN: f64 = 0.05;

/// Rows and scale of a distribution.
#[derive(Debug, Clone, Copy)]
struct Plot<'a> {
    area: Rect,
    scale: Scale,
    theme: &'a Theme,
    /// First row of lines and dots. The row above, if there is one, contains the heads of lines.
    top: u16,
    /// Row of the lowest dots.
    dots: u16,
    /// Row of the triangles.
    triangles: u16,
    /// Row of the axis, second to last. `None` in a low area.
    rule: Option<u16>,
}

impl Widget for Strip<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let theme = self.theme;
        let area = area.intersection(buf.area);
        let quartiles = Quartiles::compute(self.inferers);
        let Some(scale) = self.scale(quartiles).filter(|_| !area.is_empty()) else { return };
        let plot = Plot::new(area, scale, !self.forecasters.is_empty(), theme);
        plot.draw_rule(buf);
        if let Some(quartiles) = quartiles {
            plot.draw_band(buf, quartiles);
        }
        if let Some(naive) = self.naive {
            plot.draw_mark(buf, naive, ['┊', '◇'], theme.text);
        }
        if let Some(combined) = self.combined {
            plot.draw_mark(buf, combined, ['┃', '◆'], theme.series(1));
        }
        self.draw_dots(plot, buf);
        for value in self.forecasters.iter().filter(|value| value.is_finite()) {
            let at = (plot.column(*value), plot.triangles);
            paint::put(buf, area, at, '▲', theme.series(3));
        }
        if let (Some(rule), Some(value)) = (plot.rule, self.selected.filter(|it| it.is_finite())) {
            paint::put(buf, area, (plot.column(value), rule), '┻', theme.focus);
        }
    }
}

impl Strip<'_> {
    /// Returns a scale that contains the combined and the naive value, and all values of actors
    /// except those beyond [`REACH`].
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

    fn draw_dots(&self, plot: Plot<'_>, buf: &mut Buffer) {
        let mut stacks = vec![0_u16; usize::from(plot.area.width)];
        for (value, is_outlier) in self.inferers.iter().zip(stats::outliers(self.inferers)) {
            if !value.is_finite() {
                continue;
            }
            let x = plot.column(*value);
            let Some(stack) = stacks.get_mut(usize::from(x)) else { continue };
            let style = if is_outlier { self.theme.down } else { self.theme.series(0) };
            let symbol = match plot.scale.position(*value) {
                at if at < 0.0 => '‹',
                at if at > 1.0 => '›',
                _ => '●',
            };
            // A plus sign at the top of a full stack stands for further values.
            match plot.dots.checked_sub(*stack).filter(|row| *row >= plot.top) {
                Some(row) => paint::put(buf, plot.area, (x, row), symbol, style),
                None => paint::put(buf, plot.area, (x, plot.top), '+', style),
            }
            *stack = stack.saturating_add(1);
        }
    }
}

impl<'a> Plot<'a> {
    /// Divides `area`, which must not be empty.
    fn new(area: Rect, scale: Scale, has_forecasters: bool, theme: &'a Theme) -> Self {
        let height = area.height;
        let (rule, triangles) =
            if height >= 4 { (Some(height - 2), height - 3) } else { (None, height - 1) };
        let dots = triangles.saturating_sub(u16::from(has_forecasters));
        Self { area, scale, theme, top: u16::from(dots > 0), dots, triangles, rule }
    }

    /// Returns the column of `value`. A value outside of the scale is in the first or last column.
    fn column(&self, value: f64) -> u16 {
        let last = self.area.width.saturating_sub(1);
        paint::cells(self.scale.position(value) * f64::from(last), last)
    }

    /// Draws a line at `value`. The first symbol is the line, the second its head.
    fn draw_mark(&self, buf: &mut Buffer, value: f64, [line, head]: [char; 2], style: Style) {
        let x = self.column(value);
        for row in self.top..=self.rule.unwrap_or(self.triangles) {
            paint::put(buf, self.area, (x, row), line, style);
        }
        paint::put(buf, self.area, (x, 0), head, style);
    }

    fn draw_band(&self, buf: &mut Buffer, quartiles: Quartiles) {
        // Without background colors, the interquartile range is filled with a pattern, which dots
        // overwrite.
        let (symbol, style) = match self.theme.sel.bg {
            Some(_) => (' ', self.theme.sel),
            None => ('░', self.theme.faint),
        };
        for row in self.top..=self.triangles {
            for x in self.column(quartiles.lower)..=self.column(quartiles.upper) {
                paint::put(buf, self.area, (x, row), symbol, style);
            }
        }
    }

    fn draw_rule(&self, buf: &mut Buffer) {
        let Self { area, theme, .. } = *self;
        let Some(rule) = self.rule else { return };
        for x in 0..area.width {
            paint::put(buf, area, (x, rule), '─', theme.border);
        }
        let ticks = self.scale.ticks((area.width / 22).clamp(1, 7));
        let mut free_from = 0;
        for &value in &ticks.values {
            let x = self.column(value);
            let label = ticks.text(value);
            let width = u16::try_from(label.len()).unwrap_or(u16::MAX);
            // The label is centered below its tick, unless it would extend beyond the area.
            let start = x.saturating_sub(width / 2).min(area.width.saturating_sub(width));
            paint::put(buf, area, (x, rule), '┴', theme.border);
            if start >= free_from && width <= area.width {
                paint::text(buf, area, (start, rule + 1), &label, theme.muted);
                free_from = start + width + 1;
            }
        }
    }
}
