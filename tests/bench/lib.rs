//! Harness of the benchmarks: a table of measurements and their bars, statistics, the usage of processes
//! and an HTTP client with little overhead.
//!
//! ```no_run
//! use test_bench::{Row, print_table};
//! let rows = [Row::new("page of 250 rows", "48 us".to_owned(), "60 us at most", true)];
//! print_table(&rows)?;
//! # Ok::<(), std::io::Error>(())
//! ```

#![expect(clippy::missing_errors_doc, reason = "a benchmark reports every error in the same way")]

pub mod http;
pub mod process;

use std::error::Error;
use std::fmt;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

/// Result of a measurement.
pub type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A measurement with its bar, the required value.
#[derive(Debug, Clone)]
pub struct Row {
    name: String,
    value: String,
    /// Description of the bar; empty if there is no bar.
    bar: String,
    is_met: bool,
}

impl Row {
    /// Returns a measurement with a bar.
    pub fn new(name: &str, value: String, bar: &str, is_met: bool) -> Self {
        Self { name: name.to_owned(), value, bar: bar.to_owned(), is_met }
    }

    /// Returns a measurement without a bar.
    pub fn without_bar(name: &str, value: String) -> Self {
        Self::new(name, value, "", true)
    }

    /// Returns a row for a measurement that failed.
    pub fn failed(name: &str, error: &dyn fmt::Display) -> Self {
        Self::new(name, format!("failed: {error}"), "a measurement", false)
    }
}

/// Prints the rows in aligned columns. Returns true if all bars are met.
pub fn print_table(rows: &[Row]) -> io::Result<bool> {
    let width = |column: fn(&Row) -> &String| {
        rows.iter().map(|row| column(row).chars().count()).max().unwrap_or_default()
    };
    let (names, values, bars) =
        (width(|row| &row.name), width(|row| &row.value), width(|row| &row.bar));
    let mut stdout = io::stdout().lock();
    for Row { name, value, bar, is_met } in rows {
        let verdict = match is_met {
            _ if bar.is_empty() => "",
            true => "met",
            false => "MISSED",
        };
        writeln!(stdout, "{name:names$}  {value:values$}  {bar:bars$}  {verdict}")?;
    }
    Ok(rows.iter().all(|row| row.is_met))
}

/// Returns the exit code of a benchmark: success if `is_met`.
pub fn exit_code(is_met: bool) -> ExitCode {
    if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Prints a line about the measurement in progress.
pub fn note(line: &str) -> Outcome<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// A table of measurements that are single numbers.
#[derive(Debug, Default)]
pub struct Table(Vec<Row>);

impl Table {
    /// Adds a measurement without a bar.
    pub fn add(&mut self, name: &str, value: f64, unit: &str) {
        self.0.push(Row::without_bar(name, format!("{value:.2} {unit}")));
    }

    /// Adds a measurement with a minimum as its bar.
    pub fn at_least(&mut self, name: &str, value: f64, bar: f64, unit: &str) {
        let bar_text = format!(">= {bar} {unit}");
        self.0.push(Row::new(name, format!("{value:.2} {unit}"), &bar_text, value >= bar));
    }

    /// Adds a measurement with a maximum as its bar.
    pub fn at_most(&mut self, name: &str, value: f64, bar: f64, unit: &str) {
        let bar_text = format!("<= {bar} {unit}");
        self.0.push(Row::new(name, format!("{value:.2} {unit}"), &bar_text, value <= bar));
    }

    /// Returns the rows.
    pub fn rows(&self) -> &[Row] {
        &self.0
    }
}

/// Returns the smallest of `durations` that `percent` percent of them do not exceed. Zero if there are
/// no durations.
pub fn quantile(durations: &[Duration], percent: usize) -> Duration {
    let mut sorted = durations.to_vec();
    sorted.sort_unstable();
    let last = sorted.len().saturating_sub(1);
    sorted.get((sorted.len() * percent / 100).min(last)).copied().unwrap_or_default()
}

/// Converts a count to a float.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub fn to_f64(n: usize) -> f64 {
    n as f64
}

/// Returns the number per second if `n` items take `time`.
pub fn per_second(n: usize, time: Duration) -> f64 {
    to_f64(n) / time.as_secs_f64().max(1e-9)
}

/// Converts a number of bytes to MiB.
pub fn mib(n_bytes: u64) -> f64 {
    to_f64(usize::try_from(n_bytes / 1024).unwrap_or_default()) / 1024.0
}
