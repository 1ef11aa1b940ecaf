//! Appending rows: where they go, and the buckets that follow them, in one transaction.
//!
//! As in the embedded store a few rows go to the tail, many go to chunks at once, and late rows stay in
//! the tail, which wins over the chunks, until there are many of them.
//!
//! What rows after all others change follows from the state of the dataset alone. The state that an
//! append left is remembered; while nobody else changes the dataset, which the statement tests, the
//! next append is that statement: one round trip in place of ten. Defended by the row "ingest in
//! PostgreSQL" of the bench `figures`.

use std::io;

use db::postgres::{
    connections::Connections,
    fault::{WorkError as _, is_lost},
};
use futures::FutureExt as _;
use model::{
    block::{Block, Series},
    dataset::DatasetId,
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};
use sqlx::PgConnection;
use task::cache::{Cache, Capacity};

use super::{
    Result, STEP_WITHIN, StoreError,
    batches::{self, BatchLists},
    buckets::{self, OpenBuckets},
    chunks::{self, CHUNK_ROWS, CHUNK_ROWS_MIN},
    cold::{self, Cold, Fetched, THAWS_MAX},
    commit::{self, Changes},
    head::Head,
    pages::{StoredSeries, Wanted},
    tail,
};
use crate::{
    span::{Order, Span},
    store::{Append, AppendMode, Appended, Removal, Removed},
};

/// Late rows of one append that are worth rewriting their chunk.
const LATE_ROWS_PER_CHUNK: usize = 64;

/// Late rows in the tail from which on an append lays some over their chunks itself: the tail would
/// grow without end.
const LATE_ROWS_LIMIT: usize = 16_384;

/// Late rows laid over chunks in one step. Each may be in a chunk of its own.
const LATE_ROWS_STEP: usize = 256;

/// The states of datasets that are remembered at most.
const KNOWN: Capacity = Capacity { n_values_max: 4096, bytes_max: 16 << 20 };

/// The states in which appends left their datasets, for the next ones.
#[derive(Debug)]
pub(super) struct Known(Cache<DatasetId, Left>);

/// What an append left.
#[derive(Debug, Clone)]
struct Left {
    head: Head,
    /// What the next rows need, unless somebody else writes the dataset, too: then nothing is tried
    /// with it.
    open: Option<OpenBuckets>,
}

impl Default for Known {
    fn default() -> Self {
        Self(Cache::new(KNOWN))
    }
}

impl Known {
    fn put(&self, left: Left) {
        let n_buckets = left.open.as_ref().map_or(0, OpenBuckets::len);
        let n_bytes = size_of::<Left>()
            + left.head.empty.columns.len() * size_of::<Series>()
            + n_buckets * size_of::<Bucket>();
        self.0.put(left.head.dataset, left, n_bytes);
    }
}

/// Appends rows, sorted by unique timestamp, and fills in their numbers and creation times. The caller
/// has the turn of the dataset. After an error the rows may be appended again.
///
/// Rows after all others are appended by one statement alone, if this store wrote the dataset last.
pub(super) async fn append(
    connections: &Connections,
    cold: Option<&Cold>,
    known: &Known,
    dataset: DatasetId,
    append: &mut Append,
) -> Result<Appended> {
    let left = known.0.get(&dataset);
    known.0.remove(&dataset);
    let mut unsure = None;
    if let Some(Left { head, open: Some(open) }) = left.clone() {
        match quickly(connections, head, open, append).await {
            Ok(Some(left)) => {
                let appended = left.head.appended(&append.rows);
                known.put(left);
                return Ok(appended);
            }
            Ok(None) => {}
            Err(error) if is_cut(&error) => unsure = Some(error),
            Err(StoreError::BatchStored) => {
                if let Some(left) = left {
                    known.put(left);
                }
                return Err(StoreError::BatchStored);
            }
            Err(error) => return Err(error),
        }
    }
    let mut n_thaws = 0;
    loop {
        let mut again = None;
        let full = async {
            let before = Before { left: left.as_ref(), unsure: &mut unsure, again: &mut again };
            let mut transaction = connections.begin_write().await?;
            let done = fully(&mut transaction, dataset, append, before).await;
            transaction.finish(done).await
        };
        let error = match connections.within(STEP_WITHIN, full).await {
            Ok(left) => {
                let appended = left.head.appended(&append.rows);
                known.put(left);
                return Ok(appended);
            }
            // If it was done, it was moved with the dataset.
            Err(error @ StoreError::Moved { .. }) => return Err(unsure.unwrap_or(error)),
            Err(error) => error,
        };
        let Some(kept) = again.filter(|_| n_thaws < THAWS_MAX) else {
            return Err(unsure.unwrap_or(error));
        };
        // Also where that fails: what was merged may be of another state by the next attempt.
        *append = kept;
        cold::thaw_needed(connections, cold, dataset, error).await?;
        // It was not done, or these rows would have been refused.
        unsure = None;
        n_thaws += 1;
    }
}

