//! Appends and removes rows and updates their buckets. Each write is one transaction.

use model::block::{Block, Series};
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use sqlx::PgConnection;

use super::buckets::{self, Levels};
use super::head::{Change, Head};
use super::time::{EARLIEST, Time, bounds};
use super::{Result, StoreError, batches, binary, reads};
use crate::archive::month::Month;
use crate::catalog::Refusal;
use crate::rollup::{Fold, Folding, Refolded, as_stored};
use crate::span::Span;
use crate::store::archived::{Beneath, RowDeletion};
use crate::store::{Append, AppendMode, Appended, Removed, records, series};

/// Resolution that is folded from rows.
const FINEST: Resolution = Resolution::FiveMinutes;

/// Appends `rows`, sorted by unique timestamp. Sets their numbers and, unless they are copies, their
/// creation times.
pub(super) async fn append(
    c: &mut PgConnection,
    dataset: DatasetId,
    append: Append,
    beneath: Option<Beneath>,
) -> Result<(Appended, Block)> {
    let Append { mode, mut rows, now, batches } = append;
    let mut head = Head::lock(c, dataset).await?;
    let is_after = check(&head, &rows)?;
    let n_folded = head.kept_from.map_or(0, |kept_from| rows.first_not_before(kept_from));
    if let Some(kept_from) = head.kept_from
        && n_folded > 0
        && !(is_after && mode == AppendMode::Copy)
    {
        return Err(StoreError::Pruned { kept_from });
    }
    if let Some(first) = rows.times.first().filter(|_| !is_after) {
        records::check_beneath(c, dataset, *first, head.archived_until, beneath.as_ref()).await?;
    }
    let empty = Block::new(&head.dtypes);
    let beneath = beneath.as_ref().map_or(&empty, |beneath| &beneath.rows);
    if mode == AppendMode::Merge && !is_after {
        let stored = reads::rows_at(c, &head, &rows.times).await?;
        rows.fill(&beneath.merge(&stored));
    }
    if mode != AppendMode::Copy {
        rows.created = vec![now; rows.len()];
    }
    if !rows.is_empty() {
        store(c, &mut head, &mut rows, Layers { is_after, n_folded, beneath }).await?;
        head.commit(c, Change::Rows { rows: &rows, is_after }, Some(now)).await?;
    }
    batches::put(c, dataset, &batches, head.revision).await?;
    Ok((head.appended(&rows), rows))
}

/// Checks that rows can be stored. Returns true if they come after all stored rows.
fn check(head: &Head, rows: &Block) -> Result<bool> {
    let Some(first) = rows.times.first().copied() else { return Ok(true) };
    let mut texts = rows.columns.iter().filter_map(Series::texts).flatten().flatten();
    if first < EARLIEST || texts.any(|text| text.contains('\0')) {
        return Err(Refusal::Unstorable.into());
    }
    Ok(head.latest.is_none_or(|latest| latest < first))
}

/// Position of new rows relative to existing rows.
#[derive(Debug, Clone, Copy)]
struct Layers<'a> {
    /// True if they come after all stored rows.
    is_after: bool,
    /// Number of rows at the start that the copied buckets already contain.
    n_folded: usize,
    /// Archived rows in the same buckets, which stored rows replace.
    beneath: &'a Block,
}

/// Stores rows and the buckets they change.
async fn store(
    c: &mut PgConnection,
    head: &mut Head,
    rows: &mut Block,
    Layers { is_after, n_folded, beneath }: Layers<'_>,
) -> Result<()> {
    let folded = rows.part(n_folded..rows.len());
    let levels = match head.fold {
        Some(fold) if is_after => extend(c, head, fold, &folded).await?,
        Some(fold) => rebuild(c, head, fold, &folded, beneath).await?,
        None => Levels::default(),
    };
    if let Some(latest) = head.latest.filter(|_| !is_after) {
        let late = rows.times.get(..rows.first_after(latest)).unwrap_or_default();
        let sql = "DELETE FROM datasets.rows WHERE dataset = $1 AND ts = ANY($2)";
        let late: Vec<Time> = late.iter().copied().map(Time).collect();
        sqlx::query(sql).bind(head.dataset.get()).bind(late).execute(&mut *c).await?;
    }
    head.number(rows);
    binary::copy_rows(c, head.dataset, rows).await?;
    levels.put(c, head).await?;
    head.latest = head.latest.max(rows.times.last().copied());
    Ok(())
}

