//! Scales and ticks of axes for numbers and times.

use std::time::Duration;

use model::timestamp::Timestamp;

use super::format;
use crate::time_zone::{utc, zoned};

/// Range of numbers on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
}

/// Round numbers on an axis.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ticks {
    /// Numbers, lowest first.
    pub(crate) values: Vec<f64>,
    /// Number of decimals with which the numbers can be told apart.
    pub(crate) decimals: usize,
}

/// Maximum number of ticks of an axis.
const TICKS_MAX: u16 = 64;

impl Ticks {
    /// Formats the tick `value`. Very small numbers are written as powers of ten.
    pub(crate) fn text(&self, value: f64) -> String {
        let power = value.abs().log10().floor();
        if self.decimals <= format::DECIMALS_MAX || power >= 0.0 {
            return format::grouped(value, self.decimals);
        }
        // Zero has no power.
        let decimals = self.decimals.saturating_sub(super::paint::cells(-power, u16::MAX).into());
        if value == 0.0 { "0".to_owned() } else { format!("{value:.decimals$e}") }
    }
}

impl Scale {
    /// Returns a scale that contains all finite `values`, with a margin on both sides. `margin` is
    /// its share of the scale's length. Returns `None` if there is no finite value.
    pub(crate) fn over(values: impl IntoIterator<Item = f64>, margin: f64) -> Option<Self> {
        let finite = values.into_iter().filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        });
        if low > high {
            return None;
        }
        // Both numbers are halved, since the difference of two finite numbers can be infinite.
        let room = (high / 2.0 - low / 2.0) * 2.0 * margin;
        // If all values are equal, the scale is a small range around them.
        let room = if high / 2.0 - low / 2.0 <= high.abs() * 1e-12 {
            if high == 0.0 { 1.0 } else { high.abs() * 1e-3 }
        } else if room.is_finite() {
            room
        } else {
            0.0
        };
        Some(Self { low: (low - room).max(f64::MIN), high: (high + room).min(f64::MAX) })
    }

    /// Returns the scale from `low` to `high`. Returns `None` if they are not finite or not in
    /// this order.
    pub(crate) fn between(low: f64, high: f64) -> Option<Self> {
        (low.is_finite() && high.is_finite() && low < high).then_some(Self { low, high })
    }

    /// Returns the lowest value of the scale.
    pub(crate) const fn low(self) -> f64 {
        self.low
    }

    /// Returns the highest value of the scale.
    pub(crate) const fn high(self) -> f64 {
        self.high
    }

    /// Returns the position of `value` on the scale: 0 at the lowest value, 1 at the highest. A
    /// value outside of the scale has a position outside of this range.
    pub(crate) fn position(self, value: f64) -> f64 {
        let length = self.high / 2.0 - self.low / 2.0;
        ((value / 2.0 - self.low / 2.0) / length).clamp(-1e6, 1e6)
    }

    /// Returns round numbers on the scale: as many as possible, at most `n_max`.
    pub(crate) fn ticks(self, n_max: u16) -> Ticks {
        let n_max = n_max.min(TICKS_MAX);
        let length = self.high - self.low;
        let none = Ticks { values: Vec::new(), decimals: 0 };
        if n_max == 0 || !length.is_finite() || length <= 0.0 {
            return none;
        }
        let Some((step, decimals)) = steps(length / f64::from(n_max)).find(|(step, _)| {
            (self.high / step).floor() - (self.low / step).ceil() + 1.0 <= f64::from(n_max)
        }) else {
            return none;
        };
        let first = (self.low / step).ceil();
        let values = (0..n_max)
            .map(|n| (first + f64::from(n)) * step)
            .filter(|value| value.is_finite() && *value <= self.high)
            .collect();
        Ticks { values, decimals }
    }
}

