//! The parts of a chart around its plot: the grid, the values on its right, the times below.
//!
//! ```text
//! ┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈┈   67 800     plot │ values
//!                                ◂ 67 630
//!                                   vol       volume │
//! ┴───────────┴───────────┴─────              axis
//! 11:20       12:10       13:00
//! ```

use std::time::Duration;

use line_clipping::Point;
use model::timestamp::Timestamp;
use ratatui::prelude::*;

use super::axis::{self, Scale};
use super::{braille, format, paint};
use crate::theme::Theme;

/// Symbol of a grid line.
const GRID: char = '┈';

/// Symbol of a gap in time.
pub(crate) const GAP: char = '╎';

/// Symbol of the crosshair.
const CROSSHAIR: char = '┊';

/// Symbol of a marked value.
pub(crate) const MARK: char = '◇';

/// Columns of labels in addition to the widest number: a free one after the candles, one for the
/// mark `◂` of a tag, and one between mark and number.
const VALUES_AIR: u16 = 3;

/// Maximum number of ticks of the axis of values.
const TICKS_MAX: u16 = 9;

/// Minimum width of a chart with labels of values.
const WIDTH_WITH_VALUES: u16 = 30;

/// Minimum height of a chart with an axis.
const HEIGHT_WITH_AXIS: u16 = 5;

/// Minimum height of a chart with volumes.
const HEIGHT_WITH_VOLUME: u16 = 12;

/// Blocks that fill a cell from the bottom, in eighths.
const BARS: [char; 9] = [' ', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];

/// Areas of the parts of a chart. A part for which there is no space is empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Area of the candles or lines.
    pub(crate) plot: Rect,
    /// Area of the volumes. It has the columns of the plot.
    pub(crate) volume: Rect,
    /// Area of the axis and the labels of times. It has the columns of the plot.
    pub(crate) axis: Rect,
    /// Area of the labels of values. It has the rows of the plot and the volumes.
    pub(crate) values: Rect,
}

impl Layout {
    /// Divides `area` among the parts of a chart. Labels of values are at most `values_width`
    /// columns wide.
    pub(crate) fn divide(area: Rect, values_width: u16, has_volume: bool) -> Self {
        let values_width = if area.width >= WIDTH_WITH_VALUES {
            values_width.saturating_add(VALUES_AIR).min(area.width / 3)
        } else {
            0
        };
        let axis_height = if area.height >= HEIGHT_WITH_AXIS { 2 } else { 0 };
        let above = area.height - axis_height;
        let volume_height = if has_volume && area.height >= HEIGHT_WITH_VOLUME {
            (above / 5).clamp(2, 8)
        } else {
            0
        };
        let width = area.width - values_width;
        let plot = Rect { width, height: above - volume_height, ..area };
        let volume = Rect { y: plot.bottom(), height: volume_height, ..plot };
        let axis = Rect { y: volume.bottom(), height: axis_height, ..plot };
        // A free column separates labels and tags from the latest candle.
        let values_width = values_width.saturating_sub(1);
        let values =
            Rect { x: area.right() - values_width, width: values_width, height: above, ..area };
        Self { plot, volume, axis, values }
    }

    /// Returns the area of the plot and the volumes together.
    pub(crate) fn chart(&self) -> Rect {
        Rect { height: self.plot.height + self.volume.height, ..self.plot }
    }
}

/// The parts of a chart with the scale of its values.
#[derive(Clone, Copy)]
pub(crate) struct Plot<'a> {
    pub(crate) layout: Layout,
    pub(crate) scale: Scale,
    pub(crate) theme: &'a Theme,
}

