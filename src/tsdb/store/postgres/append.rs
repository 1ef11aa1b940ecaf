//! Statements that append and remove rows and update their buckets. Each write is one transaction.

use std::slice::from_ref;

use model::block::{Block, Series};
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use sqlx::PgConnection;

use super::binary::{NUMBER_COLUMNS, ROW_COLUMNS};
use super::buckets::{self, Levels};
use super::head::{Change, Head};
use super::time::{EARLIEST, Time, bounds};
use super::{Result, StoreError, binary, reads};
use crate::archive::month::Month;
use crate::catalog::Refusal;
use crate::rollup::{Fold, Refolded, bucket_at, starts_of};
use crate::span::{Span, just_before};
use crate::store::row_changes::{self, RowChange};
use crate::store::session::{Row, Session as _};
use crate::store::state::Place;
use crate::store::{Append, AppendMode, Appended, Removed, RowDeletion, batch, records, series};

/// Resolution of the buckets that are folded directly from rows.
const FINEST: Resolution = Resolution::FiveMinutes;

/// Number of rows that one transaction deletes. A statement deletes a million rows in some seconds, and
/// PostgreSQL cancels it after 20 s.
const DELETE_ROWS: i64 = 250_000;

/// Appends `rows`, sorted by unique timestamp. Assigns their row numbers and, unless they are copies,
/// their creation times.
pub(super) async fn append(
    c: &mut PgConnection,
    dataset: DatasetId,
    append: Append,
) -> Result<(Appended, Block)> {
    let Append { mode, mut rows, now, batches, beneath } = append;
    let mut head = Head::lock(c, dataset).await?;
    check_storable(&rows)?;
    let place = head.state.place(&rows, mode)?;
    if let Some(first) = rows.times.first().filter(|_| !place.is_after) {
        let until = head.state.archived_until;
        records::check_beneath(c, dataset, *first, until, beneath.as_ref()).await?;
    }
    let empty = Block::new(&head.dtypes);
    let beneath = beneath.as_ref().map_or(&empty, |beneath| &beneath.rows);
    if mode == AppendMode::Merge && !place.is_after {
        let spans: Vec<Span> = rows.times.iter().map(|at| Span { first: *at, last: *at }).collect();
        let stored = reads::rows_within(c, &head, ROW_COLUMNS, &spans).await?;
        rows.fill(&beneath.merge(&stored));
    }
    if mode != AppendMode::Copy {
        rows.created = vec![now; rows.len()];
    }
    if !rows.is_empty() {
        let stored = store(c, &mut head, &mut rows, place, beneath).await?;
        let change = Change::Rows { rows: &rows, is_after: place.is_after };
        head.commit(c, change, Some(now)).await?;
        if let Some(change) = RowChange::replacement(head.state.revision, &rows, &stored) {
            row_changes::record(c, dataset, &change).await?;
        }
    }
    batch::put(c, dataset, &batches, head.state.revision).await?;
    Ok((head.state.appended(rows.len()), rows))
}

/// Checks that PostgreSQL can store the timestamps and texts of rows.
fn check_storable(rows: &Block) -> Result<()> {
    let is_early = rows.times.first().is_some_and(|first| *first < EARLIEST);
    let mut texts = rows.columns.iter().filter_map(Series::texts).flatten().flatten();
    if is_early || texts.any(|text| text.contains('\0')) {
        return Err(Refusal::Unstorable.into());
    }
    Ok(())
}

