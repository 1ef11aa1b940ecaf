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

use model::timestamp::Timestamp;
use ratatui::prelude::*;

use super::axis::{self, Scale};
use super::{format, paint};
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

/// Returns the row of `value`, not rounded, if the scale is `height` rows high. The returned row can be
/// outside of these rows.
pub(crate) fn row_of(scale: Scale, value: f64, height: u16) -> f64 {
    (1.0 - scale.position(value)) * f64::from(height)
}

/// Draws dotted lines at round values, and their labels.
pub(crate) fn grid(buf: &mut Buffer, layout: &Layout, scale: Scale, theme: &Theme) {
    let Layout { plot, values, .. } = *layout;
    if plot.is_empty() {
        return;
    }
    // There is about one line for four rows.
    let ticks = scale.ticks((plot.height / 4).clamp(2, TICKS_MAX));
    for &value in &ticks.values {
        let row = paint::cells_down(row_of(scale, value, plot.height), plot.height - 1);
        for x in 0..plot.width {
            paint::put(buf, plot, (x, row), GRID, theme.faint);
        }
        let text = ticks.text(value);
        paint::text_before(buf, values, (values.width, row), &text, theme.muted);
    }
}

/// Marks `value` in column `x` of the plot, such as a value that is expected later.
pub(crate) fn mark(buf: &mut Buffer, plot: Rect, x: u16, scale: Scale, value: f64, style: Style) {
    let row = row_of(scale, value, plot.height);
    if (0.0..f64::from(plot.height)).contains(&row) {
        paint::put(buf, plot, (x, paint::cells_down(row, plot.height - 1)), MARK, style);
    }
}

/// Draws a tag at the height of `value`, among the labels of values: `◂ 67 630.20`.
pub(crate) fn tag(
    buf: &mut Buffer,
    layout: &Layout,
    scale: Scale,
    text: &str,
    value: f64,
    style: Style,
) {
    let Layout { plot, values, .. } = *layout;
    if plot.is_empty() || values.is_empty() || !value.is_finite() {
        return;
    }
    let row = paint::cells_down(row_of(scale, value, plot.height), plot.height - 1);
    let text = format!("◂{}", format::right(text, usize::from(values.width - 1)));
    paint::text(buf, values, (0, row), &text, style);
}

/// Draws the volumes and their label. `bars` are the column, the volume and the style of each bar.
pub(crate) fn volumes(
    buf: &mut Buffer,
    layout: &Layout,
    bars: impl Iterator<Item = (u16, f64, Style)> + Clone,
    theme: &Theme,
) {
    let Layout { volume, values, .. } = *layout;
    let highest = bars.clone().map(|(_, value, _)| value).filter(|value| value.is_finite());
    let highest = highest.fold(0.0, f64::max);
    if highest <= 0.0 || volume.is_empty() {
        return;
    }
    let row = volume.y.saturating_sub(values.y);
    paint::text_before(buf, values, (values.width, row), "vol", theme.muted);
    for (x, value, style) in bars {
        bar(buf, volume, x, value / highest, style);
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

/// Marks column `x` as a gap: a dotted line with the duration of the gap at its top.
pub(crate) fn gap(buf: &mut Buffer, layout: &Layout, x: u16, length: Duration, theme: &Theme) {
    let plot = layout.plot;
    for row in 0..plot.height {
        paint::put(buf, plot, (x, row), GAP, theme.faint);
    }
    let text = format::age(length);
    let width = u16::try_from(text.len()).unwrap_or(u16::MAX);
    if x.saturating_add(width) < plot.width {
        paint::text(buf, plot, (x + 1, 0), &text, theme.muted);
    }
}

/// Draws the crosshair in column `x` of the plot and the volumes.
pub(crate) fn crosshair(buf: &mut Buffer, layout: &Layout, x: u16, theme: &Theme) {
    for row in 0..layout.chart().height {
        paint::put(buf, layout.chart(), (x, row), CROSSHAIR, theme.focus);
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
