//! One commit of a dataset in one statement: its state, its entry in the feed, and what an append of rows
//! after all others writes.
//!
//! The statement writes only if the state is still the one that its writer knows. So a writer that does
//! not hold the lock may run it too: either nobody changed or moved the dataset since, or nothing
//! happens.

use model::timestamp::Timestamp;
use sqlx::PgConnection;

use super::{
    Result,
    chunks::SealedLists,
    head::{Head, count},
    singles::BucketLists,
    tail::{RowLists, bounds},
};
use crate::{span::Span, store::series::SeriesId};

/// Late rows in the tail that are worth laying over their chunks. A read takes them all into account, so
/// they cost reads little and spare writers much.
const LATE_MAX: usize = 2048;

/// Buckets written since they were last packed that are worth packing.
const LOOSE_MAX: usize = 4096;

/// The statement. A condition on `locked` keeps each part from happening where the state is another one.
const COMMIT: &str = "
WITH locked AS (
    UPDATE head SET revision = $3, last_row = $4, newest = $5, kept_from = $6,
        n_fresh = $7, n_late = $8, n_loose = $9, updated_at = $10
    WHERE dataset = $1 AND revision = $3 - 1 AND xmin::text::bigint = $2
        AND generation = $35 AND place IS NULL
    RETURNING dataset, xmin::text::bigint AS changed_by
), fed AS (
    INSERT INTO feed (dataset, revision, first_row_id, rows, at)
    SELECT dataset, $3, $4 - $11 + 1, $11, $10 FROM locked
), marked AS (
    INSERT INTO unsettled (dataset) SELECT dataset FROM locked WHERE $12
    ON CONFLICT DO NOTHING
), in_tail AS (
    INSERT INTO tail (dataset, t, id, replaces, body)
    SELECT dataset, s.*
    FROM locked, unnest($13::bigint[], $14::bigint[], $15::boolean[], $16::bytea[]) AS s
    ON CONFLICT (dataset, t) DO UPDATE
    SET id = excluded.id, replaces = excluded.replaces, body = excluded.body
), in_chunks AS (
    INSERT INTO chunks (dataset, resolution, t_first, t_last, n, last_row, times, body)
    SELECT dataset, s.* FROM locked, unnest($17::bigint[], $18::bigint[], $19::bigint[],
        $20::bigint[], $21::bigint[], $22::bytea[], $23::bytea[]) AS s
), replaced AS (
    DELETE FROM buckets WHERE EXISTS (SELECT FROM locked) AND ctid = ANY(ARRAY(
        SELECT single.ctid FROM unnest($24::bigint[], $25::bigint[], $26::bigint[])
            AS s (resolution, first, last)
        CROSS JOIN LATERAL (
            SELECT b.ctid FROM buckets b WHERE b.dataset = $1 AND b.resolution = s.resolution
            AND b.t BETWEEN s.first AND s.last OFFSET 0
        ) AS single))
), in_buckets AS (
    INSERT INTO buckets (dataset, resolution, t, open, high, low, close, volume, count)
    SELECT dataset, s.* FROM locked, unnest($27::bigint[], $28::bigint[], $29::float8[],
        $30::float8[], $31::float8[], $32::float8[], $33::float8[], $34::bigint[]) AS s
    ON CONFLICT (dataset, resolution, t) DO UPDATE SET open = excluded.open,
        high = excluded.high, low = excluded.low, close = excluded.close,
        volume = excluded.volume, count = excluded.count
)
SELECT changed_by FROM locked";

/// What a commit writes besides the state. A statement writes a record once: no single bucket is both
/// replaced and written.
#[derive(Debug, Default)]
pub(super) struct Changes {
    pub(super) tail: RowLists,
    pub(super) chunks: SealedLists,
    /// Single buckets to remove, since `chunks` has them.
    pub(super) replaced: Vec<(SeriesId, Span)>,
    pub(super) buckets: BucketLists,
}

/// Commits `changes` with the state in `head` and `n_rows` new rows; whether the stored state was still
/// the one that `head` was read as. If not, nothing was written, and `head` is of no use any more.
pub(super) async fn commit(
    c: &mut PgConnection,
    head: &mut Head,
    changes: Changes,
    n_rows: usize,
    now: Timestamp,
) -> Result<bool> {
    head.revision += 1;
    let Changes { tail, chunks, replaced, buckets } = changes;
    let (series, spans): (Vec<SeriesId>, Vec<Span>) = replaced.into_iter().unzip();
    let (firsts, lasts) = bounds(&spans);
    let resolutions: Vec<i64> = series.iter().map(|series| series.key().1).collect();
    let changed_by: Option<i64> = sqlx::query_scalar(COMMIT)
        .bind(head.dataset.get())
        .bind(head.changed_by)
        .bind(head.revision.cast_signed())
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
        .fetch_optional(c)
        .await?;
    head.changed_by = changed_by.unwrap_or_default();
    head.updated_at = now;
    Ok(changed_by.is_some())
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
