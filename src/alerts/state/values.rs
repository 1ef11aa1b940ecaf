//! Values of a column within a span of time, with bounded memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::mem::replace;
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
    /// All values of `latest` and `parts`, so that no search is needed for the extremes.
    sorted: SortedValues,
}

impl Values {
    pub(super) fn new(within: Duration) -> Self {
        let within_micros = i64::try_from(within.as_micros()).unwrap_or(i64::MAX);
        Self {
            within_micros,
            latest: BTreeMap::new(),
            parts: BTreeMap::new(),
            sorted: SortedValues::default(),
        }
    }

    /// Returns the length of a part in microseconds.
    fn part_micros(&self) -> i64 {
        (self.within_micros / SPAN_PARTS).max(1)
    }

    /// Adds or replaces the value at a timestamp. Removes it if `value` is `None`.
    pub(super) fn set(&mut self, micros: i64, value: Option<f64>) {
        let replaced = match value {
            Some(value) => {
                self.sorted.add(value);
                self.latest.insert(micros, value)
            }
            None => self.latest.remove(&micros),
        };
        if let Some(replaced) = replaced {
            self.sorted.remove(replaced);
        }
        if self.latest.len() > LATEST_MAX
            && let Some((micros, value)) = self.latest.pop_first()
        {
            self.move_to_part(micros, value);
        }
        let Some((newest, _)) = self.latest.last_key_value() else { return };
        let start = newest.saturating_sub(self.within_micros);
        while let Some(first) = self.latest.first_entry().filter(|first| *first.key() < start) {
            self.sorted.remove(first.remove());
        }
        let first_part = start.div_euclid(self.part_micros());
        while let Some(first) = self.parts.first_entry().filter(|first| *first.key() < first_part) {
            let (min, max) = first.remove();
            self.sorted.remove(min);
            self.sorted.remove(max);
        }
    }

    /// Adds a value that was removed from the latest values to its part.
    fn move_to_part(&mut self, micros: i64, value: f64) {
        match self.parts.entry(micros.div_euclid(self.part_micros())) {
            Entry::Vacant(part) => {
                part.insert((value, value));
                self.sorted.add(value);
            }
            Entry::Occupied(mut part) => {
                let (min, max) = part.get_mut();
                let dropped = if value < *min {
                    replace(min, value)
                } else if value > *max {
                    replace(max, value)
                } else {
                    value
                };
                self.sorted.remove(dropped);
            }
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
        self.sorted = SortedValues::default();
        let parts = self.parts.values().flat_map(|(min, max)| [min, max]);
        for value in self.latest.values().chain(parts) {
            self.sorted.add(*value);
        }
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
        let extreme = match direction {
            Direction::Rises => self.sorted.0.first(),
            Direction::Falls => self.sorted.0.last(),
        };
        let extreme = extreme.copied().unwrap_or(newest);
        let change = newest - extreme;
        // 0 divided by 0 is not a number.
        (extreme, if change == 0.0 { 0.0 } else { change / extreme.abs() * 100.0 })
    }
}

/// Values in ascending order. A value that was added several times is contained as many times.
#[derive(Debug, Default)]
struct SortedValues(Vec<f64>);

impl SortedValues {
    fn find(&self, value: f64) -> Result<usize, usize> {
        self.0.binary_search_by(|other| other.total_cmp(&value))
    }

    fn add(&mut self, value: f64) {
        let (Ok(index) | Err(index)) = self.find(value);
        self.0.insert(index, value);
    }

    fn remove(&mut self, value: f64) {
        if let Ok(index) = self.find(value) {
            self.0.remove(index);
        }
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

    #[test]
    fn extremes_are_those_of_all_stored_values() {
        let mut values = Values::new(Duration::from_secs(2));
        let mut random = 1_u64;
        for step in 0..5_000_i64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let late = (random >> 40).cast_signed() % 900;
            let value = f64::from(u8::try_from((random >> 32) % 256).unwrap());
            match random >> 60 {
                0 => values.set((step - late) * 1_000, None),
                1..4 => values.set((step - late) * 1_000, Some(value)),
                _ => values.set(step * 1_000, Some(value)),
            }
            if step % 1_000 == 999 {
                values.delete(&((step - late) * 1_000..=(step - late / 2) * 1_000));
            }
            let parts = values.parts.values().flat_map(|(min, max)| [*min, *max]);
            let mut all: Vec<f64> = values.latest.values().copied().chain(parts).collect();
            if step % 50 == 0 {
                all.sort_by(f64::total_cmp);
                assert_eq!(values.sorted.0, all, "{step}");
            }
        }
        assert!(values.parts.len() > 100, "{}", values.parts.len());
    }
}
