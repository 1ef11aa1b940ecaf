//! A chart of lines over time.

use std::time::Duration;

use line_clipping::Point as Dot;
use model::timestamp::Timestamp;
use ratatui::prelude::*;

use super::axis::Scale;
use super::braille;
use super::paint;
use super::plot::{self, Layout, Plot};
use crate::theme::Theme;

/// A value at a time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    /// Time of the value.
    pub(crate) time: Timestamp,
    /// The value. One that is not finite interrupts the line.
    pub(crate) value: f64,
}

/// A line of a chart.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Series<'a> {
    /// Points, oldest first.
    pub(crate) points: &'a [Point],
    pub(crate) style: Style,
    /// True if the area below the line is tinted.
    pub(crate) is_filled: bool,
    /// True if the line does not affect the scale, such as an average.
    pub(crate) is_guide: bool,
    /// Points that are marked.
    pub(crate) marks: &'a [Point],
}

impl<'a> Series<'a> {
    /// Returns a line without a tinted area.
    pub(crate) const fn new(points: &'a [Point], style: Style) -> Self {
        Self { points, style, is_filled: false, is_guide: false, marks: &[] }
    }
}

/// A chart of lines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines<'a> {
    /// The lines. The last line is in front of the other lines.
    pub(crate) series: &'a [Series<'a>],
    /// Time at the left end.
    pub(crate) start: Timestamp,
    /// Time at the right end.
    pub(crate) end: Timestamp,
    /// Maximum interval between two points that are connected.
    pub(crate) gap: Duration,
    /// Volumes, which are bars below the lines. Empty to show no bars.
    pub(crate) volumes: &'a [Point],
    /// Current time. The axis omits the date for times on this day.
    pub(crate) now: Timestamp,
    /// Time at which the crosshair is drawn.
    pub(crate) crosshair: Option<Timestamp>,
    /// Value that is marked next to the chart, and the style of the mark.
    pub(crate) tag: Option<(f64, Style)>,
    /// Number of decimals of the labels.
    pub(crate) decimals: usize,
    /// Scale, such as 0 to 100 for shares. `None` to fit the scale to the lines.
    pub(crate) scale: Option<Scale>,
    /// Theme of the screen.
    pub(crate) theme: &'a Theme,
}

/// Margin above the highest and below the lowest point, as a share of their distance.
const MARGIN: f64 = 0.06;

impl Widget for Lines<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let area = area.intersection(buf.area);
        let layout = self.layout(area);
        let width = layout.plot.width;
        self.draw_times(&layout, buf);
        let measured = self.series.iter().filter(|line| !line.is_guide);
        let seen = measured.flat_map(|line| line.points);
        let seen = seen.filter(|point| self.shows(point.time)).map(|point| point.value);
        let Some(scale) = self.scale.or_else(|| Scale::over(seen, MARGIN)) else { return };
        let plot = Plot { layout, scale, theme: self.theme };
        plot.grid(buf);
        self.draw_gaps(plot, buf);
        if let Some(x) = self.crosshair.and_then(|time| self.column(time, width)) {
            plot.crosshair(buf, x);
        }
        for line in self.series {
            let dots = self.dots(line.points, layout.plot, scale);
            plot.path(buf, dots.into_iter(), line.style, line.is_filled);
            for point in line.marks {
                if let Some(x) = self.column(point.time, width) {
                    plot.mark(buf, x, point.value, line.style);
                }
            }
        }
        self.draw_volumes(plot, buf);
        if let Some((value, style)) = self.tag {
            plot.tag(buf, value, self.decimals, style);
        }
    }
}