impl Plot<'_> {
    /// Returns the row of `value` in the plot, not rounded. It can be outside of the plot.
    pub(crate) fn row_of(&self, value: f64) -> f64 {
        (1.0 - self.scale.position(value)) * f64::from(self.layout.plot.height)
    }

    /// Returns the row of `value` in the plot, which must not be empty.
    fn nearest_row(&self, value: f64) -> u16 {
        paint::cells_down(self.row_of(value), self.layout.plot.height - 1)
    }

    /// Draws dotted lines at round values, and their labels.
    pub(crate) fn grid(&self, buf: &mut Buffer) {
        let Layout { plot, values, .. } = self.layout;
        if plot.is_empty() {
            return;
        }
        // There is about one line for four rows.
        let ticks = self.scale.ticks((plot.height / 4).clamp(2, TICKS_MAX));
        for &value in &ticks.values {
            let row = self.nearest_row(value);
            for x in 0..plot.width {
                paint::put(buf, plot, (x, row), GRID, self.theme.faint);
            }
            let text = ticks.text(value);
            paint::text_before(buf, values, (values.width, row), &text, self.theme.muted);
        }
    }

    /// Draws a line through dots. `None` interrupts it. If `is_filled` is true, the area below is tinted.
    pub(crate) fn path(
        &self,
        buf: &mut Buffer,
        dots: impl Iterator<Item = Option<Point>>,
        style: Style,
        is_filled: bool,
    ) {
        let plot = self.layout.plot;
        let mut layer = braille::Layer::new(plot.width, plot.height, style);
        layer.path(dots);
        if is_filled {
            layer.wash(plot, buf, self.theme);
        }
        layer.render(plot, buf);
    }

    /// Marks `value` in column `x` of the plot, such as a value that is expected later.
    pub(crate) fn mark(&self, buf: &mut Buffer, x: u16, value: f64, style: Style) {
        let plot = self.layout.plot;
        if (0.0..f64::from(plot.height)).contains(&self.row_of(value)) {
            paint::put(buf, plot, (x, self.nearest_row(value)), MARK, style);
        }
    }

    /// Draws a tag with `value` at its height, among the labels of values: `◂ 67 630.20`.
    pub(crate) fn tag(&self, buf: &mut Buffer, value: f64, decimals: usize, style: Style) {
        let Layout { plot, values, .. } = self.layout;
        if plot.is_empty() || values.is_empty() || !value.is_finite() {
            return;
        }
        let text = format::right(&format::grouped(value, decimals), (values.width - 1).into());
        let style = self.theme.tag(style);
        paint::text(buf, values, (0, self.nearest_row(value)), &format!("◂{text}"), style);
    }

    /// Draws the volumes and their label. `bars` are the column, the volume and the style of each bar.
    pub(crate) fn volumes(
        &self,
        buf: &mut Buffer,
        bars: impl Iterator<Item = (u16, f64, Style)> + Clone,
    ) {
        let Layout { volume, values, .. } = self.layout;
        let highest = bars.clone().map(|(_, value, _)| value).filter(|value| value.is_finite());
        let highest = highest.fold(0.0, f64::max);
        if highest <= 0.0 || volume.is_empty() {
            return;
        }
        let row = volume.y.saturating_sub(values.y);
        paint::text_before(buf, values, (values.width, row), "vol", self.theme.muted);
        for (x, value, style) in bars {
            bar(buf, volume, x, value / highest, style);
        }
    }

    /// Marks column `x` as a gap: a dotted line with the duration of the gap at its top.
    pub(crate) fn gap(&self, buf: &mut Buffer, x: u16, length: Duration) {
        let plot = self.layout.plot;
        for row in 0..plot.height {
            paint::put(buf, plot, (x, row), GAP, self.theme.faint);
        }
        let text = format::age(length);
        let width = u16::try_from(text.len()).unwrap_or(u16::MAX);
        if x.saturating_add(width) < plot.width {
            paint::text(buf, plot, (x + 1, 0), &text, self.theme.muted);
        }
    }

    /// Draws the crosshair in column `x` of the plot and the volumes.
    pub(crate) fn crosshair(&self, buf: &mut Buffer, x: u16) {
        for row in 0..self.layout.chart().height {
            paint::put(buf, self.layout.chart(), (x, row), CROSSHAIR, self.theme.focus);
        }
    }
}