/// Stores rows and updates buckets. `beneath` has the archived rows in the same buckets. Stored rows
/// take precedence over archived rows.
///
/// Returns the timestamps of the replaced rows and of `beneath`, in ascending order.
async fn store(
    c: &mut PgConnection,
    head: &mut Head,
    rows: &mut Block,
    Place { is_after, n_folded }: Place,
    beneath: &Block,
) -> Result<Vec<Timestamp>> {
    let mut stored = beneath.times.clone();
    let folded = rows.part(n_folded..rows.len());
    let mut levels = Levels::default();
    if let (Some(fold), Some(first)) = (head.fold, folded.times.first()) {
        let times = if is_after { from_ref(first) } else { &folded.times };
        let sources = buckets::read_sources(c, head, times).await?;
        let changed = if is_after {
            let last = bucket_at(&sources.finest, FINEST.bucket_start(*first));
            let extended = fold.buckets(&folded, FINEST, last).into_iter();
            extended.map(|bucket| (bucket.timestamp, Some(bucket))).collect()
        } else {
            refold(c, head, fold, &folded, beneath, times).await?
        };
        levels = Levels::refold(times, changed, &sources);
    }
    if let Some(newest) = head.state.newest.filter(|_| !is_after) {
        let late = rows.times.get(..rows.first_after(newest)).unwrap_or_default();
        let sql = "DELETE FROM datasets.rows WHERE dataset = $1 AND ts = ANY($2) RETURNING ts";
        let late: Vec<Time> = late.iter().copied().map(Time).collect();
        let replaced = sqlx::query_scalar(sql).bind(head.dataset.get()).bind(late);
        stored.extend(replaced.fetch_all(&mut *c).await?.into_iter().map(|Time(at)| at));
        stored.sort_unstable();
    }
    head.number(rows);
    binary::insert_rows(c, head.dataset, rows).await?;
    levels.put(c, head.dataset).await?;
    head.state.newest = head.state.newest.max(rows.times.last().copied());
    Ok(stored)
}

/// Computes the buckets of five minutes that contain `times` from `beneath`, the stored rows and `rows`,
/// in ascending precedence.
async fn refold(
    c: &mut PgConnection,
    head: &Head,
    fold: Fold,
    rows: &Block,
    beneath: &Block,
    times: &[Timestamp],
) -> Result<Refolded> {
    let starts = starts_of(FINEST, times.iter().copied());
    let newest = head.state.newest;
    let known = starts.iter().filter(|start| newest.is_some_and(|newest| **start <= newest));
    let spans: Vec<Span> = known.map(|start| series::span(FINEST, *start)).collect();
    let stored = reads::rows_within(c, head, NUMBER_COLUMNS, &spans).await?;
    let folded = fold.buckets(&beneath.merge(&stored).merge(rows), FINEST, None);
    let changed = |start| (start, bucket_at(&folded, start));
    Ok(starts.into_iter().map(changed).collect())
}

/// Removes rows before `before`, at most `limit_rows` of them.
pub(super) async fn prune(
    c: &mut PgConnection,
    dataset: DatasetId,
    mut before: Timestamp,
    limit_rows: usize,
) -> Result<Removed> {
    let mut head = Head::lock(c, dataset).await?;
    if let Some(n_rows) = records::prune(c, dataset, &mut before, &mut head.state).await? {
        head.read_latest(c).await?;
        let last = just_before(Month::of(before).start());
        let span = Span { first: Timestamp::MIN, last };
        head.commit(c, Change::Removal(span), None).await?;
        return Ok(head.state.removed(n_rows));
    }
    let old = Span { first: Timestamp::MIN, last: just_before(before) };
    let limit = i64::try_from(limit_rows).unwrap_or(i64::MAX);
    let bound = reads::nth(c, dataset.get(), old, limit).await?.unwrap_or(before);
    let sql = "WITH gone AS (DELETE FROM datasets.rows WHERE dataset = ?1 AND ts < ?2 RETURNING ts)
         SELECT max(ts), count(*) FROM gone HAVING count(*) > 0";
    let count = |row: &Row<'_>| Ok((row.get(0)?, row.get_unsigned(1)?.unwrap_or_default()));
    let gone = c.all(sql, &[&dataset.get(), &Time(bound)], count).await?.pop();
    let Some((Time(last_gone), n_gone)) = gone else { return Ok(head.state.removed(0)) };
    // Appends are rejected only before the end of the last bucket that lost a row, which can be long
    // before `before`. If a row with a wrong date made `before` too late, correct rows would otherwise
    // be rejected.
    let end = series::bucket_end(FINEST, last_gone);
    let state = &mut head.state;
    state.kept_from = state.kept_from.max(Some(end.min(before)));
    state.newest = state.newest.filter(|newest| *newest >= bound).max(state.newest_archived);
    let span = Span { first: Timestamp::MIN, last: just_before(bound) };
    head.commit(c, Change::Removal(span), None).await?;
    Ok(head.state.removed(n_gone))
}

