//! The rows committed after a certain one, in the order of their numbers.
//!
//! Row numbers count up through all commits of a dataset, and a row that replaces another gets a new one,
//! so that "after number n" means "committed after it".

use std::collections::HashSet;

use model::{block::Block, dataset::DatasetId, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    Result, catalog, chunks,
    cold::{self, Fetched},
    place::{At, Place},
    tail,
};
use crate::store::{
    Since,
    series::{ALL, SeriesId},
};

/// Chunks that are looked through at most: half a million rows. A reader that has missed more does better
/// to download it.
const CHUNKS_MAX: i64 = 512;

/// Bytes of chunks in objects that are fetched for it at most, which are in memory at once: twice what so
/// many chunks of numbers have.
const FETCHED_BYTES_MAX: i64 = 48 << 20;

/// The rows of a dataset with numbers above `after`, the lowest first, at most `limit`; none if that
/// number is not known, or too far back.
pub(super) async fn read_since(
    c: &mut PgConnection,
    dataset: DatasetId,
    after: i64,
    limit: usize,
    fetched: &Fetched,
) -> Result<Option<Since>> {
    let (revision, empty) = catalog::columns(c, dataset).await?;
    let (last, n_chunks): (i64, i64) = sqlx::query_as(
        "SELECT last_row, (SELECT count(*) FROM (SELECT FROM chunks
             WHERE dataset = $1 AND last_row > $2 AND resolution = 0 LIMIT $3) AS touched)
         FROM head WHERE dataset = $1",
    )
    .bind(dataset.get())
    .bind(after)
    .bind(CHUNKS_MAX + 1)
    .fetch_one(&mut *c)
    .await?;
    if !(0..=last).contains(&after) || n_chunks > CHUNKS_MAX {
        return Ok(None);
    }
    let left = CHUNKS_MAX - n_chunks;
    let in_objects = cold::since(c, dataset, after, left + 1).await?;
    let n_bytes: i64 = in_objects.iter().map(Place::n_bytes_fetched).sum();
    if i64::try_from(in_objects.len()).is_ok_and(|n| n > left) || n_bytes > FETCHED_BYTES_MAX {
        return Ok(None);
    }
    let mut found = tail::read_after(c, &empty, dataset, after).await?;
    let replaced: HashSet<Timestamp> = found.times.iter().copied().collect();
    let sql = "SELECT id, t_first, t_last, n FROM chunks
         WHERE dataset = $1 AND last_row > $2 AND resolution = 0";
    let hot: Vec<(i64, i64, i64, i64)> =
        sqlx::query_as(sql).bind(dataset.get()).bind(after).fetch_all(&mut *c).await?;
    let hot = hot.into_iter().map(|columns| Place::new(columns, At::Table));
    cold::require(dataset, &in_objects, fetched)?;
    for chunk in in_objects.into_iter().map(Ok).chain(hot) {
        let chunk = chunks::read_one(c, SeriesId::rows(dataset), chunk?, fetched).await?;
        let mut rows = empty.clone();
        chunk.decode(dataset, ALL, &mut rows, None)?;
        for (row_idx, (number, time)) in rows.ids.iter().zip(&rows.times).enumerate() {
            if *number > after && !replaced.contains(time) {
                found.extend_from(&rows, row_idx..row_idx + 1);
            }
        }
        // One row more than wanted tells that there are more.
        if found.len() > 4 * limit + 1 {
            found = lowest(&found, limit + 1);
        }
    }
    let is_all = found.len() <= limit;
    Ok(Some(Since { rows: lowest(&found, limit), is_all, revision }))
}

/// The rows with the lowest numbers, in the order of these.
fn lowest(rows: &Block, limit: usize) -> Block {
    let mut order: Vec<usize> = (0..rows.len()).collect();
    order.sort_by_key(|row_idx| rows.ids.get(*row_idx).copied());
    let mut lowest = rows.empty_like();
    for row_idx in order.into_iter().take(limit) {
        lowest.extend_from(rows, row_idx..row_idx + 1);
    }
    lowest
}
