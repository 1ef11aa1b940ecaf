//! Computes the buckets of many spans on several threads.
//!
//! The lines "1000 late rows" of the benchmark `figures` show the gain. Most of the work is reading
//! chunks. The writer thread reads within its transaction. Helper threads read the last commit. Both see
//! the same rows, as long as the transaction has not changed the dataset.

use std::ops::Range;
use std::path::Path;
use std::sync::LazyLock;
use std::{mem, thread};

use model::block::Block;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::progress::Progress;
use super::scan::{self, Scan};
use super::series::{self, KEPT, SeriesId, micros};
use super::{Result, readers};
use crate::rollup::{Fold, Folding};
use crate::span::Span;

/// Number of spans for each additional thread. A span takes about 20 µs. Starting a thread and its
/// connection takes some 300 µs.
const SPANS_PER_THREAD: usize = 48;

/// Maximum number of threads, including the writer thread.
const THREADS_MAX: usize = 4;

/// Number of processors, cached since the system takes at least 50 µs to report it. This is too long for
/// each append of a late row.
static CORES: LazyLock<usize> =
    LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX));

/// Rows from which buckets are computed: the stored rows of a dataset, new rows that replace them, and
/// archived rows that the stored rows replace.
#[derive(Debug)]
pub(super) struct BucketRebuild<'a> {
    pub(super) dataset: DatasetId,
    fold: Fold,
    /// A block without rows, with the columns of the dataset.
    empty: Block,
    /// Positions of the columns that the fold reads.
    columns: Vec<usize>,
    over: Option<&'a Block>,
    /// Archived rows in the buckets of five minutes that contain new rows.
    beneath: Option<&'a Block>,
}

/// Computed buckets of five minutes, and the timestamps of the new rows for which chunks already have
/// rows. Both are sorted.
type Found = (Vec<Bucket>, Vec<Timestamp>);

/// Revision and `layout` of a dataset. Any change of its rows or chunks changes one of them.
type Version = (u64, i64);

impl<'a> BucketRebuild<'a> {
    pub(super) fn new(
        connection: &Connection,
        dataset: DatasetId,
        fold: Fold,
        over: Option<&'a Block>,
        beneath: Option<&'a Block>,
    ) -> Result<Self> {
        let empty = scan::empty(connection, SeriesId::rows(dataset))?;
        Ok(Self { dataset, fold, empty, columns: fold.columns(), over, beneath })
    }

    /// Computes the buckets of five minutes within the buckets of `resolution` that begin at `starts`.
    /// One read covers buckets with a distance of at most `gap_max` buckets.
    pub(super) fn runs(
        &self,
        connection: &Connection,
        resolution: Resolution,
        starts: &[Timestamp],
        gap_max: i64,
    ) -> Result<Found> {
        let runs = starts.chunk_by(|a, b| b.micros() - a.micros() <= gap_max * micros(resolution));
        let span = |run: &[Timestamp]| {
            Some(Span { first: *run.first()?, last: series::span(resolution, *run.last()?).last })
        };
        let spans: Vec<Span> = runs.filter_map(span).collect();
        let read = |connection: &Connection, spans: &[Span]| self.spans(connection, spans);
        let found = shared(connection, self.dataset, &spans, SPANS_PER_THREAD, read)?;
        let (buckets, held): (Vec<_>, Vec<_>) = found.into_iter().unzip();
        Ok((buckets.concat(), held.concat()))
    }

    fn spans(&self, connection: &Connection, spans: &[Span]) -> Result<Found> {
        let (mut buckets, mut held) = (Vec::new(), Vec::new());
        for span in spans {
            buckets.extend(self.fold(connection, *span, &mut held)?);
        }
        Ok((buckets, held))
    }

