//! Values of a column within a span of time, with bounded memory.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::time::Duration;

use crate::rules::{Condition, Direction};

/// Maximum number of latest values of a column that are stored one by one, so that they can be
/// corrected and deleted.
const LATEST_MAX: usize = 1_000;

/// Number of parts into which the span of a [`Condition::Change`] is divided. Of the values before
/// the latest [`LATEST_MAX`], only the lowest and highest of each part are stored, so that the
/// memory does not depend on the number of rows.
const SPAN_PARTS: i64 = 500;

/// Values of a column within a span of time that ends at the latest value.
#[derive(Debug)]
pub(super) struct Values {
    within_micros: i64,
    /// Latest values by their timestamps in microseconds, at most [`LATEST_MAX`].
    latest: BTreeMap<i64, f64>,
    /// Lowest and highest of the earlier values, by the index of the part.
    parts: BTreeMap<i64, (f64, f64)>,
}

impl Values {
    pub(super) fn new(within: Duration) -> Self {
        let within_micros = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
        Self { within_micros, latest: BTreeMap::new(), parts: BTreeMap::new() }
    }

    /// Returns the length of a part in microseconds.
    fn part_micros(&self) -> i64 {
        (self.within_micros / SPAN_PARTS).max(1)
    }

    /// Adds or replaces the value at a timestamp. Removes it if `value` is `None`.
    pub(super) fn set(&mut self, micros: i64, value: Option<f64>) {
        match value {
            Some(value) => self.latest.insert(micros, value),
            None => self.latest.remove(&micros),
        };
        if self.latest.len() > LATEST_MAX
            && let Some((micros, value)) = self.latest.pop_first()
        {
            let part = self.parts.entry(micros.div_euclid(self.part_micros()));
            let (min, max) = part.or_insert((value, value));
            (*min, *max) = (min.min(value), max.max(value));
        }
        let Some((newest, _)) = self.latest.last_key_value() else { return };
        let start = newest.saturating_sub(self.within_micros);
        while let Some(first) = self.latest.first_entry().filter(|first| *first.key() < start) {
            first.remove();
        }
        let first_part = start.div_euclid(self.part_micros());
        while let Some(first) = self.parts.first_entry().filter(|first| *first.key() < first_part) {
            first.remove();
        }
    }

    /// Removes the values with timestamps in the range `micros`. A part is removed only if all of it is
    /// in the range.
    pub(super) fn delete(&mut self, micros: &RangeInclusive<i64>) {
        self.latest.retain(|at, _| !micros.contains(at));
        let part_micros = self.part_micros();
        self.parts.retain(|part, _| {
            let start = part.saturating_mul(part_micros);
            !(micros.contains(&start) && micros.contains(&start.saturating_add(part_micros - 1)))
        });
    }

    fn newest(&self) -> Option<f64> {
        self.latest.last_key_value().map(|(_, value)| *value)
    }

    /// Returns true if a condition on a level or a change holds.
    pub(super) fn satisfy(&self, condition: &Condition) -> bool {
        let Some(newest) = self.newest() else { return false };
        match condition {
            Condition::Level { above, below, .. } => exceeded(newest, *above, *below).is_some(),
            Condition::Change { direction, percent, .. } => {
                let (_, change) = self.change(newest, *direction);
                match direction {
                    Direction::Rises => change >= *percent,
                    Direction::Falls => change <= -percent,
                }
            }
            _ => false,
        }
    }

    /// Judges a condition on a level or a change.
    pub(super) fn judge(&self, condition: &Condition) -> (bool, String) {
        let (Condition::Level { dataset, column, .. } | Condition::Change { dataset, column, .. }) =
            condition
        else {
            return (false, String::new());
        };
        let what = format!("{column} of {dataset}");
        let Some(newest) = self.newest() else {
            return (false, format!("{what} has no value"));
        };
        let text = match condition {
            Condition::Change { direction, .. } => match self.change(newest, *direction) {
                (extreme, f64::INFINITY) => format!("{what} is {newest}, up from {extreme}"),
                (extreme, f64::NEG_INFINITY) => {
                    format!("{what} is {newest}, down from {extreme}")
                }
                (extreme, change) => {
                    format!("{what} is {newest}, {change:+.2} % from {extreme}")
                }
            },
            Condition::Level { above, below, .. } => match exceeded(newest, *above, *below) {
                Some((side, limit)) => format!("{what} is {newest}, {side} {limit}"),
                None => format!("{what} is {newest}"),
            },
            _ => String::new(),
        };
        (self.satisfy(condition), text)
    }

    /// Returns the extreme value, and the change from it to `newest` in percent. A change from zero is
    /// infinite.
    fn change(&self, newest: f64, direction: Direction) -> (f64, f64) {
        let parts = self.parts.values().flat_map(|(min, max)| [min, max]);
        let values = self.latest.values().chain(parts).copied();
        let extreme = match direction {
            Direction::Rises => values.fold(newest, f64::min),
            Direction::Falls => values.fold(newest, f64::max),
        };
        let change = newest - extreme;
        // 0 divided by 0 is not a number.
        (extreme, if change == 0.0 { 0.0 } else { change / extreme.abs() * 100.0 })
    }
}

/// Returns the limit that `value` exceeds, and the side on which it is.
fn exceeded(value: f64, above: Option<f64>, below: Option<f64>) -> Option<(&'static str, f64)> {
    let above = above.filter(|limit| value > *limit).map(|limit| ("above", limit));
    above.or_else(|| below.filter(|limit| value < *limit).map(|limit| ("below", limit)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn span_of_many_values_uses_bounded_memory() {
        let mut values = Values::new(Duration::from_mins(1));
        for millis in 0..200_000 {
            values.set(millis * 1_000, Some(1.0));
        }
        assert!(values.parts.len() <= 502, "{}", values.parts.len());
        assert!(values.latest.len() <= LATEST_MAX, "{}", values.latest.len());
    }
}
