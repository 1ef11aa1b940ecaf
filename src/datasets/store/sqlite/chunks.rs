//! Chunks in their table: the long runs of rows.

use std::ops::Range;

use model::{dataset::DatasetId, timestamp::Timestamp};
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::StoreError;
use crate::{
    block::{
        Block,
        codec::{DecodeError, decode_into, decode_times, encode},
    },
    query::{Order, Span},
};

/// Rows of a new chunk. Long enough that the columns dominate and a day of minutes is two chunks,
/// short enough that a page out of one decodes little.
pub(super) const CHUNK_ROWS: usize = 1024;

/// Rows from which a chunk that late rows made longer is split.
const SPLIT_ROWS: usize = 2 * CHUNK_ROWS;

/// Where a chunk is and what it covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Chunk {
    pub(super) id: i64,
    pub(super) span: Span,
    pub(super) n: usize,
}

fn chunk(row: &Row<'_>) -> rusqlite::Result<Chunk> {
    let span = Span {
        first: Timestamp::from_micros(row.get(1)?),
        last: Timestamp::from_micros(row.get(2)?),
    };
    Ok(Chunk { id: row.get(0)?, span, n: row.get(3)? })
}

fn damaged(dataset: DatasetId) -> impl Fn(DecodeError) -> StoreError {
    move |source| StoreError::Damaged { dataset, source }
}

/// The moment at which the last chunk ends.
pub(super) fn end(
    connection: &Connection,
    dataset: DatasetId,
) -> Result<Option<Timestamp>, StoreError> {
    let mut statement = connection
        .prepare_cached("SELECT max(t_last) FROM chunks WHERE dataset = ?1 AND resolution = 0")?;
    let end: Option<i64> = statement.query_row([dataset.get()], |row| row.get(0))?;
    Ok(end.map(Timestamp::from_micros))
}

/// The first chunk that ends at `moment` or after it.
pub(super) fn ending_from(
    connection: &Connection,
    dataset: DatasetId,
    moment: Timestamp,
) -> Result<Option<Chunk>, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT id, t_first, t_last, n FROM chunks
         WHERE dataset = ?1 AND resolution = 0 AND t_last >= ?2 ORDER BY t_last LIMIT 1",
    )?;
    Ok(statement.query_row(params![dataset.get(), moment.micros()], chunk).optional()?)
}

/// Shows `visit` the chunks that touch `span`, in order, until it says no.
pub(super) fn touching(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    order: Order,
    visit: &mut dyn FnMut(Chunk) -> Result<bool, StoreError>,
) -> Result<(), StoreError> {
    let ends = match order {
        Order::Ascending => (span.first.micros(), i64::MAX),
        Order::Descending => {
            let last = ending_from(connection, dataset, span.last)?;
            (span.first.micros(), last.map_or(i64::MAX, |last| last.span.last.micros()))
        }
    };
    let sql = match order {
        Order::Ascending => {
            "SELECT id, t_first, t_last, n FROM chunks
             WHERE dataset = ?1 AND resolution = 0 AND t_last BETWEEN ?2 AND ?3 ORDER BY t_last"
        }
        Order::Descending => {
            "SELECT id, t_first, t_last, n FROM chunks
             WHERE dataset = ?1 AND resolution = 0 AND t_last BETWEEN ?2 AND ?3
             ORDER BY t_last DESC"
        }
    };
    let mut statement = connection.prepare_cached(sql)?;
    let mut rows = statement.query(params![dataset.get(), ends.0, ends.1])?;
    while let Some(row) = rows.next()? {
        let chunk = chunk(row)?;
        if chunk.span.first > span.last {
            match order {
                Order::Ascending => return Ok(()),
                Order::Descending => continue,
            }
        }
        if !visit(chunk)? {
            return Ok(());
        }
    }
    Ok(())
}

/// How many rows of a span are in chunks.
pub(super) fn count(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
) -> Result<u64, StoreError> {
    let mut statement = connection.prepare_cached(
        "SELECT coalesce(sum(n), 0) FROM chunks
         WHERE dataset = ?1 AND resolution = 0 AND t_last BETWEEN ?2 AND ?3 AND t_first >= ?2",
    )?;
    let whole: u64 = statement
        .query_row(params![dataset.get(), span.first.micros(), span.last.micros()], |row| {
            row.get(0)
        })?;
    // At most two chunks lie across a bound.
    let mut edges = Vec::new();
    for bound in [span.first, span.last] {
        if let Some(chunk) = ending_from(connection, dataset, bound)?
            && chunk.span.first <= span.last
            && (chunk.span.first < span.first || chunk.span.last > span.last)
            && !edges.contains(&chunk)
        {
            edges.push(chunk);
        }
    }
    let mut count = whole;
    for chunk in edges {
        let n = within(&times(connection, dataset, chunk)?, span).len();
        count = count.saturating_add(u64::try_from(n).unwrap_or(u64::MAX));
    }
    Ok(count)
}