/// Deletes the stored and archived rows of a span, or the first [`DELETE_ROWS`] if no rows are archived.
/// Also returns the timestamp of the first row that is left to delete.
pub(super) async fn delete_rows(
    c: &mut PgConnection,
    dataset: DatasetId,
    RowDeletion { span, now, archived }: RowDeletion,
) -> Result<(Removed, Option<Timestamp>)> {
    let mut head = Head::lock(c, dataset).await?;
    let Some(deletion) = archived else {
        if head.state.archived_until.is_some() && records::has_files(c, dataset, Span::ALL).await? {
            return Err(StoreError::ArchiveChanged { dataset });
        }
        let beneath = Block::new(&head.dtypes);
        let rest = reads::nth(c, dataset.get(), span, DELETE_ROWS).await?;
        let span = Span { last: rest.map_or(span.last, just_before), ..span };
        return Ok((delete(c, head, span, now, &beneath).await?, rest));
    };
    let mut is_changed = head.state.removed > deletion.revision;
    for (part, n_stored) in &deletion.stored {
        let (first, last) = bounds(*part);
        let sql = "SELECT count(*) FROM datasets.rows WHERE dataset = ?1 AND ts BETWEEN ?2 AND ?3";
        let n_rows = c.all(sql, &[&dataset.get(), &first, &last], |row| row.get::<i64>(0)).await?;
        is_changed |= n_rows != [n_stored.cast_signed()];
    }
    if is_changed {
        return Err(StoreError::ArchiveChanged { dataset });
    }
    records::cut(c, dataset, span, &deletion, &mut head.state).await?;
    let mut removed = delete(c, head, span, now, &deletion.beneath.rows).await?;
    removed.n_rows = removed.n_rows.saturating_add(deletion.n_rows);
    Ok((removed, None))
}

/// Deletes the stored rows of a span. `beneath` has the remaining archived rows in the buckets at both
/// ends of the span.
async fn delete(
    c: &mut PgConnection,
    mut head: Head,
    span: Span,
    now: Timestamp,
    beneath: &Block,
) -> Result<Removed> {
    let dataset = head.dataset;
    if span.first > span.last {
        return Ok(head.state.removed(0));
    }
    let (first, last) = bounds(span);
    let sql = "DELETE FROM datasets.rows WHERE dataset = ?1 AND ts BETWEEN ?2 AND ?3";
    let n_gone = c.run(sql, &[&dataset.get(), &first, &last]).await?;
    if let Some(fold) = head.fold {
        buckets::delete_within(c, dataset, span).await?;
        let ends = [span.first.max(EARLIEST), span.last.max(EARLIEST)];
        // A bucket before `kept_from` cannot be computed again, since its rows might have been pruned.
        let known = ends.into_iter().filter(|end| {
            head.state.kept_from.is_none_or(|kept_from| FINEST.bucket_start(*end) >= kept_from)
        });
        let known: Vec<Timestamp> = known.collect();
        let empty = Block::new(&head.dtypes);
        let stored = buckets::read_sources(c, &head, &ends).await?;
        let changed = refold(c, &head, fold, &empty, beneath, &known).await?;
        Levels::refold(&ends, changed, &stored).put(c, dataset).await?;
    }
    head.read_latest(c).await?;
    head.commit(c, Change::Removal(span), Some(now)).await?;
    Ok(head.state.removed(n_gone))
}

/// Stores copied buckets of rows that were pruned in the source, and the longer buckets computed from
/// them.
pub(super) async fn put_buckets(
    c: &mut PgConnection,
    dataset: DatasetId,
    new: Vec<Bucket>,
    kept_from: Timestamp,
) -> Result<()> {
    let mut head = Head::lock(c, dataset).await?;
    if head.state.newest.is_some() {
        return Err(StoreError::failed(format!("dataset {dataset} has rows and is not a copy")));
    }
    if let Some(first) = new.first().map(|bucket| bucket.timestamp) {
        let stored = buckets::read_sources(c, &head, &[first]).await?;
        let changed = new.into_iter().map(|bucket| (bucket.timestamp, Some(bucket))).collect();
        Levels::refold(&[], changed, &stored).put(c, dataset).await?;
    }
    head.state.kept_from = head.state.kept_from.max(Some(kept_from));
    head.commit(c, Change::Other, None).await
}
