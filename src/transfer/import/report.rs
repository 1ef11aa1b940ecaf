//! Report about the import of a file: the numbers of rows that were read, stored, replaced and skipped,
//! and of truncated timestamps, with examples.

use std::collections::{HashMap, HashSet};
use std::mem;

use model::count::counted;
use model::dataset::DatasetId;
use model::escape::escape_line;
use model::timestamp::Timestamp;
use serde_json::{Value, json};

use super::stored::FoundRows;

/// Maximum number of examples of each kind, enough to recognize a pattern.
const EXAMPLES_MAX: usize = 3;

/// Maximum number of timestamps that are stored to detect repetitions. The timestamps occupy 128 MiB.
const TIMESTAMPS_MAX: usize = 16 * 1024 * 1024;

/// Counts and examples of the rows of a file.
#[derive(Debug, Default)]
pub struct ImportReport {
    /// True if the file was only read, without storing rows.
    is_dry_run: bool,
    /// Display names of the fields that contain the timestamp.
    time_column: String,
    /// First timestamp of the file: its original text and the interpretation.
    pub(super) example: Option<(String, Timestamp)>,
    /// Earliest and latest timestamp of the rows.
    span: Option<(Timestamp, Timestamp)>,
    /// True if the rows were out of order and were sorted.
    pub(super) is_sorted: bool,
    /// Number of rows that an earlier import stored before it was stopped.
    pub(super) n_before: u64,
    /// Number of rows read, including skipped rows.
    n_read: u64,
    replaced: Examples,
    /// Rows that replaced rows from before the import.
    replaced_earlier: Examples,
    pub(super) skipped: Examples,
    cut: Examples,
}

/// Number of rows of one kind, such as skipped rows, and the first of these rows as examples.
#[derive(Debug, Default)]
pub(super) struct Examples {
    pub(super) n_rows: u64,
    /// True if `n_rows` is a lower bound of the actual number.
    is_least: bool,
    /// Line number and description of each example.
    first: Vec<(u64, String)>,
}

impl Examples {
    fn add(&mut self, line: u64, what: &dyn ToString) {
        self.n_rows += 1;
        if self.first.len() < EXAMPLES_MAX {
            self.first.push((line, what.to_string()));
        }
    }

    fn json(&self, what: &str) -> Value {
        self.first.iter().map(|(line, text)| json!({"line": line, what: text})).collect()
    }

    /// Returns a line of the report with the number of rows and the examples. `what` describes their
    /// kind.
    fn line(&self, what: &str) -> Option<String> {
        let first: Vec<_> =
            self.first.iter().map(|(line, text)| format!("line {line} ({text})")).collect();
        let more = if self.n_rows > self.first.len() as u64 { ", …" } else { "" };
        (self.n_rows > 0).then(|| format!("  {what}: {}{more}", first.join(", ")))
    }
}

impl ImportReport {
    pub(super) fn new(time_column: String, n_before: u64, is_dry_run: bool) -> Self {
        Self { is_dry_run, time_column, n_before, ..Self::default() }
    }

    /// Counts an accepted row from `origin` with the timestamp `at`. `stored` are the rows that the
    /// dataset had before.
    pub(super) fn record_accepted(
        &mut self,
        origin: Origin,
        at: Timestamp,
        stored: &FoundRows,
        repeats: &mut Repeats,
    ) {
        self.n_read += 1;
        if repeats.is_repeated(at) {
            self.replaced.add(origin.line, &at);
        } else if stored.times.contains(&at) {
            self.replaced_earlier.add(origin.line, &at);
        }
        self.replaced.is_least |= repeats.has_forgotten;
        self.replaced_earlier.is_least |= stored.is_least;
        let (first, last) = self.span.unwrap_or((at, at));
        self.span = Some((first.min(at), last.max(at)));
        if origin.is_cut {
            self.cut.add(origin.line, &at);
        }
    }

    /// Counts an invalid row that was skipped.
    pub(super) fn record_skipped(&mut self, line: u64, reason: &str) {
        self.n_read += 1;
        self.skipped.add(line, &reason);
    }

    /// Returns the number of accepted rows, including the rows of an earlier import that was stopped.
    pub(super) const fn n_taken(&self) -> u64 {
        self.n_before + self.n_read - self.skipped.n_rows
    }

    /// Returns the number of rows of the import that remain in the dataset. Rows that a later row of the
    /// import replaced do not count.
    pub(super) const fn n_stored(&self) -> u64 {
        self.n_taken() - self.replaced.n_rows
    }

