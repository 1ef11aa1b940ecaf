//! What an import did with the rows of a file: how many were read, stored, replaced, skipped and cut,
//! with the first examples of each.

use std::collections::{HashMap, HashSet};

use model::{count::counted, dataset::DatasetId, timestamp::Timestamp};
use serde_json::{Value, json};

/// Examples of each kind: enough to find the pattern, few enough to read.
const EXAMPLES_MAX: usize = 3;

/// The most timestamps remembered to find repeated ones: 128 MiB of them.
const TIMESTAMPS_MAX: usize = 16 * 1024 * 1024;

/// Counts the rows of a file by what the import did with them.
#[derive(Debug, Default)]
pub struct ImportReport {
    /// Rows that an earlier import, which was stopped, has stored.
    pub(super) n_before: u64,
    /// Rows that were read, those that were skipped included.
    n_read: u64,
    replaced: Examples,
    pub(super) skipped: Examples,
    cut: Examples,
    /// Whether there were more timestamps than are remembered.
    is_least: bool,
}

/// Rows of one kind.
#[derive(Debug, Default)]
pub(super) struct Examples {
    pub(super) n_rows: u64,
    /// The line of the first ones and what there is to say of it.
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

    /// The count with the examples, for people.
    fn line(&self, what: &str) -> Option<String> {
        let first: Vec<_> =
            self.first.iter().map(|(line, text)| format!("line {line} ({text})")).collect();
        let more = if self.n_rows > self.first.len() as u64 { ", …" } else { "" };
        (self.n_rows > 0).then(|| format!("  {what}: {}{more}", first.join(", ")))
    }
}

impl ImportReport {
    pub(super) fn starting_at(n_before: u64) -> Self {
        Self { n_before, ..Self::default() }
    }

    /// Counts a row of `origin` that the service stored at the timestamp `at` of `dataset`.
    pub(super) fn record_accepted(
        &mut self,
        origin: Origin,
        at: Timestamp,
        dataset: DatasetId,
        repeats: &mut Repeats,
    ) {
        self.n_read += 1;
        if repeats.is_repeated(dataset, at) {
            self.replaced.add(origin.line, &at);
        }
        self.is_least |= repeats.has_forgotten;
        if origin.is_cut {
            self.cut.add(origin.line, &at);
        }
    }

    /// Counts a row that does not fit.
    pub(super) fn record_skipped(&mut self, line: u64, reason: &str) {
        self.n_read += 1;
        self.skipped.add(line, &reason);
    }

    /// Rows that the service stored, by the import that was stopped and by this one.
    pub(super) const fn n_taken(&self) -> u64 {
        self.n_before + self.n_read - self.skipped.n_rows
    }

    /// Rows that are in the dataset.
    pub(super) const fn n_stored(&self) -> u64 {
        self.n_taken() - self.replaced.n_rows
    }

    /// The counts and examples for people; `shown` is the file.
    #[must_use]
    pub fn text(&self, shown: &str) -> String {
        let least = if self.is_least { "at least " } else { "" };
        let mut lines = vec![format!(
            "{shown}: {} read, {} stored, {least}{} replaced by a later one of the same \
             timestamp, {} skipped",
            counted(self.n_read, "row"),
            self.n_stored() - self.n_before,
            self.replaced.n_rows,
            self.skipped.n_rows
        )];
        lines.extend(self.replaced.line("replacing an earlier one"));
        lines.extend(self.skipped.line("skipped"));
        let n_cut = self.cut.n_rows;
        let cut = format!("{n_cut} with a timestamp cut to microseconds");
        lines.extend(self.cut.line(&cut));
        lines.join("\n")
    }

    /// The counts and examples as a JSON object.
    #[must_use]
    pub fn json(&self, file: &str, dataset: DatasetId) -> Value {
        json!({
            "file": file,
            "dataset": dataset.get(),
            "resumed_after": self.n_before,
            "read": self.n_read,
            "stored": self.n_stored() - self.n_before,
            "replaced": self.replaced.n_rows,
            "replaced_is_exact": !self.is_least,
            "skipped": self.skipped.n_rows,
            "cut_to_microseconds": self.cut.n_rows,
            "examples": {
                "replaced": self.replaced.json("timestamp"),
                "skipped": self.skipped.json("reason"),
                "cut_to_microseconds": self.cut.json("timestamp"),
            },
        })
    }
}

/// Where a row comes from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    /// The line it begins on.
    pub(super) line: u64,
    /// Whether its timestamp was cut to microseconds.
    pub(super) is_cut: bool,
}

/// Finds timestamps that an import sends twice.
#[derive(Debug, Default)]
pub(super) struct Repeats {
    by_dataset: HashMap<DatasetId, SeenTimestamps>,
    n_remembered: usize,
    /// Whether earlier timestamps were dropped: repeats of those are not found.
    has_forgotten: bool,
}

/// Timestamps of a dataset: rows nearly always ascend, so that most are found by bisection.
#[derive(Debug, Default)]
struct SeenTimestamps {
    ascending: Vec<Timestamp>,
    late: HashSet<Timestamp>,
}

impl Repeats {
    /// Whether a row at `at` was sent before; remembers it.
    fn is_repeated(&mut self, dataset: DatasetId, at: Timestamp) -> bool {
        if self.n_remembered >= TIMESTAMPS_MAX {
            self.by_dataset.clear();
            self.n_remembered = 0;
            self.has_forgotten = true;
        }
        let seen = self.by_dataset.entry(dataset).or_default();
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
    fn a_timestamp_is_repeated_in_its_dataset_wherever_it_was() {
        let [one, other] = [1, 2].map(|number| DatasetId::new(number).unwrap());
        let mut repeats = Repeats::default();
        let sent =
            [5, 7, 7, 6, 5, 6, 9].map(|at| repeats.is_repeated(one, Timestamp::from_seconds(at)));
        assert_eq!(sent, [false, false, true, false, true, true, false]);
        assert!(!repeats.is_repeated(other, Timestamp::from_seconds(5)));
    }
}
