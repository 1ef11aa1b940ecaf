//! Folding many spans of stored rows again, on as many threads as there are processors.
//!
//! Most of that is reading chunks. The writer reads in its transaction; the others read the last
//! commit, which is the same to them as long as the transaction has not changed the dataset.

use std::{path::Path, thread};

use model::{dataset::DatasetId, row::Bucket, timestamp::Timestamp};
use rusqlite::Connection;

use super::{StoreError, append, buckets::fold_rows, readers};
use crate::{block::Block, query::Span, rollup::Fold};

/// Spans that are worth a thread. One takes about 25 us, a thread with its connection some 300.
const SPANS_PER_THREAD: usize = 64;

/// Threads at most, the writer's among them.
const THREADS_MAX: usize = 4;

/// What is folded: the stored rows of a dataset and those of `rows`, which win.
#[derive(Debug, Clone, Copy)]
pub(super) struct Refold<'a> {
    pub(super) dataset: DatasetId,
    pub(super) fold: Fold,
    /// A block without rows, and the columns that the fold wants.
    pub(super) columns: &'a (Block, Vec<usize>),
    pub(super) rows: &'a Block,
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// The five-minute buckets of each span.
    pub(super) folded: Vec<Vec<Bucket>>,
    /// The moments of the new rows that chunks have, in order.
    pub(super) held: Vec<Timestamp>,
}

/// What tells whether the rows of a dataset, or the chunks they are in, have changed.
type Version = (u64, i64);

impl Refold<'_> {
    /// Folds `spans`, which are in order and apart.
    pub(super) fn spans(
        self,
        connection: &Connection,
        spans: &[Span],
    ) -> Result<Found, StoreError> {
        let n_cores = thread::available_parallelism().map_or(1, usize::from);
        let n_threads = n_cores.min(THREADS_MAX).min(spans.len() / SPANS_PER_THREAD).max(1);
        let mut parts = spans.chunks(spans.len().div_ceil(n_threads).max(1));
        let own = parts.next().unwrap_or_default();
        let Some(path) = connection.path().filter(|path| n_threads > 1 && !path.is_empty()) else {
            return self.part(connection, spans);
        };
        let path = Path::new(path).to_owned();
        let version = version(connection, self.dataset)?;
        thread::scope(|scope| {
            let helped: Vec<_> = parts
                .map(|part| {
                    let read = || self.elsewhere(&path, version, part);
                    let thread = thread::Builder::new().name("datasets-refold".to_owned());
                    (part, thread.spawn_scoped(scope, read).ok())
                })
                .collect();
            let mut found = self.part(connection, own)?;
            for (part, thread) in helped {
                let read = thread.and_then(|thread| thread.join().ok()?.ok()?);
                let mut next = match read {
                    Some(read) => read,
                    // Whatever kept the other from it, the transaction tells.
                    None => self.part(connection, part)?,
                };
                found.folded.append(&mut next.folded);
                found.held.append(&mut next.held);
            }
            Ok(found)
        })
    }

    /// Folds a part from the last commit; none if the dataset was not the same then.
    fn elsewhere(
        self,
        path: &Path,
        expected: Version,
        spans: &[Span],
    ) -> Result<Option<Found>, StoreError> {
        let mut connection = readers::connect(path)?;
        let read = connection.transaction()?;
        if version(&read, self.dataset)? != expected {
            return Ok(None);
        }
        self.part(&read, spans).map(Some)
    }

    fn part(self, connection: &Connection, spans: &[Span]) -> Result<Found, StoreError> {
        let mut found = Found::default();
        for span in spans {
            let over = (self.columns, Some((self.rows, &mut found.held)));
            found.folded.push(fold_rows(connection, self.dataset, self.fold, *span, over)?);
        }
        Ok(found)
    }
}

fn version(connection: &Connection, dataset: DatasetId) -> Result<Version, StoreError> {
    Ok((append::revision(connection, dataset)?, append::layout(connection, dataset)?))
}

#[cfg(test)]
mod tests;