/// What is known before an append in a transaction.
struct Before<'a> {
    /// What the last append of this store left.
    left: Option<&'a Left>,
    /// The error of an append that may have been done: it was not if nothing has changed since, and
    /// cannot be any more.
    unsure: &'a mut Option<StoreError>,
    /// Gets the rows of one that may come upon chunks in objects, to begin again.
    again: &'a mut Option<Append>,
}

/// Whether a statement may have been done, since the connection was lost under it.
fn is_cut(error: &StoreError) -> bool {
    match error.unreachable_cause() {
        Some(sqlx::Error::Io(error)) => error.kind() != io::ErrorKind::TimedOut,
        cause => cause.is_some_and(is_lost),
    }
}

/// Appends by one statement; none if these rows are not to be appended so, or somebody else changed the
/// dataset.
async fn quickly(
    connections: &Connections,
    mut head: Head,
    mut open: OpenBuckets,
    append: &mut Append,
) -> Result<Option<Left>> {
    let n_rows = append.rows.len();
    let is_kept = head.kept_from.is_none_or(|from| Some(&from) <= append.rows.times.first());
    let is_plain = is_kept && is_extended(&head, &append.rows);
    if !is_plain || takes_tail(&head, n_rows) {
        return Ok(None);
    }
    head.number(&mut append.rows, append.now);
    let wide = widened(&head, &append.rows);
    let mut changes =
        extend(&mut head, &mut open, wide.as_ref().unwrap_or(&append.rows), &Block::new(&[]), 0);
    changes.batches = BatchLists::new(&append.batches);
    let now = append.now;
    let work = connections.write_once(move |c| {
        async move {
            let is_done = commit::commit(c, &mut head, changes, n_rows, now).await?;
            Ok::<_, StoreError>(is_done.then_some(head))
        }
        .boxed()
    });
    Ok(work.await?.map(|head| Left { head, open: Some(open) }))
}

/// Appends in a transaction.
async fn fully(
    c: &mut PgConnection,
    dataset: DatasetId,
    append: &mut Append,
    before: Before<'_>,
) -> Result<Left> {
    let Before { left, unsure, again } = before;
    let mut head = Head::lock(c, dataset).await?;
    let is_same = left.is_none_or(|left| left.head.is_same(&head));
    // It was not done if nothing has changed since.
    if let Some(error) = unsure.take()
        && !is_same
    {
        return Err(error);
    }
    let is_extended = is_extended(&head, &append.rows);
    if head.has_objects && !is_extended {
        *again = Some(append.clone());
    }
    let Append { mode, rows, now, batches } = append;
    let Some(first) = rows.times.first().copied() else {
        batches::put(c, dataset, batches, head.revision).await?;
        return Ok(Left { head, open: None });
    };
    if let Some(kept_from) = head.kept_from.filter(|kept_from| first < *kept_from) {
        return Err(StoreError::Pruned { kept_from });
    }
    if *mode == AppendMode::Merge && !is_extended {
        merge(c, &head, rows).await?;
    }
    head.number(rows, *now);
    let wide = widened(&head, rows);
    let wide = wide.as_ref().unwrap_or(rows);
    let batches = BatchLists::new(batches);
    if !is_extended {
        store(c, &mut head, wide).await?;
        head.newest = head.newest.max(wide.times.last().copied());
        let changes = Changes { batches, ..Changes::default() };
        head.commit(c, changes, wide.len(), *now).await?;
        return Ok(Left { head, open: None });
    }
    let open = put_extended(c, &mut head, wide, 0, *now, batches).await?;
    Ok(Left { head, open: is_same.then_some(open) })
}

