//! A chart of candles: open, high, low and close of each bucket, with volumes below and lines
//! behind.
//!
//! The latest candle is on the right. A few empty buckets leave their columns free. A longer gap
//! is a single dotted column with its duration.

use std::time::Duration;

use line_clipping::Point;
use model::row::Bucket;
use model::timestamp::Timestamp;
use ratatui::prelude::*;
use strum::VariantArray;

use super::axis::Scale;
use super::braille;
use super::plot::{self, Layout};
use super::{format, line, paint};
use crate::theme::{Fill, Theme};

/// Number of candles, or of points of a line, in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, VariantArray)]
pub(crate) enum Density {
    /// One candle in four columns, or one point in four columns.
    Wide,
    /// One candle in two columns, or one point in each column.
    Narrow,
    /// One candle in each column, or four points in each column.
    Dense,
    /// One candle in each column, or 16 points in each column.
    Packed,
}

/// A line that is drawn behind the candles.
#[derive(Debug, Clone)]
pub(crate) struct Overlay {
    pub(crate) name: String,
    /// Value at each candle. `None` interrupts the line.
    pub(crate) values: Vec<Option<f64>>,
    pub(crate) style: Style,
}

/// A chart of candles.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Candles<'a> {
    /// All candles, oldest first.
    pub(crate) bars: &'a [Bucket],
    /// Length of a bucket, or usual interval between rows. Gaps are measured by it. `None` to show
    /// no gaps.
    pub(crate) bucket: Option<Duration>,
    /// Number of later candles that are scrolled out on the right.
    pub(crate) n_newer: usize,
    /// Number of free slots to the right of the latest candle.
    pub(crate) n_free: usize,
    /// Number of candles in a column.
    pub(crate) density: Density,
    /// Lines behind the candles. The first line is in front of the other lines.
    pub(crate) overlays: &'a [Overlay],
    /// Forecasts behind the candles. The scale extends to them.
    pub(crate) forecast: Option<line::Series<'a>>,
    /// Current time. The axis omits the date for times on this day.
    pub(crate) now: Timestamp,
    /// Timestamp of the candle under the crosshair.
    pub(crate) crosshair: Option<Timestamp>,
    /// Start of the open bucket. The latest candle is marked if it has this start.
    pub(crate) open_bucket: Option<Timestamp>,
    /// Number of decimals of the labels.
    pub(crate) decimals: usize,
    /// Fixed scale, such as 0 to 100 for percentages. `None` to fit the scale to the candles.
    pub(crate) scale: Option<Scale>,
    /// Theme of the screen.
    pub(crate) theme: &'a Theme,
}

/// Maximum distance from the candles, as a share of their height, at which lines extend the scale.
const OVERLAY_REACH: f64 = 0.15;

/// Maximum number of consecutive empty buckets that are shown as free columns.
const EMPTY_MAX: u64 = 3;

/// Margin above the highest and below the lowest candle, as a share of their height.
const MARGIN: f64 = 0.04;

fn style_of(candle: &Bucket, theme: &Theme) -> Style {
    if candle.is_falling() { theme.down } else { theme.up }
}

fn is_finite(candle: &Bucket) -> bool {
    [candle.open, candle.high, candle.low, candle.close].iter().all(|value| value.is_finite())
}

impl Density {
    /// Returns the width of a candle, and the distance between two candles.
    pub(crate) const fn columns(self) -> (u16, u16) {
        match self {
            Self::Wide => (3, 4),
            Self::Narrow => (1, 2),
            Self::Dense | Self::Packed => (1, 1),
        }
    }
}

/// Content of a slot of the chart.
#[derive(Debug, Clone, Copy)]
enum Slot<'a> {
    /// A candle with its index.
    Candle(usize, &'a Bucket),
    /// A gap of this duration, which is a dotted column.
    Gap(Duration),
}