/// The places of the moments that lie in `span`.
pub(super) fn within(times: &[Timestamp], span: Span) -> Range<usize> {
    let start = times.partition_point(|time| *time < span.first);
    let end = times.partition_point(|time| *time <= span.last);
    start..end.max(start)
}

/// The moments of a chunk's rows.
pub(super) fn times(
    connection: &Connection,
    dataset: DatasetId,
    chunk: Chunk,
) -> Result<Vec<Timestamp>, StoreError> {
    let mut statement = connection.prepare_cached("SELECT times FROM chunks WHERE id = ?1")?;
    let mut rows = statement.query([chunk.id])?;
    let Some(row) = rows.next()? else { return Ok(Vec::new()) };
    let bytes = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    decode_times(bytes).map_err(damaged(dataset))
}

/// Adds `rows` of a chunk, whose moments are `times`, to `block`.
pub(super) fn read_into(
    connection: &Connection,
    dataset: DatasetId,
    chunk: Chunk,
    times: &[Timestamp],
    rows: Range<usize>,
    block: &mut Block,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare_cached("SELECT body FROM chunks WHERE id = ?1")?;
    let mut found = statement.query([chunk.id])?;
    let Some(row) = found.next()? else { return Ok(()) };
    let body = row.get_ref(0)?.as_blob().map_err(rusqlite::Error::from)?;
    decode_into(block, times, body, rows).map_err(damaged(dataset))
}

/// Writes all whole chunks of `block`, which comes after every chunk there is; how many rows of it
/// that were.
pub(super) fn append(
    connection: &Connection,
    dataset: DatasetId,
    block: &Block,
) -> Result<usize, StoreError> {
    let mut start = 0;
    while block.len() - start >= CHUNK_ROWS {
        insert(connection, dataset, block, start..start + CHUNK_ROWS)?;
        start += CHUNK_ROWS;
    }
    Ok(start)
}

/// Lays `late` over the chunks that cover its moments. Each of its rows is at the end of the last
/// chunk or before it.
pub(super) fn overlay(
    connection: &Connection,
    dataset: DatasetId,
    late: &Block,
) -> Result<(), StoreError> {
    let mut start = 0;
    while let Some(moment) = late.times.get(start) {
        let Some(chunk) = ending_from(connection, dataset, *moment)? else {
            return Err(StoreError::NoDataset { dataset });
        };
        let end = late.first_after(chunk.span.last);
        let times = times(connection, dataset, chunk)?;
        let mut under = late.empty_like();
        read_into(connection, dataset, chunk, &times, 0..times.len(), &mut under)?;
        let merged = under.merged(&late.part(start..end));
        remove(connection, chunk)?;
        let mut from = 0;
        while merged.len() - from >= SPLIT_ROWS {
            insert(connection, dataset, &merged, from..from + CHUNK_ROWS)?;
            from += CHUNK_ROWS;
        }
        insert(connection, dataset, &merged, from..merged.len())?;
        start = end;
    }
    Ok(())
}

/// Removes chunks that end before `moment`, oldest first, at most about `limit_rows` rows; how many
/// rows that were.
pub(super) fn remove_before(
    connection: &Connection,
    dataset: DatasetId,
    moment: Timestamp,
    limit_rows: usize,
) -> Result<usize, StoreError> {
    let span = Span { first: Timestamp::MIN, last: moment };
    let mut old = Vec::new();
    let mut n_rows = 0;
    touching(connection, dataset, span, Order::Ascending, &mut |chunk| {
        if chunk.span.last >= moment || n_rows >= limit_rows {
            return Ok(false);
        }
        n_rows += chunk.n;
        old.push(chunk);
        Ok(true)
    })?;
    for chunk in old {
        remove(connection, chunk)?;
    }
    Ok(n_rows)
}

fn remove(connection: &Connection, chunk: Chunk) -> Result<(), StoreError> {
    connection.prepare_cached("DELETE FROM chunks WHERE id = ?1")?.execute([chunk.id])?;
    Ok(())
}

fn insert(
    connection: &Connection,
    dataset: DatasetId,
    block: &Block,
    rows: Range<usize>,
) -> Result<(), StoreError> {
    let n = rows.len();
    let (Some(first), Some(last)) = (block.times.get(rows.start), block.times.get(rows.end - 1))
    else {
        return Ok(());
    };
    let encoded = encode(block, rows);
    connection
        .prepare_cached(
            "INSERT INTO chunks (dataset, resolution, t_first, t_last, n, times, body)
             VALUES (?1, 0, ?2, ?3, ?4, ?5, ?6)",
        )?
        .execute(params![
            dataset.get(),
            first.micros(),
            last.micros(),
            n,
            encoded.times,
            encoded.body
        ])?;
    Ok(())
}