/// Commits rows that come after all others, of which the first `n_folded` are in the buckets already; the
/// buckets that the next rows are folded with.
async fn put_extended(
    c: &mut PgConnection,
    head: &mut Head,
    rows: &Block,
    n_folded: usize,
    now: Timestamp,
    batches: BatchLists,
) -> Result<OpenBuckets> {
    let mut under = Block::new(&[]);
    if takes_tail(head, rows.len()) {
        let span = Span { first: head.fresh_from(), last: Timestamp::MAX };
        under = tail::take(c, &head.empty, head.dataset, span, usize::MAX).await?;
        head.n_fresh = 0;
    }
    let first = rows.times.get(n_folded).or(rows.times.first()).copied().unwrap_or_default();
    let mut open = OpenBuckets::read(c, head, first).await?;
    let mut changes = extend(head, &mut open, rows, &under, n_folded);
    changes.batches = batches;
    head.commit(c, changes, rows.len(), now).await?;
    Ok(open)
}

/// Whether rows come after all others, and nothing but them is to be written.
fn is_extended(head: &Head, rows: &Block) -> bool {
    let is_after = rows.times.first().is_some_and(|first| head.newest < Some(*first));
    is_after && head.n_late < LATE_ROWS_LIMIT && rows.columns.len() <= head.empty.columns.len()
}

/// Whether new rows make chunks with the rows of the tail after the last chunk.
fn takes_tail(head: &Head, n_rows: usize) -> bool {
    head.n_fresh > 0 && !waits_in_tail(head, n_rows)
}

/// Whether new rows, which are after the last chunk, are too few for a chunk.
fn waits_in_tail(head: &Head, n_rows: usize) -> bool {
    n_rows < CHUNK_ROWS_MIN && head.n_fresh + n_rows < CHUNK_ROWS
}

/// Rows with the columns that were added since, which have no values.
fn widened(head: &Head, rows: &Block) -> Option<Block> {
    let is_narrow = rows.columns.len() < head.empty.columns.len();
    is_narrow.then(|| {
        let mut block = head.empty.clone();
        block.extend_from(rows, 0..rows.len());
        block
    })
}

/// What is to be written for rows that come after all others, with the rows `under` them in the tail. The
/// first `n_folded` are in the buckets already.
fn extend(
    head: &mut Head,
    open: &mut OpenBuckets,
    rows: &Block,
    under: &Block,
    n_folded: usize,
) -> Changes {
    let mut changes = Changes::default();
    let merged = if under.is_empty() { None } else { Some(under.merge(rows)) };
    let all = merged.as_ref().unwrap_or(rows);
    if all.len() < CHUNK_ROWS_MIN {
        head.n_fresh += all.len();
        changes.tail = tail::RowLists::new(all, &[]);
    } else {
        head.n_fresh = 0;
        head.chunks_end = all.times.last().copied();
        changes.chunks.add(Resolution::Raw, all);
    }
    if n_folded == 0 {
        buckets::extend(head, open, rows, &mut changes);
    } else {
        buckets::extend(head, open, &rows.part(n_folded..rows.len()), &mut changes);
    }
    head.newest = rows.times.last().copied();
    changes
}

/// Appends rows of another store with their creation times. If they come after all rows there are, those
/// before `kept_from` are in the buckets already.
pub(super) async fn append_copied(
    c: &mut PgConnection,
    dataset: DatasetId,
    rows: &mut Block,
    updated_at: Timestamp,
) -> Result<()> {
    let mut head = Head::lock(c, dataset).await?;
    let Some(first) = rows.times.first().copied() else { return Ok(()) };
    let created = std::mem::take(&mut rows.created);
    head.number(rows, updated_at);
    rows.created = created;
    if head.newest.is_some_and(|newest| newest >= first) {
        if let Some(kept_from) = head.kept_from.filter(|kept_from| first < *kept_from) {
            return Err(StoreError::Pruned { kept_from });
        }
        store(c, &mut head, rows).await?;
        head.newest = head.newest.max(rows.times.last().copied());
        return head.commit(c, Changes::default(), rows.len(), updated_at).await;
    }
    let n_pruned = head.kept_from.map_or(0, |kept_from| rows.first_not_before(kept_from));
    let batches = BatchLists::default();
    put_extended(c, &mut head, rows, n_pruned, updated_at, batches).await.map(drop)
}