impl Widget for Candles<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let theme = self.theme;
        let area = area.intersection(buf.area);
        let layout = self.layout(area);
        let slots = self.slots(layout.plot.width);
        let seen = || {
            slots.iter().filter_map(|(x, place)| match place {
                Slot::Candle(idx, candle) => Some((*x, *idx, *candle)),
                Slot::Gap(_) => None,
            })
        };
        let bounds = seen()
            .filter(|(_, _, c)| is_finite(c))
            .flat_map(|(_, _, c)| [c.low, c.high, c.open, c.close]);
        let forecast = self.forecast.iter().flat_map(|line| line.points).map(|it| it.value);
        let bounds = bounds.chain(self.overlay_values(seen())).chain(forecast);
        let over = || Scale::over(bounds, MARGIN);
        let Some(scale) = self.scale.or_else(over) else {
            plot::time_axis(buf, layout.axis, &[], self.now, theme);
            return;
        };
        plot::grid(buf, &layout, scale, theme);
        let center = self.density.columns().0 / 2;
        for (x, place) in &slots {
            if let Slot::Gap(length) = place {
                plot::gap(buf, &layout, x + center, *length, theme);
            }
        }
        let crosshair = seen().find(|(_, _, candle)| Some(candle.timestamp) == self.crosshair);
        if let Some((x, _, _)) = crosshair {
            plot::crosshair(buf, &layout, x + center, theme);
        }
        for overlay in self.overlays.iter().rev() {
            let value = |idx: usize| overlay.values.get(idx).copied().flatten();
            let places = seen().map(|(x, idx, _)| Some((x + center, value(idx)?)));
            draw_path(buf, layout.plot, places, scale, overlay.style);
        }
        let times: Vec<_> = seen().map(|(x, _, candle)| (x + center, candle.timestamp)).collect();
        if let Some(line) = self.forecast {
            let column = |time| self.column(time, &times);
            let places = line.points.iter().map(|it| Some((column(it.time)?, it.value)));
            draw_path(buf, layout.plot, places, scale, line.style);
        }
        for (x, _, candle) in seen().filter(|(_, _, candle)| is_finite(candle)) {
            draw_candle(buf, layout.plot, x, candle, &self, scale);
        }
        self.draw_marks(&times, scale, layout.plot, buf);
        let bars = seen().flat_map(|(x, _, candle)| {
            let columns = x..x + self.density.columns().0;
            columns.map(move |x| (x, candle.volume, style_of(candle, theme)))
        });
        plot::volumes(buf, &layout, bars, theme);
        plot::time_axis(buf, layout.axis, &times, self.now, theme);
        for (x, place) in &slots {
            if matches!(place, Slot::Gap(_)) {
                paint::put(buf, layout.axis, (x + center, 0), plot::GAP, theme.muted);
            }
        }
        // If the latest candle is the open bucket, a part of the axis below it is highlighted.
        if let Some((x, _)) = times.last().filter(|(_, time)| Some(*time) == self.open_bucket) {
            for column in x - center..=x + center {
                paint::put(buf, layout.axis, (column, 0), '━', theme.info);
            }
        }
        if let Some(last) =
            self.bars.iter().rev().skip(self.n_newer).find(|candle| is_finite(candle))
        {
            let text = format::grouped(last.close, self.decimals);
            plot::tag(buf, &layout, scale, &text, last.close, theme.tag(style_of(last, theme)));
        }
    }
}

