//! One commit of a dataset in one statement: its state, its entry in the feed, and what an append of rows
//! after all others writes.
//!
//! The statement writes only if the state is still the one that its writer knows. So a writer that does
//! not hold the lock may run it too: either nobody changed or moved the dataset since, or nothing
//! happens.

use model::timestamp::Timestamp;
use sqlx::{AssertSqlSafe, PgConnection, error::DatabaseError};

use super::{
    Result, StoreError,
    batches::{self, BatchLists},
    chunks::SealedLists,
    commits,
    head::{Head, count},
    singles::BucketLists,
    tail::{RowLists, bounds},
};
use crate::{
    span::Span,
    store::{Removal, series::SeriesId},
};

/// Late rows in the tail that are worth laying over their chunks. A read takes them all into account, so
/// they cost reads little and spare writers much.
const LATE_MAX: usize = 2048;

/// Buckets written since they were last packed that are worth packing.
const LOOSE_MAX: usize = 4096;

/// The code of the error with which the statement fails where a batch is stored already.
const DIVISION_BY_ZERO: &str = "22012";

/// The statement. A condition on `locked` keeps each part from happening where the state is another one.
/// The division undoes all of it where a batch is stored already, since it fails then.
fn statement() -> String {
    let named = batches::insert("EXISTS (SELECT FROM locked)");
    format!(
        "WITH locked AS (
             UPDATE head SET revision = $2, last_row = $8, newest = $9, kept_from = $10,
                 n_fresh = $11, n_late = $12, n_loose = $13, updated_at = $14
             WHERE dataset = $1 AND revision = $2 - 1 AND xmin::text::bigint = $7
                 AND generation = $39 AND place IS NULL
             RETURNING dataset, xmin::text::bigint AS changed_by
         ), fed AS (
             INSERT INTO feed (dataset, revision, first_row_id, rows, removed, removed_first,
                 removed_last, at)
             SELECT dataset, $2, $8 - $15 + 1, $15, $40, $41, $42, $14 FROM locked
         ), marked AS (
             INSERT INTO unsettled (dataset) SELECT dataset FROM locked WHERE $16
             ON CONFLICT DO NOTHING
         ), named AS (
             {named}
             RETURNING batch
         ), in_tail AS (
             INSERT INTO tail (dataset, t, id, replaces, body)
             SELECT dataset, s.*
             FROM locked, unnest($17::bigint[], $18::bigint[], $19::boolean[], $20::bytea[]) AS s
             ON CONFLICT (dataset, t) DO UPDATE
             SET id = excluded.id, replaces = excluded.replaces, body = excluded.body
         ), in_chunks AS (
             INSERT INTO chunks (dataset, resolution, t_first, t_last, n, last_row, times, body)
             SELECT dataset, s.* FROM locked, unnest($21::bigint[], $22::bigint[], $23::bigint[],
                 $24::bigint[], $25::bigint[], $26::bytea[], $27::bytea[]) AS s
         ), replaced AS (
             DELETE FROM buckets WHERE EXISTS (SELECT FROM locked) AND ctid = ANY(ARRAY(
                 SELECT single.ctid FROM unnest($28::bigint[], $29::bigint[], $30::bigint[])
                     AS s (resolution, first, last)
                 CROSS JOIN LATERAL (
                     SELECT b.ctid FROM buckets b WHERE b.dataset = $1 AND b.resolution = s.resolution
                     AND b.t BETWEEN s.first AND s.last OFFSET 0
                 ) AS single))
         ), in_buckets AS (
             INSERT INTO buckets (dataset, resolution, t, open, high, low, close, volume, count)
             SELECT dataset, s.* FROM locked, unnest($31::bigint[], $32::bigint[], $33::float8[],
                 $34::float8[], $35::float8[], $36::float8[], $37::float8[], $38::bigint[]) AS s
             ON CONFLICT (dataset, resolution, t) DO UPDATE SET open = excluded.open,
                 high = excluded.high, low = excluded.low, close = excluded.close,
                 volume = excluded.volume, count = excluded.count
         )
         SELECT changed_by / (SELECT count(*) = cardinality($3) FROM named)::int FROM locked"
    )
}

