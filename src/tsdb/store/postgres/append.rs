//! Appending rows: where they go, and the buckets that follow them, in one transaction.
//!
//! As in the embedded store a few rows go to the tail, many go to chunks at once, and late rows stay in
//! the tail, which wins over the chunks, until there are many of them.

use model::{block::Block, dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    Result, StoreError, buckets,
    chunks::{self, CHUNK_ROWS, CHUNK_ROWS_MIN},
    head::Head,
    pages::{StoredSeries, Wanted},
    tail,
};
use crate::{
    span::Span,
    store::{AppendMode, Appended, Removed},
};

/// Late rows of one append that are worth rewriting their chunk.
const LATE_ROWS_PER_CHUNK: usize = 64;

/// Late rows in the tail from which on an append lays some over their chunks itself: the tail would
/// grow without end.
const LATE_ROWS_LIMIT: usize = 16_384;

/// Late rows laid over chunks in one step. Each may be in a chunk of its own.
const LATE_ROWS_STEP: usize = 256;

/// Appends `rows`, sorted by unique timestamp, and fills in their numbers and creation times.
pub(super) async fn append(
    c: &mut PgConnection,
    dataset: DatasetId,
    mode: AppendMode,
    rows: &mut Block,
    now: Timestamp,
) -> Result<Appended> {
    let mut head = Head::lock(c, dataset).await?;
    let n_rows = u64::try_from(rows.len()).unwrap_or(u64::MAX);
    let (Some(first), Some(last)) = (rows.times.first().copied(), rows.times.last().copied())
    else {
        return Ok(Appended { n_rows, revision: head.revision });
    };
    if let Some(kept_from) = head.kept_from
        && first < kept_from
    {
        return Err(StoreError::Pruned { kept_from });
    }
    if mode == AppendMode::Merge {
        merge(c, &head, rows).await?;
    }
    head.number(rows, now);
    // Columns that were added since have no values.
    let mut widened = None;
    if rows.columns.len() < head.empty.columns.len() {
        let mut block = head.empty.clone();
        block.extend_from(rows, 0..rows.len());
        widened = Some(block);
    }
    store(c, &mut head, widened.as_ref().unwrap_or(rows), 0).await?;
    head.newest = head.newest.max(Some(last));
    head.commit(c, rows.len(), now).await?;
    Ok(Appended { n_rows, revision: head.revision })
}

/// Appends rows of another store, which come after all rows there are, with their creation times. Those
/// before `kept_from` are in the buckets already.
pub(super) async fn append_copied(
    c: &mut PgConnection,
    dataset: DatasetId,
    rows: &mut Block,
    updated_at: Timestamp,
) -> Result<()> {
    let mut head = Head::lock(c, dataset).await?;
    let (Some(first), Some(last)) = (rows.times.first(), rows.times.last().copied()) else {
        return Ok(());
    };
    if head.newest.is_some_and(|newest| newest >= *first) {
        return Err(StoreError::NoCopy { dataset });
    }
    let created = std::mem::take(&mut rows.created);
    head.number(rows, updated_at);
    rows.created = created;
    let n_pruned = head.kept_from.map_or(0, |kept_from| rows.first_not_before(kept_from));
    store(c, &mut head, rows, n_pruned).await?;
    head.newest = Some(last);
    head.commit(c, rows.len(), updated_at).await
}

/// Gives rows the values that they lack and the stored rows at their timestamps have.
async fn merge(c: &mut PgConnection, head: &Head, rows: &mut Block) -> Result<()> {
    let stored = StoredSeries { id: head.rows(), empty: head.empty.clone() };
    let mut row_idx = 0;
    while let (Some(first), Some(last)) = (rows.times.get(row_idx), rows.times.last()) {
        // What lies between the rows is read only as far as a chunk goes.
        let span = Span { first: *first, last: *last };
        let under = stored.read(c, &Wanted { limit: CHUNK_ROWS, ..Wanted::all(span) }).await?;
        let Some(read_until) = under.times.last() else { break };
        rows.fill(&under);
        row_idx = rows.first_after(*read_until);
    }
    Ok(())
}

/// Stores rows and the buckets they change, but for the first `n_folded`, which are in them already.
async fn store(c: &mut PgConnection, head: &mut Head, rows: &Block, n_folded: usize) -> Result<()> {
    let is_after =
        head.newest.zip(rows.times.first()).is_none_or(|(newest, first)| newest < *first);
    // Folded from the rows as they are before.
    let rebuilt = match head.fold.filter(|_| !is_after) {
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
    match (rebuilt, head.fold) {
        (Some(rebuilt), _) => rebuilt.put(c, head).await?,
        (None, Some(fold)) if n_folded == 0 => buckets::extend(c, head, fold, rows).await?,
        (None, Some(fold)) => {
            buckets::extend(c, head, fold, &rows.part(n_folded..rows.len())).await?;
        }
        (None, None) => {}
    }
    if head.n_late >= LATE_ROWS_LIMIT {
        settle_late(c, head, LATE_ROWS_STEP.max(rows.len().saturating_mul(2))).await?;
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
    if n_fresh < CHUNK_ROWS_MIN && head.n_fresh + n_fresh < CHUNK_ROWS {
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
pub(super) async fn settle_late(c: &mut PgConnection, head: &mut Head, step: usize) -> Result<()> {
    head.chunks_end = chunks::end(c, head.rows()).await?;
    let Some(end) = head.chunks_end else {
        head.n_late = 0;
        return Ok(());
    };
    let late = Span { first: Timestamp::MIN, last: end };
    let rows = tail::take(c, &head.empty, head.dataset, late, step).await?;
    chunks::overlay(c, head.rows(), &rows).await?;
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
    let (mut n_gone, mut ids, mut newest_gone) = (0, Vec::new(), None);
    let places = chunks::places(c, head.rows(), span, limit.saturating_add(1)).await?;
    for place in places.iter().take_while(|place| place.span.last < before) {
        if n_gone >= limit_rows {
            break;
        }
        n_gone += place.n;
        ids.push(place.id);
        newest_gone = Some(place.span.last);
    }
    chunks::remove(c, ids).await?;
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
        head.commit(c, 0, head.updated_at).await?;
    }
    let n_rows = u64::try_from(n_gone).unwrap_or(u64::MAX);
    Ok(Removed { n_rows, revision: head.revision })
}