impl Candles<'_> {
    /// Returns the number of candles that fit on a chart that is `width` columns wide, including
    /// its labels.
    pub(crate) fn capacity(&self, width: u16) -> usize {
        let layout = self.layout(Rect::new(0, 0, width, u16::MAX));
        let (body, pitch) = self.density.columns();
        usize::from((layout.plot.width + pitch - body) / pitch)
    }

    /// Returns the part of `area` with candles and volumes, and the middle column and the time of
    /// each candle.
    pub(crate) fn columns(&self, area: Rect) -> (Rect, Vec<(u16, Timestamp)>) {
        let chart = self.layout(area).chart();
        let center = self.density.columns().0 / 2;
        let time = |(x, slot)| match slot {
            Slot::Candle(_, candle) => Some((x + center, candle.timestamp)),
            Slot::Gap(_) => None,
        };
        (chart, self.slots(chart.width).into_iter().filter_map(time).collect())
    }

    /// Returns the values of all lines at the candles `seen`, as far as they are at most
    /// [`OVERLAY_REACH`] away from the candles. The scale is extended to them.
    fn overlay_values<'a>(
        &self,
        seen: impl Iterator<Item = (u16, usize, &'a Bucket)> + Clone,
    ) -> Vec<f64> {
        let finite = seen.clone().filter(|(_, _, candle)| is_finite(candle));
        let (low, high) = finite
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), (.., c)| {
                (low.min(c.low).min(c.high), high.max(c.high).max(c.low))
            });
        let room = (high - low) * OVERLAY_REACH;
        if !room.is_finite() {
            return Vec::new();
        }
        let value = |overlay: &Overlay, idx: usize| overlay.values.get(idx).copied().flatten();
        let values =
            seen.flat_map(|(_, idx, _)| self.overlays.iter().map(move |it| value(it, idx)));
        values.flatten().filter(|value| (low - room..=high + room).contains(value)).collect()
    }

    fn layout(&self, area: Rect) -> Layout {
        let newest = self.bars.iter().rev().take(512).filter(|c| is_finite(c));
        let values_width = plot::values_width(newest.map(|c| c.high), self.decimals);
        Layout::divide(area, values_width, self.bars.iter().any(|candle| candle.volume > 0.0))
    }

    /// Returns the candles and the gaps from left to right, each with its leftmost column.
    fn slots(&self, width: u16) -> Vec<(u16, Slot<'_>)> {
        let (body, pitch) = self.density.columns();
        let mut slots = Vec::new();
        let n_free = u16::try_from(self.n_free).unwrap_or(u16::MAX);
        let taken = body.saturating_add(n_free.saturating_mul(pitch));
        let Some(mut x) = width.checked_sub(taken) else { return slots };
        let n_kept = self.bars.len().saturating_sub(self.n_newer);
        let mut newer: Option<&Bucket> = None;
        for (idx, candle) in self.bars.iter().enumerate().take(n_kept).rev() {
            let n_empty = newer.map_or(0, |newer| self.n_empty_between(candle, newer));
            let (n_free, is_gap) = if n_empty > EMPTY_MAX {
                (1, true)
            } else {
                (u16::try_from(n_empty).unwrap_or(0), false)
            };
            let Some(left) = x.checked_sub(n_free * pitch) else { break };
            if is_gap {
                let length =
                    newer.map_or(Duration::ZERO, |newer| newer.timestamp.since(candle.timestamp));
                slots.push((left + pitch, Slot::Gap(length)));
            }
            slots.push((left, Slot::Candle(idx, candle)));
            newer = Some(candle);
            let Some(next) = left.checked_sub(pitch) else { break };
            x = next;
        }
        slots.reverse();
        slots
    }

    /// Returns the number of empty buckets between two consecutive candles.
    fn n_empty_between(&self, older: &Bucket, newer: &Bucket) -> u64 {
        let Some(bucket) = self.bucket.filter(|bucket| !bucket.is_zero()) else { return 0 };
        let apart = newer.timestamp.since(older.timestamp).as_micros() / bucket.as_micros();
        u64::try_from(apart).unwrap_or(u64::MAX).saturating_sub(1)
    }

    /// Returns the column for `time`. `times` are the columns of the candles with their times. After
    /// the last candle, columns continue at the distance of a bucket.
    fn column(&self, time: Timestamp, times: &[(u16, Timestamp)]) -> Option<u16> {
        let n_before = times.partition_point(|(_, start)| *start <= time);
        let (x, start) = *times.get(n_before.checked_sub(1)?)?;
        if n_before < times.len() {
            return Some(x);
        }
        let n_ahead = time.since(start).as_micros().checked_div(self.bucket?.as_micros())?;
        u16::try_from(n_ahead).ok()?.checked_mul(self.density.columns().1)?.checked_add(x)
    }

    fn draw_marks(&self, times: &[(u16, Timestamp)], scale: Scale, plot: Rect, buf: &mut Buffer) {
        let Some(line) = self.forecast else { return };
        for mark in line.marks {
            if let Some(x) = self.column(mark.time, times) {
                plot::mark(buf, plot, x, scale, mark.value, line.style);
            }
        }
    }
}

/// Draws a line through values, each with its column. `None` and values that are not finite interrupt
/// the line.
fn draw_path(
    buf: &mut Buffer,
    plot: Rect,
    places: impl Iterator<Item = Option<(u16, f64)>>,
    scale: Scale,
    style: Style,
) {
    let mut layer = braille::Layer::new(plot.width, plot.height, style);
    layer.path(places.map(|place| {
        let (x, value) = place.filter(|(_, value)| value.is_finite())?;
        let row = plot::row_of(scale, value, plot.height);
        Some(Point { x: f64::from(x) * 2.0 + 0.5, y: row * 4.0 - 0.5 })
    }));
    layer.render(plot, buf);
}