/// Gives rows the values that they lack and the stored rows at their timestamps have.
async fn merge(c: &mut PgConnection, head: &Head, rows: &mut Block) -> Result<()> {
    let stored =
        StoredSeries { id: head.rows(), empty: head.empty.clone(), fetched: Fetched::default() };
    // All that are in objects are found here at once. The reader would ask for the next ones of each row,
    // and for those after them.
    let covering = if head.has_objects {
        chunks::covering(c, head.rows(), &rows.times, false).await?
    } else {
        Vec::new()
    };
    let ends: Vec<Timestamp> = covering.iter().map(|chunk| chunk.place.span.last).collect();
    let mut row_idx = 0;
    while let (Some(first), Some(last)) = (rows.times.get(row_idx), rows.times.last()) {
        // What lies between the rows is read only as far as a chunk goes.
        let end = ends.get(ends.partition_point(|end| end < first));
        let span = Span { first: *first, last: *end.unwrap_or(last).min(last) };
        let under = stored.read(c, &Wanted { limit: CHUNK_ROWS, ..Wanted::all(span) }).await?;
        rows.fill(&under);
        row_idx = rows.first_after(*under.times.last().unwrap_or(&span.last));
    }
    Ok(())
}

/// Stores rows, of which some are not after all others, and the buckets they change.
async fn store(c: &mut PgConnection, head: &mut Head, rows: &Block) -> Result<()> {
    // Folded from the rows as they are before.
    let rebuilt = match head.fold {
        Some(fold) => Some(buckets::rebuild(c, head, fold, rows).await?),
        None => None,
    };
    let n_late = rows.first_not_before(head.fresh_from());
    if n_late > 0 {
        put_late(c, head, &rows.part(0..n_late)).await?;
    }
    if n_late < rows.len() {
        put_fresh(c, head, rows, n_late).await?;
    }
    if let Some(rebuilt) = rebuilt {
        rebuilt.put(c, head).await?;
    }
    if head.n_late >= LATE_ROWS_LIMIT {
        let step = LATE_ROWS_STEP.max(rows.len().saturating_mul(2));
        match settle_late(c, head, step).await {
            // It changed nothing. To pack them is left to the maintenance, which waits for objects.
            Err(StoreError::Cold { .. }) => {}
            done => done?,
        }
    }
    Ok(())
}

/// Puts rows that are not after the last chunk over their chunks, where many fall into one, else into
/// the tail.
async fn put_late(c: &mut PgConnection, head: &mut Head, late: &Block) -> Result<()> {
    if late.len() >= LATE_ROWS_PER_CHUNK {
        let n_chunks = chunks::covering(c, head.rows(), &late.times, false).await?.len();
        if n_chunks <= late.len() / LATE_ROWS_PER_CHUNK
            && let (Some(first), Some(last)) = (late.times.first(), late.times.last())
        {
            let span = Span { first: *first, last: *last };
            let under = tail::take(c, &head.empty, head.dataset, span, usize::MAX).await?;
            return chunks::overlay(c, head.rows(), &under.merge(late)).await;
        }
    }
    let held = chunks::find_held(c, head.rows(), &late.times).await?;
    head.n_late += late.len();
    tail::put(c, head.dataset, late, &held).await
}

