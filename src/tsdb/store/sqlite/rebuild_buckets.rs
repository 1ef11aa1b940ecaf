//! Computes the buckets of many spans on several threads.
//!
//! The lines "1000 late rows" of the benchmark `figures` show the gain. Most of the work is reading
//! chunks. The writer thread reads within its transaction. Helper threads read the last commit. Both see
//! the same rows, as long as the transaction has not changed the dataset.

use std::path::Path;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{iter, thread};

use model::block::Block;
use model::dataset::DatasetId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::progress::Progress;
use super::scan::{self, Projection};
use super::series::KEPT;
use super::{Result, StoreError, readers};
use crate::rollup::{Fold, Folding};
use crate::span::Span;

/// Number of spans that a thread computes at a time. A span takes about 20 µs.
const SPANS_PER_PART: usize = 16;

/// Number of parts for each additional thread. Starting a thread and its connection takes some 300 µs.
const PARTS_PER_THREAD: usize = 3;

/// Maximum number of threads, including the writer thread.
const THREADS_MAX: usize = 4;

/// Number of processors, cached since the system takes at least 50 µs to report it. This is too long for
/// each append of a late row.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX));

/// Rows from which buckets are computed: the stored rows of a dataset, new rows that replace them, and
/// archived rows that the stored rows replace.
#[derive(Debug, Clone, Copy)]
pub(super) struct BucketRebuild<'a> {
    pub(super) dataset: DatasetId,
    pub(super) fold: Fold,
    /// A block without rows, and the positions of the columns that the fold reads.
    pub(super) columns: &'a (Block, Vec<usize>),
    pub(super) over: Option<&'a Block>,
    /// Archived rows in the buckets of five minutes that contain new rows.
    pub(super) beneath: Option<&'a Block>,
}

/// Buckets computed from rows, to be stored.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// Computed buckets of five minutes, for each span.
    pub(super) folded: Vec<Vec<Bucket>>,
    /// Sorted timestamps of the new rows for which chunks already have rows.
    pub(super) held: Vec<Timestamp>,
}

/// Revision and `layout` of a dataset. Any change of its rows or chunks changes one of them.
type Version = (u64, i64);

impl BucketRebuild<'_> {
    /// Computes the buckets of `spans`, which are sorted and disjoint.
    pub(super) fn spans(self, connection: &Connection, spans: &[Span]) -> Result<Found> {
        let parts: Vec<&[Span]> = spans.chunks(SPANS_PER_PART).collect();
        let found = shared(connection, self.dataset, parts.len(), |connection, part_idx| {
            self.part(connection, parts.get(part_idx).copied().unwrap_or_default())
        })?;
        let mut all = Found::default();
        for mut part in found {
            all.folded.append(&mut part.folded);
            all.held.append(&mut part.held);
        }
        Ok(all)
    }

    fn part(self, connection: &Connection, spans: &[Span]) -> Result<Found> {
        let mut found = Found::default();
        for span in spans {
            found.folded.push(self.fold(connection, *span, &mut found.held)?);
        }
        Ok(found)
    }

    /// Computes the buckets of five minutes of a span. Adds the timestamps of new rows for which chunks
    /// already have rows to `held`.
    pub(super) fn fold(
        self,
        connection: &Connection,
        span: Span,
        held: &mut Vec<Timestamp>,
    ) -> Result<Vec<Bucket>> {
        let Self { columns: (empty, wanted), beneath, over, .. } = self;
        let [resolution, ..] = KEPT;
        let mut folding = Folding::new(self.fold, resolution, None);
        let sought = over.map(|over| (over.times.as_slice(), held));
        let mut left = over
            .map_or(0..0, |over| over.first_not_before(span.first)..over.first_after(span.last));
        let projection = Projection { empty: empty.clone(), columns: Some(wanted), sought };
        if let Some(beneath) = beneath {
            let mut stored = empty.clone();
            let collect = &mut |block: Block| stored.extend_from(&block, 0..block.len());
            scan::blocks(connection, self.dataset, span, projection, collect)?;
            let from = beneath.first_not_before(span.first);
            let under = beneath.part(from..beneath.first_after(span.last).max(from)).merge(&stored);
            folding.add(&under, over.map(|over| (over, left)));
            return Ok(folding.finish());
        }
        scan::blocks(connection, self.dataset, span, projection, &mut |block| {
            let last = block.times.last();
            let end = over.zip(last).map_or(left.start, |(over, last)| over.first_after(*last));
            let end = end.clamp(left.start, left.end);
            folding
                .add(&block, over.filter(|_| left.start < end).map(|over| (over, left.start..end)));
            left.start = end;
        })?;
        if let Some(over) = over {
            folding.add(&over.empty_like(), Some((over, left)));
        }
        Ok(folding.finish())
    }
}