/// Part of a candle that fills half of a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    Nothing,
    Wick,
    Body,
}

/// Rows of the wick and of the body of a candle, in halves of a cell, counted from the top of the
/// plot.
#[derive(Debug, Clone, Copy)]
struct Halves {
    wick: (u16, u16),
    body: (u16, u16),
    /// Rows of the body's top and bottom, not rounded.
    exact: (f64, f64),
}

impl Halves {
    fn measure(candle: &Bucket, scale: Scale, height: u16) -> Self {
        let row = |value| plot::row_of(scale, value, height);
        let top = row(candle.open.max(candle.close));
        let bottom = row(candle.open.min(candle.close));
        let last = height.saturating_mul(2);
        let half = |row: f64| paint::cells(row * 2.0, last);
        let body_top = half(top).min(last.saturating_sub(1));
        let body = (body_top, half(bottom).max(body_top + 1));
        let wick = (half(row(candle.high)).min(body.0), half(row(candle.low)).max(body.1));
        Self { wick, body, exact: (top, bottom) }
    }

    fn part(&self, half: u16) -> Half {
        let within = |(from, to): (u16, u16)| (from..to).contains(&half);
        if within(self.body) {
            Half::Body
        } else if within(self.wick) {
            Half::Wick
        } else {
            Half::Nothing
        }
    }

    /// Returns the share of the row `row` that the body covers, from 0 to 1.
    fn coverage(&self, row: u16) -> f64 {
        let row = f64::from(row);
        (self.exact.1.min(row + 1.0) - self.exact.0.max(row)).max(0.0)
    }

    /// Returns the symbols of the row `row`: the symbol in the middle column, and the symbol next
    /// to it.
    ///
    /// Unicode has no symbol with half a body and half a wick, and a gap between body and wick
    /// looks broken. A cell that contains both is therefore shown entirely as body or as wick, or
    /// as a cross if the body is very thin.
    fn symbols(&self, row: u16) -> (char, char) {
        let (upper, lower) = (self.part(row * 2), self.part(row * 2 + 1));
        let is_thin = self.body.1 - self.body.0 == 1;
        match (upper, lower) {
            (Half::Body, Half::Body) => ('█', '█'),
            (Half::Nothing, Half::Body) => ('▄', '▄'),
            (Half::Body, Half::Nothing) => ('▀', '▀'),
            (Half::Wick, Half::Body) | (Half::Body, Half::Wick)
                if self.coverage(row) >= if is_thin { 0.35 } else { 0.5 } =>
            {
                ('█', '█')
            }
            (Half::Wick, Half::Body) if is_thin => {
                (if self.wick.1 > self.body.1 { '┿' } else { '┷' }, '━')
            }
            (Half::Body, Half::Wick) if is_thin => {
                (if self.wick.0 < self.body.0 { '┿' } else { '┯' }, '━')
            }
            (Half::Wick, Half::Body | Half::Wick) | (Half::Body, Half::Wick) => ('│', ' '),
            (Half::Nothing, Half::Wick) => ('╷', ' '),
            (Half::Wick, Half::Nothing) => ('╵', ' '),
            (Half::Nothing, Half::Nothing) => (' ', ' '),
        }
    }
}

fn draw_candle(
    buf: &mut Buffer,
    plot: Rect,
    x: u16,
    candle: &Bucket,
    chart: &Candles<'_>,
    scale: Scale,
) {
    let theme = chart.theme;
    let halves = Halves::measure(candle, scale, plot.height);
    let style = style_of(candle, theme);
    let is_shaded = candle.is_falling() && theme.fill_down == Fill::Shaded;
    let shaded = |symbol| match symbol {
        '█' | '▄' | '▀' if is_shaded => '▒',
        _ => symbol,
    };
    let n_columns = chart.density.columns().0;
    for row in halves.wick.0 / 2..halves.wick.1.div_ceil(2).min(plot.height) {
        let (middle, side) = halves.symbols(row);
        for column in 0..n_columns {
            let symbol = if column == n_columns / 2 { middle } else { side };
            if symbol != ' ' {
                paint::put(buf, plot, (x + column, row), shaded(symbol), style);
            }
        }
    }
}