    /// Computes the buckets of five minutes of a span. Adds the timestamps of new rows for which chunks
    /// already have rows to `held`.
    pub(super) fn fold(
        &self,
        connection: &Connection,
        span: Span,
        held: &mut Vec<Timestamp>,
    ) -> Result<Vec<Bucket>> {
        let Self { dataset, ref empty, ref columns, over, beneath, .. } = *self;
        let [resolution, ..] = KEPT;
        let mut folding = Folding::new(self.fold, resolution, None);
        let [mut above, mut below] =
            [over, beneath].map(|rows| rows.map_or(0..0, |rows| span.indices(&rows.times)));
        let mut add = |block: &Block, until: Timestamp| {
            let lower = take_until(beneath, &mut below, until);
            let above = over.map(|over| (over, take_until(Some(over), &mut above, until)));
            match beneath {
                Some(beneath) => folding.add(&beneath.part(lower).merge(block), above),
                None => folding.add(block, above),
            }
        };
        let columns = Some(columns.as_slice());
        let sought = over.map(|over| (over.times.as_slice(), held));
        let all = Scan::all(SeriesId::rows(dataset), span, empty.clone());
        Scan { columns, sought, ..all }.blocks(connection, &mut |block| {
            if let Some(last) = block.times.last() {
                add(&block, *last);
            }
        })?;
        add(empty, span.last);
        Ok(folding.finish())
    }
}

/// Removes and returns the rows up to `until` from the range `left`.
fn take_until(rows: Option<&Block>, left: &mut Range<usize>, until: Timestamp) -> Range<usize> {
    let end = rows.map_or(0, |rows| rows.first_after(until)).clamp(left.start, left.end);
    mem::replace(&mut left.start, end)..end
}

/// Divides `items` among threads, one for each `n_per_thread` of them, and returns what `read` returns
/// for the items of each thread, in order. The transaction of `connection` must not have changed the
/// dataset if there are more than `n_per_thread` items.
pub(super) fn shared<I: Sync, T: Send>(
    connection: &Connection,
    dataset: DatasetId,
    items: &[I],
    n_per_thread: usize,
    read: impl Fn(&Connection, &[I]) -> Result<T> + Sync,
) -> Result<Vec<T>> {
    let n_threads = (items.len() / n_per_thread).min(*CORES);
    let (Some(path), 2..) = (connection.path().map(Path::new), n_threads) else {
        return Ok(vec![read(connection, items)?]);
    };
    let version = version(connection, dataset)?;
    let mut shares = items.chunks(items.len().div_ceil(n_threads));
    let own = shares.next().unwrap_or_default();
    let read = &read;
    thread::scope(|scope| {
        let helpers: Vec<_> = shares
            .map(|share| {
                let help = move || {
                    read_last_commit(path, dataset, version, |connection| read(connection, share))
                };
                let thread = thread::Builder::new().name("datasets-refold".to_owned());
                (share, thread.spawn_scoped(scope, help).ok())
            })
            .collect();
        let mut found = vec![read(connection, own)?];
        for (share, helper) in helpers {
            // If a helper thread failed for any reason, its share is read within the transaction.
            let helped = helper.and_then(|helper| helper.join().ok()?.ok()?);
            found.push(helped.map_or_else(|| read(connection, share), Ok)?);
        }
        Ok(found)
    })
}

/// Calls `read` on a snapshot of the last commit. Returns `None` if the dataset has changed since
/// `expected`.
fn read_last_commit<T>(
    path: &Path,
    dataset: DatasetId,
    expected: Version,
    read: impl FnOnce(&Connection) -> Result<T>,
) -> Result<Option<T>> {
    let mut connection = readers::connect(path)?;
    let transaction = connection.transaction()?;
    let is_same = version(&transaction, dataset)? == expected;
    is_same.then(|| read(&transaction)).transpose()
}

fn version(connection: &Connection, dataset: DatasetId) -> Result<Version> {
    let Progress { state, layout, .. } = Progress::read(connection, dataset)?;
    Ok((state.revision, layout))
}

#[cfg(test)]
mod tests;
