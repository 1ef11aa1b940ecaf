//! Reading pages on standbys, which may be behind: none answers a caller of this service without the
//! commits that one has seen.

use std::{num::NonZeroUsize, sync::Arc};

use db::postgres::connections::{Connections, Snapshot};
use futures::FutureExt as _;
use lru::LruCache;
use model::dataset::DatasetId;
use parking_lot::Mutex;

use super::{PostgresStore, Result, StoreError, first_page, read_page, servers::Server};
use crate::store::{OnRemoval, PageOfRows, PageRead};

/// Datasets whose commits are known. Others are read on the primary once there were more.
const DATASETS_MAX: NonZeroUsize = NonZeroUsize::new(65_536).unwrap();

/// The last commits that callers have seen.
#[derive(Debug)]
pub(super) struct SeenCommits(Mutex<Seen>);

#[derive(Debug)]
struct Seen {
    revisions: LruCache<DatasetId, u64>,
    has_forgotten: bool,
}

impl Default for SeenCommits {
    fn default() -> Self {
        let revisions = LruCache::new(DATASETS_MAX);
        Self(Mutex::new(Seen { revisions, has_forgotten: false }))
    }
}

impl SeenCommits {
    /// Notes that a caller has seen commit `revision` of a dataset.
    pub(super) fn note(&self, dataset: DatasetId, revision: u64) {
        let mut seen = self.0.lock();
        if let Some(newest) = seen.revisions.get_mut(&dataset) {
            *newest = revision.max(*newest);
            return;
        }
        let forgotten = seen.revisions.push(dataset, revision);
        seen.has_forgotten |= forgotten.is_some();
    }

    /// Whether a copy of the dataset at commit `revision` has all that callers have seen of it.
    pub(super) fn are_in(&self, dataset: DatasetId, revision: u64) -> bool {
        let mut seen = self.0.lock();
        match seen.revisions.get(&dataset) {
            Some(newest) => *newest <= revision,
            None => !seen.has_forgotten,
        }
    }
}

impl PostgresStore {
    /// Notes a commit that a caller has seen, if there are standbys that may not have it.
    pub(super) fn note_seen(&self, dataset: DatasetId, revision: u64) {
        if self.servers.first().connections.has_standbys() {
            self.seen.note(dataset, revision);
        }
    }

    /// Tests that what a standby answered in the place of `server` has all that callers have seen.
    pub(super) fn check_seen(
        &self,
        server: &Server,
        dataset: DatasetId,
        revision: u64,
    ) -> Result<()> {
        if server.connections.is_primary_lost() && !self.seen.are_in(dataset, revision) {
            return Err(behind());
        }
        Ok(())
    }

    /// Reads a page on a standby, if one has it with all that callers have seen.
    pub(super) fn page_of_standby(&self, dataset: DatasetId, read: PageRead) -> Option<PageOfRows> {
        let server = self.servers.route(dataset);
        let standby = server.connections.standby()?;
        match self.page_on(standby, dataset, read) {
            Ok(page) => self.seen.are_in(dataset, page.revision).then_some(page),
            // It may be new, or have been moved, and objects are the same for all.
            Err(
                StoreError::NoDataset { .. } | StoreError::Moved { .. } | StoreError::Cold { .. },
            ) => None,
            Err(_) => {
                server.connections.distrust(standby);
                None
            }
        }
    }

    /// Reads a page over `connections`.
    pub(super) fn page_on(
        &self,
        connections: &Connections,
        dataset: DatasetId,
        read: PageRead,
    ) -> Result<PageOfRows> {
        if first_page::suits(&read) {
            // The answer is short enough that this thread has it sooner than one of the runtime would.
            let packed = connections
                .read(Snapshot::Statement, |c| first_page::read(c, dataset, read).boxed());
            let packed = self.wait(packed)?;
            if let Some(page) = packed.page(dataset, &read)? {
                return Ok(page);
            }
        }
        self.read_rows(connections, dataset, |c, fetched| {
            read_page(c, dataset, read, fetched).boxed()
        })
    }

    /// Notes a commit that this service is about to acknowledge.
    pub(super) fn noting_commit(&self, dataset: DatasetId) -> impl Fn(u64) + Send + use<> {
        let seen = self.servers.first().connections.has_standbys().then(|| Arc::clone(&self.seen));
        move |revision| {
            if let Some(seen) = &seen {
                seen.note(dataset, revision);
            }
        }
    }

    /// The same of a removal, and calls `on_commit`.
    pub(super) fn noting_removal(&self, dataset: DatasetId, on_commit: OnRemoval) -> OnRemoval {
        let note = self.noting_commit(dataset);
        Box::new(move |removed| {
            note(removed.revision);
            on_commit(removed);
        })
    }

    /// Notes a change of the catalog, which no standby may stand in for the primary without.
    pub(super) fn noting_change<T>(&self) -> impl FnOnce(&T) + Send + use<T> {
        let connections = self.servers.first().connections.clone();
        move |_| connections.note_change()
    }
}

/// No server that can be reached has what the caller has seen.
pub(super) fn behind() -> StoreError {
    StoreError::Unreachable("standbys have not replayed what the caller has seen".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_forgotten_is_in_no_copy() {
        let seen = SeenCommits::default();
        let dataset = |number| DatasetId::new(number).unwrap();
        assert!(seen.are_in(dataset(1), 0));
        for revision in [3, 2] {
            seen.note(dataset(1), revision);
        }
        assert!(seen.are_in(dataset(1), 3) && !seen.are_in(dataset(1), 2));
        for number in 2..=65_537 {
            seen.note(dataset(number), 1);
        }
        assert!(!seen.are_in(dataset(1), u64::MAX));
        assert!(seen.are_in(dataset(9), 1));
    }
}
