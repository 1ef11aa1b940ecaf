//! Progress of a long command: on a terminal one line that is redrawn, in a log or pipe a new line
//! every 10 s.

use std::time::Duration;

use model::count::{counted_short, format_count};
use tokio::time::Instant;
use transfer::event::{Reporter, Work};

use crate::cli::output::{can_redraw, redraw, tell};

/// Interval between redraws on a terminal.
const REDRAW_EVERY: Duration = Duration::from_millis(100);

/// Interval between lines if standard error is not a terminal: rare enough for a log.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Width of the bar.
const BAR_CELLS: usize = 20;

/// Progress of an operation.
#[derive(Debug)]
struct Progress {
    what: String,
    started_at: Instant,
    shown_at: Option<Instant>,
    is_terminal: bool,
    /// Number of rows that an earlier, interrupted run transferred. It is included in the number shown,
    /// but not in the rate.
    n_rows_before: u64,
}

/// Prints the progress of transfers on standard error.
#[derive(Debug)]
pub(super) struct ProgressReporter {
    is_terminal: bool,
}

impl ProgressReporter {
    /// Creates a reporter for transfers that run one after another.
    pub(super) fn single() -> Self {
        Self { is_terminal: can_redraw() }
    }

    /// Creates a reporter for concurrent transfers. It prints new lines even on a terminal, since
    /// several transfers cannot redraw one line.
    pub(super) const fn shared() -> Self {
        Self { is_terminal: false }
    }
}

impl Reporter for ProgressReporter {
    fn note(&self, text: &str) {
        if self.is_terminal {
            redraw("");
        }
        tell(text);
    }

    fn begin(&self, what: String, n_rows_before: u64) -> Box<dyn Work> {
        let (started_at, is_terminal) = (Instant::now(), self.is_terminal);
        Box::new(Progress { what, started_at, shown_at: None, is_terminal, n_rows_before })
    }
}

impl Work for Progress {
    /// Shows the progress, at most once per interval.
    fn update(&mut self, n_rows: u64, share: Option<f64>) {
        let now = Instant::now();
        let every = if self.is_terminal { REDRAW_EVERY } else { LINE_EVERY };
        if now.duration_since(self.shown_at.unwrap_or(self.started_at)) < every {
            return;
        }
        self.shown_at = Some(now);
        let line = self.line(n_rows, share);
        if self.is_terminal { redraw(&line) } else { tell(&line) }
    }

    /// Prints the total.
    fn finish(mut self: Box<Self>, n_rows: u64, did: &str) {
        self.clear();
        let elapsed = self.started_at.elapsed();
        let rate = format_rate(n_rows.saturating_sub(self.n_rows_before), elapsed);
        let (rows, seconds) = (counted_short(n_rows, "row"), elapsed.as_secs_f64());
        tell(&format!("{did}: {rows} in {seconds:.1} s, {rate} rows/s"));
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.clear();
    }
}

impl Progress {
    /// Clears the line on a terminal, so that a message can be printed.
    fn clear(&mut self) {
        if self.is_terminal && self.shown_at.take().is_some() {
            redraw("");
        }
    }

    fn line(&self, n_rows: u64, share: Option<f64>) -> String {
        let elapsed = self.started_at.elapsed();
        let rate = format_rate(n_rows.saturating_sub(self.n_rows_before), elapsed);
        let mut line = self.what.clone();
        if let Some(share) = share {
            line = format!("{line}  {}  {:>3.0} %", bar(share), 100.0 * share);
        }
        line = format!("{line}  {}  {rate} rows/s", counted_short(n_rows, "row"));
        match share.and_then(|share| time_left(share, elapsed)) {
            Some(left) => format!("{line}  {} left", format_clock(left)),
            None => line,
        }
    }
}

/// Returns the quotient of `n_done` and `n_all`, from 0 to 1.
#[expect(clippy::cast_precision_loss, reason = "a share for people")]
pub(crate) fn share(n_done: u64, n_all: u64) -> f64 {
    n_done as f64 / n_all.max(1) as f64
}

/// Draws `share`, from 0 to 1, as a bar.
pub(crate) fn bar(share: f64) -> String {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a share of a few cells"
    )]
    let n_full = (share.clamp(0.0, 1.0) * BAR_CELLS as f64).round() as usize;
    format!("{}{}", "█".repeat(n_full), "░".repeat(BAR_CELLS.saturating_sub(n_full)))
}

/// Estimates the remaining time at the average rate so far. Returns `None` near the start, where the
/// rate is too uncertain.
fn time_left(share: f64, elapsed: Duration) -> Option<Duration> {
    (share > 0.005).then(|| elapsed.mul_f64(((1.0 - share) / share).max(0.0)))
}

fn format_clock(duration: Duration) -> String {
    let seconds = duration.as_secs();
    match seconds / 3600 {
        0 => format!("{}:{:02}", seconds / 60, seconds % 60),
        hours => format!("{hours}:{:02}:{:02}", seconds / 60 % 60, seconds % 60),
    }
}

fn format_rate(n_rows: u64, elapsed: Duration) -> String {
    let rate = u128::from(n_rows) * 1_000_000 / elapsed.as_micros().max(1000);
    format_count(u64::try_from(rate).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn progress_line_contains_share_rate_and_remaining_time() {
        let (what, started_at) = ("importing a.csv".to_owned(), Instant::now());
        let progress =
            Progress { what, started_at, shown_at: None, is_terminal: false, n_rows_before: 500 };
        tokio::time::advance(Duration::from_secs(100)).await;
        let line = progress.line(100_500, Some(0.25));
        let bar = "█████░░░░░░░░░░░░░░░";
        assert_eq!(
            line,
            format!("importing a.csv  {bar}   25 %  100.5 k rows  1000 rows/s  5:00 left")
        );
        let line = progress.line(500, None);
        assert_eq!(line, "importing a.csv  500 rows  0 rows/s");
    }

    #[test]
    fn duration_is_formatted_as_hours_minutes_and_seconds() {
        assert_eq!(format_clock(Duration::from_secs(3725)), "1:02:05");
    }
}
