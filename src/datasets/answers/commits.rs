//! Which moments commits touched, for some datasets and their last commits.
//!
//! A dataset's commits are counted up one by one, and whoever makes them tells of those that append
//! rows. A number that is missing is a commit that may have touched anything: one that deleted rows,
//! or that of another process.

use std::collections::{HashMap, VecDeque};

use model::dataset::DatasetId;
use tsdb::span::Span;

/// Commits of a dataset that are told apart. Older ones are taken together, so that what is kept of
/// their newest rows is read again once in a while.
const COMMITS_MAX: usize = 64;

/// Datasets whose commits are noted. With one more all begin anew: pages of these are read again.
const DATASETS_MAX: usize = 4096;

/// The last commits of some datasets.
#[derive(Debug, Default)]
pub(super) struct Commits {
    datasets: HashMap<DatasetId, Noted>,
}

/// The commits of a dataset from `first` to `last`, of which each is known.
#[derive(Debug)]
struct Noted {
    first: u64,
    last: u64,
    /// Up to which commit, and what those after the one before touched.
    runs: VecDeque<(u64, Span)>,
}

impl Commits {
    /// Notes the commits of `dataset` from the one after `revision` on, unless they are noted. Those
    /// that are noted and of which nobody told yet are still to come.
    pub(super) fn begin(&mut self, dataset: DatasetId, revision: u64) {
        if self.datasets.contains_key(&dataset) {
            return;
        }
        if self.datasets.len() >= DATASETS_MAX {
            self.datasets.clear();
        }
        let first = revision.saturating_add(1);
        let noted = Noted { first, last: revision, runs: VecDeque::new() };
        self.datasets.insert(dataset, noted);
    }

    /// Notes what a commit touched, if those of its dataset are noted.
    pub(super) fn add(&mut self, dataset: DatasetId, revision: u64, span: Span) {
        let Some(noted) = self.datasets.get_mut(&dataset) else { return };
        // A page may be read, and kept, before those who wait for its last commit are told.
        if revision <= noted.last {
            return;
        }
        if revision > noted.last.saturating_add(1) {
            noted.runs.clear();
            noted.first = revision;
        }
        noted.last = revision;
        noted.runs.push_back((revision, span));
        if noted.runs.len() > COMMITS_MAX
            && let Some((_, oldest)) = noted.runs.pop_front()
            && let Some((_, next)) = noted.runs.front_mut()
        {
            let (first, last) = (oldest.first.min(next.first), oldest.last.max(next.last));
            *next = Span { first, last };
        }
    }

    /// Whether none of the commits after the first one, up to the second, touched a moment of
    /// `reach`.
    pub(super) fn hold(&self, dataset: DatasetId, (from, to): (u64, u64), reach: Span) -> bool {
        if from == to {
            return true;
        }
        let Some(noted) = self.datasets.get(&dataset) else { return false };
        let is_known = noted.first <= from.saturating_add(1) && to <= noted.last;
        let touches = |(until, span): &(u64, Span)| {
            *until > from && span.first <= reach.last && reach.first <= span.last
        };
        from < to && is_known && !noted.runs.iter().rev().any(touches)
    }
}

#[cfg(test)]
mod tests {
    use model::timestamp::Timestamp;

    use super::*;

    fn span(first: i64, last: i64) -> Span {
        Span { first: Timestamp::from_seconds(first), last: Timestamp::from_seconds(last) }
    }

    fn dataset() -> DatasetId {
        DatasetId::new(1).unwrap()
    }

    /// Whether a page that was read at commit `from`, and reaches from `reach.0` to `reach.1`, holds
    /// at commit `to`, where a page was kept at commit 10 and each of `told` touched a moment.
    #[track_caller]
    fn check(told: &[(u64, i64)], (from, to): (u64, u64), reach: (i64, i64), want: bool) {
        let mut commits = Commits::default();
        commits.begin(dataset(), 10);
        for (revision, moment) in told {
            commits.add(dataset(), *revision, span(*moment, *moment));
        }
        let got = commits.hold(dataset(), (from, to), span(reach.0, reach.1));
        assert_eq!(got, want, "{told:?}, {from} to {to}, {reach:?}");
    }

    #[test]
    fn a_page_holds_until_a_commit_touches_it() {
        let told = [(11, 500), (12, 100), (13, 501)];
        check(&told, (10, 11), (0, 99), true);
        check(&told, (10, 13), (0, 99), true);
        check(&told, (10, 13), (0, 100), false);
        check(&told, (12, 13), (0, 100), true);
        check(&told, (10, 13), (101, 499), true);
        check(&told, (10, 13), (101, 500), false);
    }

    #[test]
    fn a_commit_that_nobody_told_of_may_have_touched_everything() {
        // Commit 12 is missing, then the last one, then one before those noted.
        check(&[(11, 500), (13, 501)], (10, 13), (0, 1), false);
        check(&[(11, 500), (13, 501)], (12, 13), (0, 1), true);
        check(&[(11, 500)], (10, 12), (0, 1), false);
        check(&[(11, 500)], (9, 11), (0, 1), false);
        // A reader that began before the last commit is told nothing of it.
        check(&[(11, 500)], (11, 10), (0, 1), false);
        check(&[], (10, 10), (0, 1), true);
    }

    #[test]
    fn a_page_may_be_kept_before_its_last_commit_is_told_of() {
        let mut commits = Commits::default();
        commits.begin(dataset(), 10);
        commits.begin(dataset(), 11);
        assert!(!commits.hold(dataset(), (10, 11), span(0, 1)), "nobody told of it yet");
        commits.add(dataset(), 11, span(5, 5));
        assert!(commits.hold(dataset(), (10, 11), span(0, 1)));
        // What is told twice, or late, changes nothing.
        commits.add(dataset(), 10, span(0, 0));
        assert!(commits.hold(dataset(), (10, 11), span(0, 1)));
    }

    #[test]
    fn old_commits_are_taken_together_and_history_before_them_holds() {
        let n = u64::try_from(COMMITS_MAX * 3).unwrap();
        let told: Vec<_> = (0..n).map(|idx| (11 + idx, 1000 + idx.cast_signed())).collect();
        check(&told, (10, 10 + n), (0, 999), true);
        check(&told, (10, 10 + n), (0, 1000), false);
        check(&told, (10 + n - 1, 10 + n), (0, 1000 + n.cast_signed() - 2), true);
    }

    #[test]
    fn commits_of_a_bounded_number_of_datasets_are_noted() {
        let mut commits = Commits::default();
        for id in 1..=DATASETS_MAX * 2 + 1 {
            commits.begin(DatasetId::new(i64::try_from(id).unwrap()).unwrap(), 1);
        }
        assert!(commits.datasets.len() <= DATASETS_MAX);
        commits.add(dataset(), 2, span(5, 5));
        assert!(!commits.hold(dataset(), (1, 2), span(0, 1)), "it is not noted any more");
    }
}
