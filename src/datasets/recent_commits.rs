//! Caches the latest commits of datasets with a log reader. Each is rendered once.
//!
//! The contents of a commit are rendered while it is being committed, before a later one can replace its
//! rows. The log of a commit is therefore always the same bytes. Commits of other datasets are not
//! rendered.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use lru::LruCache;
use model::dataset::DatasetId;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Maximum number of cached commits of a dataset. At some commits a second, they cover minutes of a
/// reader's absence.
const COMMITS_MAX: usize = 1024;

/// Maximum size of the cached commits of a dataset, except its latest commit.
const BYTES_MAX: usize = 16 * 1024 * 1024;

/// Maximum length of a cached commit. Readers download the rows of a longer bulk insert instead.
pub(crate) const COMMIT_BYTES_MAX: usize = BYTES_MAX;

/// Maximum number of datasets with cached commits. The one requested least recently is evicted.
const DATASETS_MAX: NonZeroUsize = NonZeroUsize::new(256).unwrap();

/// Maximum size of all cached commits. Beyond it, the dataset requested least recently is evicted.
const ALL_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Time since the last request for which the commits of a dataset are rendered.
const ASKED_WITHIN: Duration = Duration::from_mins(10);

/// Handle to the cache. Cheap to clone: all clones share it.
#[derive(Debug, Clone)]
pub(crate) struct RecentCommits {
    datasets: Arc<Mutex<Datasets>>,
}

#[derive(Debug)]
struct Datasets {
    logs: LruCache<DatasetId, Log>,
    n_bytes: usize,
}

/// Consecutive commits of a dataset.
#[derive(Debug)]
struct Log {
    /// Number of the first commit, or of the one expected first.
    first: u64,
    /// Rendered commits. `None` if a commit exceeds [`COMMIT_BYTES_MAX`].
    commits: VecDeque<Option<Bytes>>,
    n_bytes: usize,
    asked_at: Instant,
}

/// Result of looking up a range of commits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Lookup {
    Found(Vec<Bytes>),
    /// Some of the commits are not recorded yet: a commit is durable before it is recorded.
    Pending,
    /// Some of the commits are not cached.
    Gone,
}

impl Default for RecentCommits {
    fn default() -> Self {
        let datasets = Datasets { logs: LruCache::new(DATASETS_MAX), n_bytes: 0 };
        Self { datasets: Arc::new(Mutex::new(datasets)) }
    }
}

impl RecentCommits {
    /// Starts caching the commits of a dataset after `revision`, its last commit.
    pub(crate) fn begin(&self, dataset: DatasetId, revision: u64) {
        let mut datasets = self.datasets.lock();
        let now = Instant::now();
        if let Some(log) = datasets.logs.get_mut(&dataset) {
            log.asked_at = now;
            return;
        }
        let first = revision.saturating_add(1);
        let log = Log { first, commits: VecDeque::new(), n_bytes: 0, asked_at: now };
        if let Some((_, gone)) = datasets.logs.push(dataset, log) {
            datasets.n_bytes -= gone.n_bytes;
        }
    }

    /// Caches commit `revision`, as rendered by `render`, if the commits of its dataset are cached.
    ///
    /// A commit that is already cached stays unchanged. A gap evicts the commits before it.
    pub(crate) fn record(
        &self,
        dataset: DatasetId,
        revision: u64,
        render: impl FnOnce() -> Vec<u8>,
    ) {
        if !self.datasets.lock().wants(dataset, revision) {
            return;
        }
        let body = Some(Bytes::from(render())).filter(|body| body.len() <= COMMIT_BYTES_MAX);
        let mut datasets = self.datasets.lock();
        if !datasets.wants(dataset, revision) {
            return;
        }
        let Some(log) = datasets.logs.peek_mut(&dataset) else { return };
        let n_before = log.n_bytes;
        log.push(revision, body);
        let n_after = log.n_bytes;
        datasets.n_bytes = datasets.n_bytes - n_before + n_after;
        while datasets.n_bytes > ALL_BYTES_MAX
            && let Some((_, gone)) = datasets.logs.pop_lru()
        {
            datasets.n_bytes -= gone.n_bytes;
        }
    }

    /// Looks up the commits after `after` up to `until`.
    pub(crate) fn look_up(&self, dataset: DatasetId, after: u64, until: u64) -> Lookup {
        let mut datasets = self.datasets.lock();
        let Some(log) = datasets.logs.get_mut(&dataset) else { return Lookup::Gone };
        log.asked_at = Instant::now();
        let first = log.first;
        let idx = |revision: u64| usize::try_from(revision.checked_sub(first)?).ok();
        match (idx(after.saturating_add(1)), idx(until.saturating_add(1))) {
            (None, _) => Lookup::Gone,
            (Some(start), Some(end)) if end <= log.commits.len() => {
                let found: Option<Vec<Bytes>> = log.commits.range(start..end).cloned().collect();
                found.map_or(Lookup::Gone, Lookup::Found)
            }
            _ => Lookup::Pending,
        }
    }
}

