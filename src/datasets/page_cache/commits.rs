//! Timestamps that recent commits of datasets have touched.
//!
//! The commits of a dataset are numbered without gaps, and each append is recorded here. A commit without
//! a record removed rows or was made by another process, so it might have touched any timestamp.

use std::collections::{HashMap, VecDeque};

use model::dataset::DatasetId;
use tsdb::span::Span;

/// Maximum number of commits of a dataset that are recorded one by one. Older commits share one record,
/// so some pages are read again although they are still valid.
const COMMITS_MAX: usize = 64;

/// Maximum number of datasets with recorded commits. Beyond it, all records are removed, so all pages
/// are read again.
const DATASETS_MAX: usize = 4096;

/// Recent commits of datasets and the timestamps that they changed.
#[derive(Debug, Default)]
pub(super) struct Commits {
    datasets: HashMap<DatasetId, CommitHistory>,
}

/// Recorded commits of a dataset from `first` to `last`, without gaps.
#[derive(Debug)]
struct CommitHistory {
    first: u64,
    last: u64,
    /// Records of one or more commits, each with the revision of its last commit and the span that its
    /// commits touched.
    runs: VecDeque<(u64, Span)>,
}

impl Commits {
    /// Begins to record the commits of `dataset` after `revision`, unless they are already being
    /// recorded.
    pub(super) fn begin(&mut self, dataset: DatasetId, revision: u64) {
        if self.datasets.contains_key(&dataset) {
            return;
        }
        if self.datasets.len() >= DATASETS_MAX {
            self.datasets.clear();
        }
        let first = revision.saturating_add(1);
        let history = CommitHistory { first, last: revision, runs: VecDeque::new() };
        self.datasets.insert(dataset, history);
    }

    /// Records the span that a commit touched, if the commits of its dataset are being recorded.
    pub(super) fn add(&mut self, dataset: DatasetId, revision: u64, span: Span) {
        let Some(history) = self.datasets.get_mut(&dataset) else { return };
        // Recording began after this commit: a page with its revision or a later one was cached first.
        if revision <= history.last {
            return;
        }
        if revision > history.last.saturating_add(1) {
            history.runs.clear();
            history.first = revision;
        }
        history.last = revision;
        history.runs.push_back((revision, span));
        if history.runs.len() > COMMITS_MAX
            && let Some((_, oldest)) = history.runs.pop_front()
            && let Some((_, next)) = history.runs.front_mut()
        {
            let (first, last) = (oldest.first.min(next.first), oldest.last.max(next.last));
            *next = Span { first, last };
        }
    }

    /// Returns true if no commit with a revision above `from` and up to `to` touched a timestamp in
    /// `span`.
    pub(super) fn is_untouched(&self, dataset: DatasetId, from: u64, to: u64, span: Span) -> bool {
        if from == to {
            return true;
        }
        let Some(history) = self.datasets.get(&dataset) else { return false };
        let is_known = history.first <= from.saturating_add(1) && to <= history.last;
        let touches = |(until, touched): &(u64, Span)| {
            *until > from && touched.first <= span.last && span.first <= touched.last
        };
        from < to && is_known && !history.runs.iter().rev().any(touches)
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

    /// Checks whether the commits between two revisions left the seconds from `seconds.0` to `seconds.1`
    /// untouched. Recording begins at revision 10. Each recorded commit is a revision and the second
    /// that it touched.
    #[track_caller]
    fn check(recorded: &[(u64, i64)], commits: (u64, u64), seconds: (i64, i64), want: bool) {
        let mut tracked = Commits::default();
        tracked.begin(dataset(), 10);
        for (revision, second) in recorded {
            tracked.add(dataset(), *revision, span(*second, *second));
        }
        let span = span(seconds.0, seconds.1);
        let got = tracked.is_untouched(dataset(), commits.0, commits.1, span);
        assert_eq!(got, want, "{recorded:?}, {commits:?}, {seconds:?}");
    }

    #[test]
    fn cached_page_is_valid_until_a_commit_changes_its_range() {
        let recorded = [(11, 500), (12, 100), (13, 501)];
        check(&recorded, (10, 11), (0, 99), true);
        check(&recorded, (10, 13), (0, 99), true);
        check(&recorded, (10, 13), (0, 100), false);
        check(&recorded, (12, 13), (0, 100), true);
        check(&recorded, (10, 13), (101, 499), true);
        check(&recorded, (10, 13), (101, 500), false);
    }

    #[test]
    fn unrecorded_commit_invalidates_every_page() {
        // The missing commit is 12, then the last commit, then a commit before the first recorded
        // commit.
        check(&[(11, 500), (13, 501)], (10, 13), (0, 1), false);
        check(&[(11, 500), (13, 501)], (12, 13), (0, 1), true);
        check(&[(11, 500)], (10, 12), (0, 1), false);
        check(&[(11, 500)], (9, 11), (0, 1), false);
        // A caller can have an older revision than the cached page.
        check(&[(11, 500)], (11, 10), (0, 1), false);
        check(&[], (10, 10), (0, 1), true);
    }

    #[test]
    fn cached_page_is_valid_once_its_last_commit_is_recorded() {
        let mut commits = Commits::default();
        commits.begin(dataset(), 10);
        commits.begin(dataset(), 11);
        assert!(!commits.is_untouched(dataset(), 10, 11, span(0, 1)), "not recorded yet");
        commits.add(dataset(), 11, span(5, 5));
        assert!(commits.is_untouched(dataset(), 10, 11, span(0, 1)));
        // A second record of a revision has no effect.
        commits.add(dataset(), 10, span(0, 0));
        assert!(commits.is_untouched(dataset(), 10, 11, span(0, 1)));
    }

    #[test]
    fn cached_pages_before_the_combined_time_range_of_old_commits_stay_valid() {
        let n = u64::try_from(COMMITS_MAX * 3).unwrap();
        let recorded: Vec<_> = (0..n).map(|idx| (11 + idx, 1000 + idx.cast_signed())).collect();
        check(&recorded, (10, 10 + n), (0, 999), true);
        check(&recorded, (10, 10 + n), (0, 1000), false);
        check(&recorded, (10 + n - 1, 10 + n), (0, 1000 + n.cast_signed() - 2), true);
    }

    #[test]
    fn number_of_recorded_datasets_is_bounded() {
        let mut commits = Commits::default();
        for id in 1..=DATASETS_MAX * 2 + 1 {
            commits.begin(DatasetId::new(i64::try_from(id).unwrap()).unwrap(), 1);
        }
        assert!(commits.datasets.len() <= DATASETS_MAX);
        commits.add(dataset(), 2, span(5, 5));
        assert!(!commits.is_untouched(dataset(), 1, 2, span(0, 1)), "it is not recorded any more");
    }
}