/// Reads `n_parts` parts of a dataset on several threads. Each thread repeatedly takes the next part
/// that no thread has taken. Returns the parts in order.
pub(super) fn shared<T: Send>(
    connection: &Connection,
    dataset: DatasetId,
    n_parts: usize,
    read: impl Fn(&Connection, usize) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let n_threads = (n_parts / PARTS_PER_THREAD).min(*CORES).max(1);
    let next = AtomicUsize::new(0);
    let mut taken: Vec<Option<T>> = iter::repeat_with(|| None).take(n_parts).collect();
    let path = connection.path().filter(|path| n_threads > 1 && !path.is_empty());
    if let Some(path) = path.map(Path::new) {
        let version = version(connection, dataset)?;
        let help = || {
            read_last_commit(path, dataset, version, |connection| {
                rest(connection, &next, n_parts, &read)
            })
        };
        thread::scope(|scope| {
            let helpers: Vec<_> = (1..n_threads)
                .filter_map(|_| {
                    let thread = thread::Builder::new().name("datasets-refold".to_owned());
                    thread.spawn_scoped(scope, help).ok()
                })
                .collect();
            let (own, failed) = rest(connection, &next, n_parts, &read);
            // If a helper thread failed for any reason, its parts are read below, within the
            // transaction.
            let helped = helpers.into_iter().filter_map(|helper| helper.join().ok()?.ok()?);
            for (part_idx, part) in own.into_iter().chain(helped.flat_map(|(parts, _)| parts)) {
                if let Some(place) = taken.get_mut(part_idx) {
                    *place = Some(part);
                }
            }
            failed.map_or(Ok(()), Err)
        })?;
    }
    let fill = |(part_idx, part): (usize, Option<T>)| match part {
        Some(part) => Ok(part),
        None => read(connection, part_idx),
    };
    taken.into_iter().enumerate().map(fill).collect()
}

/// Parts that a thread has read, with their indices, and the error at which it stopped, if any.
type Taken<T> = (Vec<(usize, T)>, Option<StoreError>);

/// Reads parts that no thread has taken, one after another, until none is left.
fn rest<T>(
    connection: &Connection,
    next: &AtomicUsize,
    n_parts: usize,
    read: impl Fn(&Connection, usize) -> Result<T>,
) -> Taken<T> {
    let mut taken = Vec::new();
    loop {
        let part_idx = next.fetch_add(1, Ordering::Relaxed);
        if part_idx >= n_parts {
            return (taken, None);
        }
        match read(connection, part_idx) {
            Ok(part) => taken.push((part_idx, part)),
            Err(error) => {
                next.store(n_parts, Ordering::Relaxed);
                return (taken, Some(error));
            }
        }
    }
}

/// Calls `read` on a snapshot of the last commit. Returns `None` if the dataset has changed since
/// `expected`.
fn read_last_commit<T>(
    path: &Path,
    dataset: DatasetId,
    expected: Version,
    read: impl FnOnce(&Connection) -> T,
) -> Result<Option<T>> {
    let mut connection = readers::connect(path)?;
    let transaction = connection.transaction()?;
    let is_same = version(&transaction, dataset)? == expected;
    Ok(is_same.then(|| read(&transaction)))
}

fn version(connection: &Connection, dataset: DatasetId) -> Result<Version> {
    let Progress { state, layout, .. } = Progress::read(connection, dataset)?;
    Ok((state.revision, layout))
}

#[cfg(test)]
mod tests;