/// What a commit writes besides the state. A statement writes a record once: no single bucket is both
/// replaced and written.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// The batches that the rows are.
    pub(super) batches: BatchLists,
    pub(super) tail: RowLists,
    pub(super) chunks: SealedLists,
    /// Single buckets to remove, since `chunks` has them.
    pub(super) replaced: Vec<(SeriesId, Span)>,
    pub(super) buckets: BucketLists,
    /// Which rows are removed, if the commit is that of a removal.
    pub(super) removal: Option<Removal>,
}

/// Commits `changes` with the state in `head` and `n_rows` new rows; whether the stored state was still
/// the one that `head` was read as. If not, nothing was written, and `head` is of no use any more.
///
/// # Errors
/// [`StoreError::BatchStored`] if one of its batches was stored before; then nothing was written, too.
pub(super) async fn commit(
    c: &mut PgConnection,
    head: &mut Head,
    changes: Changes,
    n_rows: usize,
    now: Timestamp,
) -> Result<bool> {
    head.revision += 1;
    let Changes { batches, tail, chunks, replaced, buckets, removal } = changes;
    let removed_span = match removal {
        Some(Removal::Span(span)) => Some(span),
        Some(Removal::Old) | None => None,
    };
    let (series, spans): (Vec<SeriesId>, Vec<Span>) = replaced.into_iter().unzip();
    let (firsts, lasts) = bounds(&spans);
    let resolutions: Vec<i64> = series.iter().map(|series| series.key().1).collect();
    let changed_by: Option<i64> = sqlx::query_scalar(AssertSqlSafe(statement()))
        .bind(head.dataset.get())
        .bind(head.revision.cast_signed())
        .bind(batches.writers)
        .bind(batches.keys)
        .bind(batches.rows)
        .bind(batches.digests)
        .bind(head.changed_by)
        .bind(head.last_row)
        .bind(head.newest.map(Timestamp::micros))
        .bind(head.kept_from.map(Timestamp::micros))
        .bind(count(head.n_fresh))
        .bind(count(head.n_late))
        .bind(count(head.n_loose))
        .bind(now.micros())
        .bind(count(n_rows))
        .bind(head.n_late >= LATE_MAX || head.n_loose >= LOOSE_MAX)
        .bind(tail.times)
        .bind(tail.ids)
        .bind(tail.replaces)
        .bind(tail.bodies)
        .bind(chunks.resolutions)
        .bind(chunks.firsts)
        .bind(chunks.lasts)
        .bind(chunks.lengths)
        .bind(chunks.last_rows)
        .bind(chunks.times)
        .bind(chunks.bodies)
        .bind(resolutions)
        .bind(firsts)
        .bind(lasts)
        .bind(buckets.resolutions)
        .bind(buckets.times)
        .bind(buckets.opens)
        .bind(buckets.highs)
        .bind(buckets.lows)
        .bind(buckets.closes)
        .bind(buckets.volumes)
        .bind(buckets.counts)
        .bind(head.generation)
        .bind(removal.map(commits::removal_name))
        .bind(removed_span.map(|span| span.first.micros()))
        .bind(removed_span.map(|span| span.last.micros()))
        .fetch_optional(c)
        .await
        .map_err(refused)?;
    head.changed_by = changed_by.unwrap_or_default();
    head.updated_at = now;
    Ok(changed_by.is_some())
}

/// What it means that the statement failed.
fn refused(error: sqlx::Error) -> StoreError {
    match error.as_database_error().and_then(DatabaseError::code) {
        Some(code) if code == DIVISION_BY_ZERO => StoreError::BatchStored,
        _ => error.into(),
    }
}

impl Head {
    /// Counts one commit more, of `n_rows` new rows, and saves the state with what the commit writes.
    /// The row is locked.
    pub(super) async fn commit(
        &mut self,
        c: &mut PgConnection,
        changes: Changes,
        n_rows: usize,
        now: Timestamp,
    ) -> Result<()> {
        let is_done = commit(c, self, changes, n_rows, now).await?;
        if is_done { Ok(()) } else { Err(sqlx::Error::RowNotFound.into()) }
    }
}