    /// Returns the counts and examples as text. `shown` is the display name of the file.
    #[must_use]
    pub fn text(&self, shown: &str) -> String {
        let at_least = |is_least| if is_least { "at least " } else { "" };
        let stored = if self.is_dry_run { "to store" } else { "stored" };
        let mut lines = vec![format!(
            "{shown}: {} read, {} {stored}, {}{} replaced by a later row with the same timestamp, {} \
             skipped",
            counted(self.n_read, "row"),
            self.n_stored() - self.n_before,
            at_least(self.replaced.is_least),
            self.replaced.n_rows,
            self.skipped.n_rows
        )];
        if let Some((first, last)) = self.span {
            lines.push(format!("  time column {}: {first} to {last}", self.time_column));
        }
        if let Some((text, at)) = &self.example {
            lines.push(format!("  {} is read as {at}", escape_line(text)));
        }
        if self.is_sorted {
            lines.push("  rows out of order were sorted first".to_owned());
        }
        lines.extend(self.replaced.line("replacing an earlier one"));
        let n_earlier = self.replaced_earlier.n_rows;
        let least = at_least(self.replaced_earlier.is_least);
        let earlier = format!("replacing {least}{n_earlier} of the dataset");
        lines.extend(self.replaced_earlier.line(&earlier));
        lines.extend(self.skipped.line("skipped"));
        let n_cut = self.cut.n_rows;
        let cut = format!("{n_cut} with a timestamp truncated to microseconds");
        lines.extend(self.cut.line(&cut));
        lines.join("\n")
    }

    /// Returns the counts and examples as a JSON object.
    #[must_use]
    pub fn json(&self, file: &str, dataset: Option<DatasetId>, dataset_name: &str) -> Value {
        let (first, last) = self.span.unzip();
        json!({
            "file": file,
            "dataset": dataset.map(DatasetId::get),
            "dataset_name": dataset_name,
            "dry_run": self.is_dry_run,
            "time_column": self.time_column,
            "first": first.map(|at| at.to_string()),
            "last": last.map(|at| at.to_string()),
            "sorted": self.is_sorted,
            "resumed_after": self.n_before,
            "read": self.n_read,
            "stored": self.n_stored() - self.n_before,
            "replaced": self.replaced.n_rows,
            "replaced_is_exact": !self.replaced.is_least,
            "replaced_earlier": self.replaced_earlier.n_rows,
            "replaced_earlier_is_exact": !self.replaced_earlier.is_least,
            "skipped": self.skipped.n_rows,
            "cut_to_microseconds": self.cut.n_rows,
            "examples": {
                "time": self.example.as_ref().map(|(text, at)| {
                    json!({"text": text, "timestamp": at.to_string()})
                }),
                "replaced": self.replaced.json("timestamp"),
                "replaced_earlier": self.replaced_earlier.json("timestamp"),
                "skipped": self.skipped.json("reason"),
                "cut_to_microseconds": self.cut.json("timestamp"),
            },
        })
    }
}

/// Line of a row in its file, and facts about its timestamp for the report.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// Line on which the row begins.
    pub(super) line: u64,
    /// True if the timestamp of the row was truncated to microseconds.
    pub(super) is_cut: bool,
}

/// Detects timestamps that an import sends to the same dataset twice.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    /// Dataset to which the timestamps in `seen` belong.
    dataset: String,
    seen: SeenTimestamps,
    others: HashMap<String, SeenTimestamps>,
    n_remembered: usize,
    /// True if the set of timestamps became too large and was cleared, so some repetitions are missed.
    has_forgotten: bool,
}

/// Timestamps that were sent to a dataset. Most of them are ascending, so they are appended to a sorted
/// list.
#[derive(Debug, Default)]
struct SeenTimestamps {
    ascending: Vec<Timestamp>,
    late: HashSet<Timestamp>,
}

impl Repeats {
    /// Selects `dataset` as the dataset of the timestamps that are recorded next.
    pub(super) fn of_dataset(&mut self, dataset: &str) -> &mut Self {
        if self.dataset != dataset {
            let seen = self.others.remove(dataset).unwrap_or_default();
            let before = mem::replace(&mut self.dataset, dataset.to_owned());
            self.others.insert(before, mem::replace(&mut self.seen, seen));
        }
        self
    }

    /// Returns true if a row with the timestamp `at` was already sent. Otherwise records the timestamp.
    fn is_repeated(&mut self, at: Timestamp) -> bool {
        if self.n_remembered >= TIMESTAMPS_MAX {
            self.others.clear();
            self.seen = SeenTimestamps::default();
            self.n_remembered = 0;
            self.has_forgotten = true;
        }
        let seen = &mut self.seen;
        if seen.ascending.last().is_none_or(|last| at > *last) {
            seen.ascending.push(at);
        } else if seen.ascending.binary_search(&at).is_ok() || !seen.late.insert(at) {
            return true;
        }
        self.n_remembered += 1;
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_timestamps_are_detected_within_each_dataset() {
        let mut repeats = Repeats::default();
        let one = repeats.of_dataset("one");
        let sent = [5, 7, 7, 6, 5, 6, 9].map(|at| one.is_repeated(Timestamp::from_seconds(at)));
        assert_eq!(sent, [false, false, true, false, true, true, false]);
        let at = Timestamp::from_seconds(5);
        assert!(!repeats.of_dataset("other").is_repeated(at));
        assert!(repeats.of_dataset("one").is_repeated(at));
    }
}