/// Puts the rows from `first` on, which are after the last chunk, into the tail, or into chunks together
/// with the rows that are there, if there are enough.
async fn put_fresh(
    c: &mut PgConnection,
    head: &mut Head,
    rows: &Block,
    first: usize,
) -> Result<()> {
    let n_fresh = rows.len() - first;
    if waits_in_tail(head, n_fresh) {
        head.n_fresh += n_fresh;
        let part = if first == 0 { None } else { Some(rows.part(first..rows.len())) };
        return tail::put(c, head.dataset, part.as_ref().unwrap_or(rows), &[]).await;
    }
    let mut all = rows.part(first..rows.len());
    if head.n_fresh > 0 {
        let span = Span { first: head.fresh_from(), last: Timestamp::MAX };
        let under = tail::take(c, &head.empty, head.dataset, span, usize::MAX).await?;
        all = under.merge(&all);
    }
    head.n_fresh = 0;
    // Replaced rows of the tail may have left too few for a chunk.
    if all.len() < CHUNK_ROWS_MIN {
        head.n_fresh = all.len();
        return tail::put(c, head.dataset, &all, &[]).await;
    }
    chunks::insert(c, head.rows(), &all).await
}

/// Lays at most `step` late rows over their chunks. Afterwards `n_late` is exact where it is small.
///
/// # Errors
/// That some chunks are in objects; then nothing was changed.
pub(super) async fn settle_late(c: &mut PgConnection, head: &mut Head, step: usize) -> Result<()> {
    head.chunks_end = chunks::end(c, head.rows()).await?;
    let Some(end) = head.chunks_end else {
        head.n_late = 0;
        return Ok(());
    };
    let late = Span { first: Timestamp::MIN, last: end };
    let limit = i64::try_from(step).unwrap_or(i64::MAX);
    let rows = tail::read(c, &head.empty, head.dataset, late, Order::Ascending, limit).await?;
    chunks::overlay(c, head.rows(), &rows).await?;
    if let Some(last) = rows.times.last() {
        tail::remove(c, head.dataset, Span { first: late.first, last: *last }).await?;
    }
    head.n_late = if rows.len() < step { 0 } else { tail::count(c, head.dataset, late).await? };
    Ok(())
}

/// Lays some late rows over their chunks.
pub(super) async fn settle_some(c: &mut PgConnection, head: &mut Head) -> Result<()> {
    settle_late(c, head, LATE_ROWS_STEP).await
}

/// Lets go of rows before `before`, at most about `limit_rows`.
pub(super) async fn prune(
    c: &mut PgConnection,
    dataset: DatasetId,
    before: Timestamp,
    limit_rows: usize,
) -> Result<Removed> {
    let mut head = Head::lock(c, dataset).await?;
    // Whole buckets only: what is left of one could not be folded again.
    let before = Resolution::FiveMinutes.bucket_start(before);
    let span = Span { first: Timestamp::MIN, last: before };
    let limit = i64::try_from(limit_rows).unwrap_or(i64::MAX);
    let (mut n_gone, mut gone, mut newest_gone) = (0, Vec::new(), None);
    let places = chunks::places(c, head.rows(), span, limit.saturating_add(1)).await?;
    for place in places.iter().take_while(|place| place.span.last < before) {
        if n_gone >= limit_rows {
            break;
        }
        n_gone += place.n;
        gone.push(*place);
        newest_gone = Some(place.span.last);
    }
    chunks::remove_places(c, dataset, &gone).await?;
    // Rows of the tail that lie over a chunk go when it does, not before.
    let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    let left = chunks::places(c, head.rows(), all, 1).await?.pop();
    let bound = left.map_or(before, |left| left.span.first.min(before));
    let old = Span { first: Timestamp::MIN, last: Timestamp::from_micros(bound.micros() - 1) };
    let in_tail = tail::take(c, &head.empty, dataset, old, usize::MAX).await?;
    n_gone += in_tail.len();
    if let Some(newest_gone) = newest_gone.max(in_tail.times.last().copied()) {
        // Up to the end of the last bucket that lost a row, and not up to `before`: the date that it
        // follows from may be wrong, and rows of the right one come after that.
        let bucket = Resolution::FiveMinutes.bucket_start(newest_gone);
        let end = bucket + Resolution::FiveMinutes.bucket().unwrap_or_default();
        head.kept_from = head.kept_from.max(Some(end.min(before)));
        head.recount(c).await?;
        let changes = Changes { removal: Some(Removal::Old), ..Changes::default() };
        head.commit(c, changes, 0, head.updated_at).await?;
    }
    let n_rows = u64::try_from(n_gone).unwrap_or(u64::MAX);
    Ok(Removed { n_rows, revision: head.revision })
}