impl<'a> Lines<'a> {
    /// Returns a chart of `series` from the first to the last time of the line in front. The last
    /// value of this line is marked. Values that are not finite interrupt a line.
    pub(crate) fn new(
        series: &'a [Series<'a>],
        now: Timestamp,
        decimals: usize,
        theme: &'a Theme,
    ) -> Self {
        let front = series.iter().rfind(|line| !line.is_guide);
        let points = front.iter().flat_map(|line| line.points);
        let mut seen = points.filter(|point| point.value.is_finite());
        let first = seen.next();
        let last = seen.next_back().or(first);
        let time = |point: Option<&Point>| point.map_or(now, |point| point.time);
        let tag = last.zip(front).map(|(point, line)| (point.value, line.style));
        let (start, end) = (time(first), time(last));
        let (gap, volumes, crosshair, scale) = (Duration::MAX, &[][..], None, None);
        Self { series, start, end, gap, volumes, now, crosshair, tag, decimals, scale, theme }
    }

    /// Returns the part of `area` with lines and volumes, and the column and the time of each
    /// point of the line in front.
    pub(crate) fn columns(&self, area: Rect) -> (Rect, Vec<(u16, Timestamp)>) {
        let chart = self.layout(area).chart();
        let front = self.series.iter().rfind(|line| !line.is_guide);
        let points = front.into_iter().flat_map(|line| line.points);
        let time = |point: &Point| Some((self.column(point.time, chart.width)?, point.time));
        (chart, points.filter_map(time).collect())
    }

    /// Marks the gaps in the line in front, if they are wide enough.
    fn draw_gaps(&self, plot: Plot<'_>, buf: &mut Buffer) {
        /// Minimum width of a gap that is marked.
        const WIDE_FROM: u16 = 3;
        let Some(front) = self.series.iter().rfind(|line| !line.is_guide) else { return };
        let finite = front.points.iter().enumerate().filter(|(_, it)| it.value.is_finite());
        for ((idx, from), (next_idx, to)) in finite.clone().zip(finite.skip(1)) {
            let length = to.time.since(from.time);
            let x = |point: &Point| self.column(point.time, plot.layout.plot.width);
            if (next_idx > idx + 1 || length > self.gap)
                && let (Some(from), Some(to)) = (x(from), x(to))
                && to.saturating_sub(from) >= WIDE_FROM
            {
                plot.gap(buf, u16::midpoint(from, to), length);
            }
        }
    }

    fn shows(&self, time: Timestamp) -> bool {
        (self.start..=self.end).contains(&time)
    }

    fn layout(&self, area: Rect) -> Layout {
        let newest = self.series.iter().flat_map(|line| line.points.iter().rev().take(512));
        let values_width = plot::values_width(newest.map(|point| point.value), self.decimals);
        Layout::divide(area, values_width, self.volumes.iter().any(|point| point.value > 0.0))
    }

    /// Returns the column for `time` if the chart is `n` columns wide. Returns `None` if the time
    /// is not on the chart.
    fn column(&self, time: Timestamp, n: u16) -> Option<u16> {
        let last = n.checked_sub(1)?;
        if !self.shows(time) {
            return None;
        }
        let length = self.end.since(self.start).as_secs_f64();
        let along = if length > 0.0 { time.since(self.start).as_secs_f64() / length } else { 1.0 };
        Some(paint::cells(along * f64::from(last), last))
    }

    /// Returns the positions of the dots for `points` in `plot`. `None` interrupts the line.
    fn dots(&self, points: &[Point], plot: Rect, scale: Scale) -> Vec<Option<Dot>> {
        let n_columns = plot.width.saturating_mul(braille::DOTS.0);
        let height = f64::from(plot.height * braille::DOTS.1) - 1.0;
        let mut dots = Vec::new();
        let mut before: Option<Timestamp> = None;
        for Point { time, value } in points.iter().copied() {
            let Some(x) = self.column(time, n_columns) else { continue };
            if before.replace(time).is_some_and(|before| time.since(before) > self.gap) {
                dots.push(None);
            }
            let y = (1.0 - scale.position(value)) * height;
            dots.push(value.is_finite().then_some(Dot { x: x.into(), y }));
        }
        dots
    }

    fn draw_volumes(&self, plot: Plot<'_>, buf: &mut Buffer) {
        let volume = plot.layout.volume;
        if volume.is_empty() {
            return;
        }
        let mut sums = vec![0.0_f64; usize::from(volume.width)];
        for point in self.volumes.iter().filter(|point| point.value.is_finite()) {
            let x = self.column(point.time, volume.width).map(usize::from);
            if let Some(sum) = x.and_then(|x| sums.get_mut(x)) {
                *sum += point.value;
            }
        }
        plot.volumes(buf, (0..volume.width).zip(sums).map(|(x, sum)| (x, sum, self.theme.faint)));
    }

    fn draw_times(&self, layout: &Layout, buf: &mut Buffer) {
        let width = layout.plot.width;
        let length = self.end.since(self.start);
        let n_last = u32::from(width.saturating_sub(1)).max(1);
        let times: Vec<_> = if length.is_zero() {
            Vec::new()
        } else {
            (0..width).map(|x| (x, self.start + length * u32::from(x) / n_last)).collect()
        };
        plot::time_axis(buf, layout.axis, &times, self.now, self.theme);
    }
}
