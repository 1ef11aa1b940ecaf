//! Schedule of replayed rows with their timestamps.

use std::str::FromStr;
use std::time::Duration;

use model::timestamp::Timestamp;
use tokio::time::Instant;

/// Speed of a replay.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Speed {
    /// Multiple of real time.
    Times(f64),
    /// As fast as possible.
    Max,
}

/// Timestamps of replayed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RowTimes {
    /// Time at which the row is due.
    Now,
    /// Original timestamp.
    Keep,
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "max" {
            return Ok(Self::Max);
        }
        let number: Option<f64> = text.strip_suffix('x').unwrap_or(text).parse().ok();
        let number = number.filter(|number| number.is_finite() && *number > 0.0);
        number.map(Self::Times).ok_or_else(|| "expected 1x, 0.5x, 60x or max".to_owned())
    }
}

impl FromStr for RowTimes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "now" => Ok(Self::Now),
            "keep" => Ok(Self::Keep),
            _ => Err("expected now or keep".to_owned()),
        }
    }
}

/// Schedule of rows. Each is relative to the first row, so that delays do not add up.
#[derive(Debug)]
pub(super) struct Pace {
    speed: Speed,
    times: RowTimes,
    /// Start of the replay, in whole seconds.
    date: Timestamp,
    began: Instant,
    first: Option<Timestamp>,
    /// Original and new timestamp of the row before.
    last: Option<(Timestamp, Timestamp)>,
}

impl Pace {
    /// Starts the schedule at the current instant, which is at `date`.
    pub(super) fn new(speed: Speed, times: RowTimes, date: Timestamp) -> Self {
        let date = Timestamp::from_seconds(date.seconds());
        Self { speed, times, date, began: Instant::now(), first: None, last: None }
    }

    /// Returns the instant at which a row is due and its new timestamp. `None` means immediately.
    pub(super) fn next(&mut self, timestamp: Timestamp) -> (Option<Instant>, Timestamp) {
        if self.first.is_none() {
            // Reading the first row does not delay the others.
            self.began = Instant::now();
        }
        let first = *self.first.get_or_insert(timestamp);
        let since = timestamp.since(first);
        let (at, passed) = match self.speed {
            Speed::Max => (None, since),
            Speed::Times(times) => {
                // Longer than any process runs.
                let longest = Duration::from_hours(24 * 36_500);
                let passed = Duration::try_from_secs_f64(since.as_secs_f64() / times);
                let passed = passed.unwrap_or(longest).min(longest);
                (Some(self.began + passed), passed)
            }
        };
        let mut carried = match self.times {
            RowTimes::Keep => timestamp,
            // Timestamps remain unique.
            RowTimes::Now => self.date + passed,
        };
        if self.times == RowTimes::Now
            && let Some((before, carried_before)) = self.last
            && timestamp > before
        {
            carried = carried.max(carried_before + Duration::from_micros(1));
        }
        self.last = Some((timestamp, carried));
        (at, carried)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATE: &str = "2026-11-21T10:00:00Z";

    /// Checks the seconds after the start at which rows are due and their new timestamps.
    #[track_caller]
    fn check(speed: &str, times: RowTimes, rows: &[&str], want: &[(Option<f64>, &str)]) {
        let mut pace = Pace::new(speed.parse().unwrap(), times, DATE.parse().unwrap());
        let began = pace.began;
        let got: Vec<_> = rows
            .iter()
            .map(|row| {
                let (at, timestamp) = pace.next(row.parse().unwrap());
                (at.map(|at| at.duration_since(began).as_secs_f64()), timestamp.to_string())
            })
            .collect();
        let want: Vec<_> =
            want.iter().map(|(at, timestamp)| (*at, (*timestamp).to_owned())).collect();
        assert_eq!(got, want);
    }

    #[tokio::test(start_paused = true)]
    async fn rows_are_due_by_the_clock_and_get_its_time() {
        let rows = ["2020-01-01T00:00:00Z", "2020-01-01T00:01:00Z", "2020-01-01T01:00:00Z"];
        check(
            "60x",
            RowTimes::Now,
            &rows,
            &[
                (Some(0.0), "2026-11-21T10:00:00Z"),
                (Some(1.0), "2026-11-21T10:00:01Z"),
                (Some(60.0), "2026-11-21T10:01:00Z"),
            ],
        );
        check("0.5", RowTimes::Keep, &rows[..2], &[(Some(0.0), rows[0]), (Some(120.0), rows[1])]);
        check(
            "max",
            RowTimes::Now,
            &rows,
            &[
                (None, "2026-11-21T10:00:00Z"),
                (None, "2026-11-21T10:01:00Z"),
                (None, "2026-11-21T11:00:00Z"),
            ],
        );
    }

    #[tokio::test(start_paused = true)]
    async fn timestamps_remain_unique_at_any_speed() {
        let rows =
            ["2020-01-01T00:00:00Z", "2020-01-01T00:00:00.000001Z", "2020-01-01T00:00:00.000002Z"];
        check(
            "1000000x",
            RowTimes::Now,
            &rows,
            &[
                (Some(0.0), "2026-11-21T10:00:00Z"),
                (Some(0.0), "2026-11-21T10:00:00.000001Z"),
                (Some(0.0), "2026-11-21T10:00:00.000002Z"),
            ],
        );
    }

    #[test]
    fn invalid_speed_is_rejected() {
        for text in ["0x", "-1x", "fast", "infx", ""] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }
}
