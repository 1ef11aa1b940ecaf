//! Recent activity of a node: the number of its results in each period, derived from the growth of
//! its count between two lists.

use std::collections::VecDeque;
use std::time::Duration;

use model::timestamp::Timestamp;

/// Length of a period. It exceeds the longest wait between two lists, so that every period has a list.
pub(crate) const PERIOD: Duration = Duration::from_secs(20);

/// Number of periods in a minute.
const PERIODS_A_MINUTE: i64 = 3;

/// Maximum number of periods, more than there are columns for bars.
const PERIODS_MAX: usize = 120;

/// The recent activity of a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Activity {
    /// Number of results of the node in the last list.
    n_runs: Option<u64>,
    /// Number of each period and of its results, oldest first.
    periods: VecDeque<(i64, u64)>,
}

impl Activity {
    /// Records that the node has `n_runs` results by `now`.
    pub(crate) fn take(&mut self, n_runs: u64, now: Timestamp) {
        let n_new = match self.n_runs.replace(n_runs) {
            // The times of results before the first list are unknown.
            None => 0,
            // A restarted head counts from zero.
            Some(before) => n_runs.checked_sub(before).unwrap_or(n_runs),
        };
        let period = period_of(now);
        match self.periods.back_mut() {
            Some((last, n)) if *last >= period => *n += n_new,
            _ => self.periods.push_back((period, n_new)),
        }
        if self.periods.len() > PERIODS_MAX {
            self.periods.pop_front();
        }
    }

    /// Returns the number of results in each of the last `n` periods, oldest first and the current one
    /// last. A period without a list is `None`.
    pub(crate) fn last(&self, n: usize, now: Timestamp) -> Vec<Option<f64>> {
        let newest = period_of(now);
        let oldest = newest.saturating_sub(i64::try_from(n).unwrap_or(i64::MAX)) + 1;
        let count = |period: i64| {
            let idx = self.periods.binary_search_by_key(&period, |(number, _)| *number).ok()?;
            #[expect(clippy::cast_precision_loss, reason = "a bar needs no more")]
            self.periods.get(idx).map(|(_, n)| *n as f64)
        };
        (oldest..=newest).map(count).collect()
    }

    /// Returns the number of results in the last minute of complete periods, or `None` if it was not
    /// observed for that long.
    pub(crate) fn a_minute(&self, now: Timestamp) -> Option<u64> {
        let newest = period_of(now);
        let before = newest - PERIODS_A_MINUTE - 1;
        let is_watched = self.periods.front().is_some_and(|(first, _)| *first <= before);
        let is_within = |period: i64| period > before && period < newest;
        let within = self.periods.iter().filter(|(period, _)| is_within(*period));
        is_watched.then(|| within.map(|(_, n)| n).sum())
    }
}

fn period_of(now: Timestamp) -> i64 {
    let micros = i64::try_from(PERIOD.as_micros()).unwrap_or(i64::MAX);
    now.micros().div_euclid(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn growth_is_counted_in_its_period_across_restarts() {
        let mut activity = Activity::default();
        for (second, n_runs) in [(0, 40), (5, 43), (21, 44), (70, 2)] {
            activity.take(n_runs, Timestamp::from_seconds(second));
        }
        let now = Timestamp::from_seconds(75);
        let want = [None, Some(3.0), Some(1.0), None, Some(2.0)];
        assert_eq!(activity.last(5, now), want);
        assert_eq!(activity.a_minute(now), None, "the first period was not seen in whole");
        assert_eq!(activity.a_minute(Timestamp::from_seconds(80)), Some(3));
    }

    #[test]
    fn oldest_periods_are_evicted() {
        let mut activity = Activity::default();
        for period in 0..500 {
            activity.take(0, Timestamp::from_seconds(period * 20));
        }
        assert_eq!(activity.periods.len(), PERIODS_MAX);
    }
}