impl Datasets {
    /// Returns true if a commit is to be cached. Drops a log that has not been requested recently.
    fn wants(&mut self, dataset: DatasetId, revision: u64) -> bool {
        let Some(log) = self.logs.peek(&dataset) else { return false };
        if log.asked_at.elapsed() > ASKED_WITHIN {
            let n_bytes = self.logs.pop(&dataset).map_or(0, |gone| gone.n_bytes);
            self.n_bytes -= n_bytes;
            return false;
        }
        log.next() <= revision
    }
}

impl Log {
    /// Returns the number of the commit after the last one.
    fn next(&self) -> u64 {
        let n_commits = u64::try_from(self.commits.len()).unwrap_or(u64::MAX);
        self.first.saturating_add(n_commits)
    }

    fn push(&mut self, revision: u64, body: Option<Bytes>) {
        if self.next() != revision {
            self.commits.clear();
            self.n_bytes = 0;
            self.first = revision;
        }
        self.n_bytes += body.as_ref().map_or(0, Bytes::len);
        self.commits.push_back(body);
        while self.commits.len() > COMMITS_MAX
            || (self.n_bytes > BYTES_MAX && self.commits.len() > 1)
        {
            let gone = self.commits.pop_front().flatten();
            self.n_bytes -= gone.map_or(0, |gone| gone.len());
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dataset(number: i64) -> DatasetId {
        DatasetId::new(number).unwrap()
    }

    fn record(commits: &RecentCommits, revision: u64, text: &str) {
        commits.record(dataset(1), revision, || text.as_bytes().to_vec());
    }

    #[track_caller]
    fn check(commits: &RecentCommits, after: u64, until: u64, want: &[&str]) {
        let got = commits.look_up(dataset(1), after, until);
        let want = match want {
            [] => Lookup::Gone,
            ["…"] => Lookup::Pending,
            all => Lookup::Found(all.iter().map(|text| Bytes::from((*text).to_owned())).collect()),
        };
        assert_eq!(got, want, "after {after} until {until}");
    }

    #[tokio::test]
    async fn commits_are_read_without_gaps_and_never_change() {
        let commits = RecentCommits::default();
        commits.record(dataset(1), 3, || panic!("nobody reads them"));
        check(&commits, 3, 4, &[]);
        commits.begin(dataset(1), 3);
        record(&commits, 3, "too late");
        check(&commits, 2, 3, &[]);
        check(&commits, 3, 4, &["…"]);
        for (revision, text) in [(4, "a"), (5, "b"), (5, "other"), (6, "c")] {
            record(&commits, revision, text);
        }
        check(&commits, 3, 6, &["a", "b", "c"]);
        check(&commits, 4, 5, &["b"]);
        check(&commits, 2, 4, &[]);
        check(&commits, 5, 7, &["…"]);
        record(&commits, 8, "d");
        check(&commits, 5, 6, &[]);
        check(&commits, 7, 8, &["d"]);
    }

    #[tokio::test]
    async fn commits_are_bounded_in_number_and_bytes() {
        let commits = RecentCommits::default();
        commits.begin(dataset(1), 0);
        for revision in 1..=1030 {
            record(&commits, revision, "x");
        }
        check(&commits, 5, 6, &[]);
        check(&commits, 6, 7, &["x"]);
        commits.record(dataset(1), 1031, || vec![0; COMMIT_BYTES_MAX + 1]);
        check(&commits, 1030, 1031, &[]);
        record(&commits, 1032, "y");
        check(&commits, 1031, 1032, &["y"]);
        for number in 1..=20 {
            commits.begin(dataset(number), 0);
            commits.record(dataset(number), 2000, || vec![0; COMMIT_BYTES_MAX]);
        }
        assert!(commits.datasets.lock().n_bytes <= ALL_BYTES_MAX);
        check(&commits, 1999, 2000, &[]);
        assert!(matches!(commits.look_up(dataset(20), 1999, 2000), Lookup::Found(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn unread_log_is_not_rendered() {
        let commits = RecentCommits::default();
        commits.begin(dataset(1), 0);
        record(&commits, 1, "a");
        tokio::time::advance(ASKED_WITHIN + Duration::from_secs(1)).await;
        commits.record(dataset(1), 2, || panic!("nobody reads them"));
        assert_eq!(commits.datasets.lock().n_bytes, 0);
    }
}