/// Returns round numbers as steps, in ascending order from about `least` on, each with the number
/// of its decimals.
fn steps(least: f64) -> impl Iterator<Item = (f64, usize)> {
    let power = least.log10().floor();
    let power = if power.is_finite() { power } else { 0.0 };
    (0..3_u8).flat_map(move |n| {
        let power = power + f64::from(n);
        let places: usize = super::paint::cells(-power, u16::MAX).into();
        // The step 2.5 has one more decimal than the other steps.
        let places_more = super::paint::cells(1.0 - power, u16::MAX).into();
        [(1.0, places), (2.0, places), (2.5, places_more), (5.0, places)]
            .map(|(digit, places)| (digit * 10_f64.powf(power), places))
    })
}

/// Round durations as steps between ticks: units in seconds, and multiples of each unit.
const TIME_STEPS: [(u64, &[u64]); 4] = [
    (1, &[1, 2, 5, 10, 15, 30]),
    (60, &[1, 2, 5, 10, 15, 30]),
    (3_600, &[1, 2, 3, 6, 12]),
    (86_400, &[1, 2, 7, 14, 28, 91, 182, 364, 3_640]),
];

/// Returns the shortest round duration that is not shorter than `least`. If none is long enough,
/// returns the longest one.
pub(crate) fn time_step(least: Duration) -> Duration {
    let steps =
        TIME_STEPS.into_iter().flat_map(|(unit, counts)| counts.iter().map(move |n| n * unit));
    let mut steps = steps.map(Duration::from_secs);
    steps.find(|step| *step >= least).unwrap_or(Duration::from_hours(24 * 3_640))
}

/// Returns the number of the step that contains `time`. Steps are counted from 1970, and weeks
/// start on Mondays.
pub(crate) fn step_number(time: Timestamp, step: Duration) -> i64 {
    let (seconds, offset) = step_seconds(time, step);
    (time.seconds() - offset).div_euclid(seconds)
}

/// Returns the start of the step that contains `time`.
pub(crate) fn step_start(time: Timestamp, step: Duration) -> Timestamp {
    let (seconds, offset) = step_seconds(time, step);
    let start = step_number(time, step).saturating_mul(seconds);
    Timestamp::from_seconds(start.saturating_add(offset))
}

/// Returns the length of a step in seconds, and the offset of the first step from 1970. Steps of
/// hours are aligned with midnight in the screen's time zone. Steps of days are aligned with
/// midnight UTC, like daily buckets.
fn step_seconds(time: Timestamp, step: Duration) -> (i64, i64) {
    /// 1970 began on a Thursday, so the first Monday was four days later.
    const MONDAY_SECONDS: i64 = 4 * 86_400;
    let seconds = i64::try_from(step.as_secs()).unwrap_or(i64::MAX).max(1);
    let offset = match seconds {
        ..86_400 => -i64::from(zoned(time).offset().seconds()),
        86_400..604_800 => 0,
        _ => MONDAY_SECONDS,
    };
    (seconds, offset)
}

/// Returns the label of a tick at `time`: the time of day, the date if it differs from the date of the
/// previous tick, or the month.
///
/// The first label has a date and a time of day if it is not on the day of `now`. The date has a
/// year if it is not in the year of `now`.
pub(crate) fn time_label(
    time: Timestamp,
    before: Option<Timestamp>,
    step: Duration,
    now: Timestamp,
) -> String {
    let seconds = step.as_secs();
    if seconds >= 91 * 86_400 {
        return utc(time).strftime("%Y-%m").to_string();
    }
    let strftime = |time, pattern: &str| match seconds {
        ..86_400 => format::strftime(time, pattern),
        _ => utc(time).strftime(pattern).to_string(),
    };
    let is_first = before.is_none();
    let is_other_day = !format::is_same_day(time, before.unwrap_or(now));
    let year = |time| strftime(time, "%Y");
    let is_other_year = year(now) != year(time);
    let date =
        if is_first && is_other_year { strftime(time, "%F") } else { strftime(time, "%b %d") };
    let clock = if seconds >= 60 { format::hour_minute(time) } else { format::clock(time) };
    match (seconds >= 86_400 || is_other_day, is_first && seconds < 86_400) {
        (true, true) => format!("{date} {clock}"),
        (true, false) => date,
        (false, _) => clock,
    }
}

#[cfg(test)]
mod tests;