/// Folds rows that come after all stored rows onto the stored buckets.
async fn extend(c: &mut PgConnection, head: &Head, fold: Fold, rows: &Block) -> Result<Levels> {
    let Some(first) = rows.times.first().copied() else { return Ok(Levels::default()) };
    let stored = buckets::read_sources(c, head, &[first]).await?;
    let start = FINEST.bucket_start(first);
    let last = stored.finest.iter().find(|bucket| bucket.timestamp == start).copied();
    let folded = fold.buckets(rows, FINEST, last).into_iter().map(as_stored);
    let changed = folded.map(|bucket| (bucket.timestamp, Some(bucket))).collect();
    Ok(Levels::refold(&[], changed, &stored))
}

/// Folds the buckets that contain `rows`, which are not stored yet. `rows` take precedence over stored
/// rows, which take precedence over `beneath`.
pub(super) async fn rebuild(
    c: &mut PgConnection,
    head: &Head,
    fold: Fold,
    rows: &Block,
    beneath: &Block,
) -> Result<Levels> {
    let stored = buckets::read_sources(c, head, &rows.times).await?;
    let changed = refold(c, head, fold, rows, beneath, &rows.times).await?;
    Ok(Levels::refold(&rows.times, changed, &stored))
}

/// Folds the buckets of five minutes that contain `times` from `beneath`, the stored rows and `rows`, in
/// ascending precedence.
async fn refold(
    c: &mut PgConnection,
    head: &Head,
    fold: Fold,
    rows: &Block,
    beneath: &Block,
    times: &[Timestamp],
) -> Result<Refolded> {
    let mut starts: Vec<Timestamp> = times.iter().map(|time| FINEST.bucket_start(*time)).collect();
    starts.dedup();
    let known = starts.iter().filter(|start| head.latest.is_some_and(|latest| **start <= latest));
    let spans: Vec<Span> = known.map(|start| series::span(FINEST, *start)).collect();
    let mut stored = reads::numbers_within(c, head, &spans).await?;
    if !beneath.is_empty() {
        stored = beneath.merge(&stored);
    }
    let mut folding = Folding::new(fold, FINEST, None);
    folding.add(&stored, Some((rows, 0..rows.len())));
    let folded = folding.finish();
    let changed = |start: Timestamp| {
        let found = folded.binary_search_by_key(&start, |bucket: &Bucket| bucket.timestamp);
        (start, found.ok().and_then(|idx| folded.get(idx)).copied().map(as_stored))
    };
    Ok(starts.into_iter().map(changed).collect())
}

/// Prunes rows before `before`, at most `limit_rows`.
pub(super) async fn prune(
    c: &mut PgConnection,
    dataset: DatasetId,
    before: Timestamp,
    limit_rows: usize,
) -> Result<Removed> {
    let mut head = Head::lock(c, dataset).await?;
    // Prunes whole buckets only, since the rest of a bucket could not be folded correctly later.
    let mut before = FINEST.bucket_start(before);
    if head.archived_until.is_some() {
        if let Some(pruned) = records::prune(c, dataset, before).await? {
            head.kept_from = head.kept_from.max(pruned.kept_from);
            head.newest_archived.take_if(|newest| *newest < pruned.until);
            head.read_latest(c).await?;
            head.commit(c, Change::Other, None).await?;
            return Ok(head.removed(pruned.n_rows));
        }
        // In an archived month that remains, pruned rows would no longer replace the archived rows.
        let month = Month::of(before);
        if records::has_files(c, dataset, month.span()).await? {
            before = month.start();
        }
    }
    let found: Option<(Time,)> = sqlx::query_as(
        "SELECT ts FROM datasets.rows WHERE dataset = $1 AND ts < $2 ORDER BY ts OFFSET $3 LIMIT 1",
    )
    .bind(dataset.get())
    .bind(Time(before))
    .bind(i64::try_from(limit_rows).unwrap_or(i64::MAX))
    .fetch_optional(&mut *c)
    .await?;
    let bound = found.map_or(before, |(Time(bound),)| bound);
    let (n_gone, last_gone): (i64, Option<Time>) = sqlx::query_as(
        "WITH gone AS (DELETE FROM datasets.rows WHERE dataset = $1 AND ts < $2 RETURNING ts)
         SELECT count(*), max(ts) FROM gone",
    )
    .bind(dataset.get())
    .bind(Time(bound))
    .fetch_one(&mut *c)
    .await?;
    let Some(Time(last_gone)) = last_gone else { return Ok(head.removed(0)) };
    // The limit is the end of the last bucket that lost a row, not `before`. If `before` results from a
    // wrong date in the data, correct rows would be rejected.
    let end = series::bucket_end(FINEST, last_gone);
    head.kept_from = head.kept_from.max(Some(end.min(before)));
    head.latest = head.latest.filter(|latest| *latest >= bound).max(head.newest_archived);
    head.commit(c, Change::Other, None).await?;
    Ok(head.removed(n_gone.unsigned_abs()))
}