/// Draws the bar of a volume in column `x`. `share` is its height as a share of the area's height.
fn bar(buf: &mut Buffer, area: Rect, x: u16, share: f64, style: Style) {
    let full = f64::from(area.height) * 8.0;
    let mut eighths = paint::cells(share * full, area.height.saturating_mul(8));
    // Even a small volume is visible, unless it is zero.
    if share > 0.0 {
        eighths = eighths.max(1);
    }
    for row in (0..area.height).rev() {
        let here = eighths.min(8);
        if here == 0 {
            break;
        }
        let symbol = BARS.get(usize::from(here)).copied().unwrap_or('█');
        paint::put(buf, area, (x, row), symbol, style);
        eighths -= here;
    }
}

/// Number of columns of the axis for each label, including a gap.
const LABEL_COLUMNS: u32 = 14;

/// Returns the width of the widest label of an axis for `values`, which are formatted with `decimals`.
pub(super) fn values_width(values: impl Iterator<Item = f64>, decimals: usize) -> u16 {
    /// Width if there is no finite value.
    const WIDTH_USUAL: u16 = 8;
    let (low, high) = values
        .filter(|value| value.is_finite())
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), it| (low.min(it), high.max(it)));
    if low > high {
        return WIDTH_USUAL;
    }
    let ticks = Scale::over([low, high], 0.0).map(|scale| scale.ticks(TICKS_MAX));
    let ticks = ticks.map_or_else(Vec::new, |ticks| {
        ticks.values.iter().map(|value| ticks.text(*value).len()).collect()
    });
    // The widest number is the lowest, the highest, or a tick. If all values are equal, ticks have more
    // decimals or another sign.
    let widths = [low, high].map(|value| format::grouped(value, decimals).len());
    let width = widths.into_iter().chain(ticks).max().unwrap_or_default();
    u16::try_from(width).unwrap_or(u16::MAX)
}

/// Draws the axis of times below a chart. Each time step has a tick and a label at its start.
///
/// `times` are columns with their times, from left to right. Steps are so long that labels do not
/// touch. The first label has a date if it is not on the day of `now`.
pub(crate) fn time_axis(
    buf: &mut Buffer,
    axis: Rect,
    times: &[(u16, Timestamp)],
    now: Timestamp,
    theme: &Theme,
) {
    for x in 0..axis.width {
        paint::put(buf, axis, (x, 0), '─', theme.border);
    }
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return };
    let n_columns = u32::from(last.0.saturating_sub(first.0)).max(1);
    let step = axis::time_step(last.1.since(first.1).saturating_mul(LABEL_COLUMNS) / n_columns);
    // The first column has a tick only if the column before it, which is out of view, would belong
    // to another step.
    let apart = times.get(1).map_or(Duration::ZERO, |second| second.1.since(first.1));
    let mut number = Some(axis::step_number(first.1 - apart, step));
    let mut before = None;
    let mut free_from = 0;
    for (x, time) in times {
        let this = axis::step_number(*time, step);
        let is_new = number.replace(this) != Some(this);
        if !is_new || *x < free_from {
            continue;
        }
        // If the step starts between the previous column and this column, the label shows its exact
        // start.
        let start = axis::step_start(*time, step);
        let label_time = if time.since(start) <= apart { start } else { *time };
        let label = axis::time_label(label_time, before, step, now);
        let width = u16::try_from(label.len()).unwrap_or(u16::MAX);
        if x.saturating_add(width) > axis.width {
            continue;
        }
        paint::put(buf, axis, (*x, 0), '┴', theme.border);
        paint::text(buf, axis, (*x, 1), &label, theme.muted);
        free_from = x.saturating_add(width).saturating_add(2);
        before = Some(label_time);
    }
    if before.is_none() {
        // No step begins, or its label does not fit. The first column gets a label that ends before
        // the end of the axis.
        let label = axis::time_label(first.1, None, step.max(apart), now);
        let width = u16::try_from(label.len()).unwrap_or(u16::MAX);
        paint::put(buf, axis, (first.0, 0), '┴', theme.border);
        let x = first.0.min(axis.width.saturating_sub(width));
        paint::text(buf, axis, (x, 1), &label, theme.muted);
    }
}
