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
use super::line::{self, Series};
use super::paint;
use super::plot::{self, Layout, Plot};
use crate::theme::Theme;

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
    /// Lines behind the candles. The last line is in front of the other lines. The scale extends to
    /// them, but only up to [`GUIDE_REACH`] to guides.
    pub(crate) lines: &'a [Series<'a>],
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

/// Maximum distance from the candles, as a share of their height, at which guides extend the scale.
const GUIDE_REACH: f64 = 0.15;

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
    Candle(&'a Bucket),
    /// A gap of this duration, which is a dotted column.
    Gap(Duration),
}

impl Widget for Candles<'_> {
    fn render(self, area: Rect, buf: &mut Buffer) {
        let theme = self.theme;
        let area = area.intersection(buf.area);
        let layout = self.layout(area);
        let slots = self.slots(layout.plot.width);
        let center = self.density.columns().0 / 2;
        let seen = || {
            slots.iter().filter_map(|(x, place)| match place {
                Slot::Candle(candle) => Some((*x, *candle)),
                Slot::Gap(_) => None,
            })
        };
        let finite = || seen().filter(|(_, candle)| is_finite(candle));
        let times: Vec<_> = seen().map(|(x, candle)| (x + center, candle.timestamp)).collect();
        plot::time_axis(buf, layout.axis, &times, self.now, theme);
        let bounds = || finite().flat_map(|(_, c)| [c.low, c.high, c.open, c.close]);
        let over = || Scale::over(bounds().chain(self.line_values(bounds(), &times)), MARGIN);
        let Some(scale) = self.scale.or_else(over) else { return };
        let plot = Plot { layout, scale, theme };
        plot.grid(buf);
        for (x, place) in &slots {
            if let Slot::Gap(length) = place {
                plot.gap(buf, x + center, *length);
                paint::put(buf, layout.axis, (x + center, 0), plot::GAP, theme.muted);
            }
        }
        if let Some((x, _)) = times.iter().find(|(_, time)| Some(*time) == self.crosshair) {
            plot.crosshair(buf, *x);
        }
        for line in self.lines {
            let dots = line.points.iter().map(|it| {
                let x = self.column(it.time, &times).filter(|_| it.value.is_finite())?;
                Some(Point { x: f64::from(x) * 2.0 + 0.5, y: plot.row_of(it.value) * 4.0 - 0.5 })
            });
            plot.path(buf, dots, line.style, false);
        }
        for (x, candle) in finite() {
            self.draw_candle(buf, plot, x, candle);
        }
        for line in self.lines {
            for mark in line.marks {
                if let Some(x) = self.column(mark.time, &times) {
                    plot.mark(buf, x, mark.value, line.style);
                }
            }
        }
        let bars = seen().flat_map(|(x, candle)| {
            let columns = x..x + self.density.columns().0;
            columns.map(move |x| (x, candle.volume, style_of(candle, theme)))
        });
        plot.volumes(buf, bars);
        // If the latest candle is the open bucket, a part of the axis below it is highlighted.
        if let Some((x, _)) = times.last().filter(|(_, time)| Some(*time) == self.open_bucket) {
            for column in x - center..=x + center {
                paint::put(buf, layout.axis, (column, 0), '━', theme.info);
            }
        }
        let mut shown = self.bars.iter().rev().skip(self.n_newer);
        if let Some(last) = shown.find(|candle| is_finite(candle)) {
            plot.tag(buf, last.close, self.decimals, style_of(last, theme));
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
            Slot::Candle(candle) => Some((x + center, candle.timestamp)),
            Slot::Gap(_) => None,
        };
        (chart, self.slots(chart.width).into_iter().filter_map(time).collect())
    }

    /// Returns the values of all lines from the first of `times` on. Values of guides are only
    /// returned if they are near `values`, those of the candles.
    fn line_values(
        &self,
        values: impl Iterator<Item = f64>,
        times: &[(u16, Timestamp)],
    ) -> Vec<f64> {
        let (low, high) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        let room = (high - low) * GUIDE_REACH;
        let near = low - room..=high + room;
        let first = times.first().map(|(_, time)| *time);
        let lines = self.lines.iter().flat_map(|line| {
            let is_measured = |it: &&line::Point| !line.is_guide || near.contains(&it.value);
            line.points.iter().filter(is_measured)
        });
        lines.filter(|it| Some(it.time) >= first).map(|it| it.value).collect()
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
        for candle in self.bars.iter().take(n_kept).rev() {
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
            slots.push((left, Slot::Candle(candle)));
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

    fn draw_candle(&self, buf: &mut Buffer, plot: Plot<'_>, x: u16, candle: &Bucket) {
        let halves = Halves::measure(candle, plot);
        let style = style_of(candle, self.theme);
        // Without colors, only the fill distinguishes falling candles.
        let is_shaded = candle.is_falling() && style.fg.is_none();
        let shaded = |symbol| match symbol {
            '█' | '▄' | '▀' if is_shaded => '▒',
            _ => symbol,
        };
        let n_columns = self.density.columns().0;
        let place = plot.layout.plot;
        for row in halves.wick.0 / 2..halves.wick.1.div_ceil(2).min(place.height) {
            let (middle, side) = halves.symbols(row);
            for column in 0..n_columns {
                let symbol = if column == n_columns / 2 { middle } else { side };
                if symbol != ' ' {
                    paint::put(buf, place, (x + column, row), shaded(symbol), style);
                }
            }
        }
    }
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
    fn measure(candle: &Bucket, plot: Plot<'_>) -> Self {
        let row = |value| plot.row_of(value);
        let top = row(candle.open.max(candle.close));
        let bottom = row(candle.open.min(candle.close));
        let last = plot.layout.plot.height.saturating_mul(2);
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