/// Deletes the rows of a span of a dataset without archived rows.
pub(super) async fn delete_rows(
    c: &mut PgConnection,
    dataset: DatasetId,
    span: Span,
    now: Timestamp,
) -> Result<Removed> {
    let head = Head::lock(c, dataset).await?;
    if head.archived_until.is_some() && records::has_files(c, dataset, Span::ALL).await? {
        return Err(StoreError::ArchiveChanged { dataset });
    }
    let beneath = Block::new(&head.dtypes);
    delete(c, head, span, now, &beneath).await
}

pub(super) async fn delete_over(
    c: &mut PgConnection,
    dataset: DatasetId,
    deletion: RowDeletion,
) -> Result<Removed> {
    let mut head = Head::lock(c, dataset).await?;
    let mut is_changed = head.removed > deletion.revision;
    for (part, n_stored) in &deletion.stored {
        let (first, last) = bounds(*part);
        let sql = "SELECT count(*) FROM datasets.rows WHERE dataset = $1 AND ts BETWEEN $2 AND $3";
        let count = sqlx::query_scalar(sql).bind(dataset.get()).bind(first).bind(last);
        let n_rows: i64 = count.fetch_one(&mut *c).await?;
        is_changed |= n_rows != n_stored.cast_signed();
    }
    if is_changed {
        return Err(StoreError::ArchiveChanged { dataset });
    }
    records::check_stamps(c, dataset, &deletion.beneath).await?;
    records::cut(c, dataset, &deletion).await?;
    head.newest_archived = deletion.newest_archived;
    let RowDeletion { span, now, .. } = deletion;
    let mut removed = delete(c, head, span, now, &deletion.beneath.rows).await?;
    removed.n_rows = removed.n_rows.saturating_add(deletion.n_rows);
    Ok(removed)
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
        return Ok(head.removed(0));
    }
    let (first, last) = bounds(span);
    let sql = "DELETE FROM datasets.rows WHERE dataset = $1 AND ts BETWEEN $2 AND $3";
    let deleted = sqlx::query(sql).bind(dataset.get()).bind(first).bind(last);
    let n_gone = deleted.execute(&mut *c).await?.rows_affected();
    if let Some(fold) = head.fold {
        buckets::delete_within(c, dataset, span).await?;
        let ends = [span.first.max(EARLIEST), span.last.max(EARLIEST)];
        // Buckets of pruned rows cannot be folded again.
        let known = ends.into_iter().filter(|end| {
            head.kept_from.is_none_or(|kept_from| FINEST.bucket_start(*end) >= kept_from)
        });
        let known: Vec<Timestamp> = known.collect();
        let empty = Block::new(&head.dtypes);
        let stored = buckets::read_sources(c, &head, &ends).await?;
        let changed = refold(c, &head, fold, &empty, beneath, &known).await?;
        Levels::refold(&ends, changed, &stored).put(c, &head).await?;
    }
    head.read_latest(c).await?;
    head.commit(c, Change::Other, Some(now)).await?;
    Ok(head.removed(n_gone))
}

/// Stores buckets of rows that were pruned in the source of a copy, with the longer buckets that are
/// folded from them.
pub(super) async fn put_buckets(
    c: &mut PgConnection,
    dataset: DatasetId,
    new: Vec<Bucket>,
    kept_from: Timestamp,
) -> Result<()> {
    let mut head = Head::lock(c, dataset).await?;
    if head.latest.is_some() {
        return Err(StoreError::failed(format!("dataset {dataset} has rows and is not a copy")));
    }
    if let Some(first) = new.first().map(|bucket| bucket.timestamp) {
        let stored = buckets::read_sources(c, &head, &[first]).await?;
        let changed = new.into_iter().map(|bucket| (bucket.timestamp, Some(bucket))).collect();
        Levels::refold(&[], changed, &stored).put(c, &head).await?;
    }
    head.kept_from = head.kept_from.max(Some(kept_from));
    head.commit(c, Change::Other, None).await
}
