//! Chunks: long runs of rows or of old buckets.

use std::ops::Range;

use db::statement::Statements as _;
use model::block::Block;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use rusqlite::{Connection, Row, params};

use super::series::{SeriesId, bucket_end, direction};
use super::tables::checked_id;
use super::{Result, StoreError};
use crate::codec::{DecodeError, Packing, decode_rows, decode_times, encode};
use crate::span::{Order, Span, just_after};

/// Number of rows of a new chunk. It is large enough that the overhead of a chunk is small and a day of
/// one-minute rows needs only two chunks, and small enough that reading a single row decodes little.
pub(super) const CHUNK_ROWS: usize = 1024;

/// Number of rows at which a chunk that has grown by late rows is split.
const SPLIT_ROWS: usize = 2 * CHUNK_ROWS;

/// Minimum number of rows of a new chunk. Fewer rows remain in the tail.
pub(super) const CHUNK_ROWS_MIN: usize = CHUNK_ROWS / 2;

/// Value of the column `packed` for a chunk of new buckets. [`join`] packs such chunks once they are old.
const NEW_BUCKETS: i64 = 3;

/// Index entry of a chunk, with everything except its content.
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

pub(super) fn damaged(dataset: DatasetId) -> impl Fn(DecodeError) -> StoreError {
    move |source| StoreError::Damaged { dataset, source }
}

/// Returns the last chunk.
fn last(connection: &Connection, series: SeriesId) -> Result<Option<Chunk>> {
    let sql = "SELECT id, t_first, t_last, n FROM chunks
         WHERE dataset = ?1 AND resolution = ?2 ORDER BY t_last DESC LIMIT 1";
    Ok(connection.find(sql, series.key(), chunk)?)
}

/// Returns the last timestamp of the last chunk.
pub(super) fn end(connection: &Connection, series: SeriesId) -> Result<Option<Timestamp>> {
    Ok(last(connection, series)?.map(|chunk| chunk.span.last))
}

/// Returns the first timestamp after all chunks, the last of which ends at `end`.
pub(super) fn fresh_from(end: Option<Timestamp>) -> Timestamp {
    end.map_or(Timestamp::MIN, just_after)
}

/// Returns the first chunk that ends at `timestamp` or later.
pub(super) fn ending_from(
    connection: &Connection,
    series: SeriesId,
    timestamp: Timestamp,
) -> Result<Option<Chunk>> {
    let (dataset, resolution) = series.key();
    Ok(connection.find(
        "SELECT id, t_first, t_last, n FROM chunks
         WHERE dataset = ?1 AND resolution = ?2 AND t_last >= ?3 ORDER BY t_last LIMIT 1",
        [dataset, resolution, timestamp.micros()],
        chunk,
    )?)
}

/// Passes each chunk into which some of `timestamps` fall, which are sorted, with their indices to
/// `visit`. Timestamps between two chunks fall into the later chunk. Stops at a timestamp after all
/// chunks, or if `visit` returns false. Returns the number of timestamps that were passed.
fn covering(
    connection: &Connection,
    series: SeriesId,
    timestamps: &[Timestamp],
    mut visit: impl FnMut(Chunk, Range<usize>) -> Result<bool>,
) -> Result<usize> {
    let mut start = 0;
    while let Some(first) = timestamps.get(start)
        && let Some(chunk) = ending_from(connection, series, *first)?
    {
        let end = timestamps.partition_point(|timestamp| *timestamp <= chunk.span.last);
        if !visit(chunk, start..end)? {
            break;
        }
        start = end;
    }
    Ok(start)
}

/// Returns the timestamps among `timestamps`, which are sorted, at which chunks have rows. Reads each
/// chunk once.
pub(super) fn find_times(
    connection: &Connection,
    series: SeriesId,
    timestamps: &[Timestamp],
) -> Result<Vec<Timestamp>> {
    let mut held = Vec::new();
    covering(connection, series, timestamps, |chunk, range| {
        let here = timestamps.get(range).unwrap_or_default();
        if here.last().is_some_and(|last| *last >= chunk.span.first) {
            let times = times(connection, series.dataset, chunk)?;
            held.extend(here.iter().filter(|timestamp| times.binary_search(timestamp).is_ok()));
        }
        Ok(true)
    })?;
    Ok(held)
}

/// Passes the chunks that overlap `span` to `visit`, in `order`, until `visit` returns false.
///
/// A damaged index can end the walk too early. Therefore the last chunk is also looked up in the
/// opposite direction, so that missing rows cause an error.
pub(super) fn touching(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    order: Order,
    visit: &mut dyn FnMut(Chunk) -> Result<bool>,
) -> Result<()> {
    let ends = match order {
        Order::Ascending => (span.first.micros(), i64::MAX),
        // The end needs no lookup, since no chunk begins after the maximum timestamp.
        Order::Descending if span.last == Timestamp::MAX => (span.first.micros(), i64::MAX),
        Order::Descending => {
            let last = ending_from(connection, series, span.last)?;
            (span.first.micros(), last.map_or(i64::MAX, |last| last.span.last.micros()))
        }
    };
    let sql = format!(
        "SELECT id, t_first, t_last, n FROM chunks
         WHERE dataset = ?1 AND resolution = ?2 AND t_last BETWEEN ?3 AND ?4 ORDER BY t_last {}",
        direction(order)
    );
    let mut statement = connection.prepare_cached(&sql)?;
    let (dataset, resolution) = series.key();
    let mut rows = statement.query([dataset, resolution, ends.0, ends.1])?;
    let mut last = None;
    while let Some(row) = rows.next()? {
        let chunk = chunk(row)?;
        last = Some(chunk.span.last);
        if chunk.span.first > span.last {
            match order {
                Order::Ascending => return Ok(()),
                Order::Descending => continue,
            }
        }
        // The walk ends here, since later chunks are outside of the span.
        let is_last = order == Order::Ascending && chunk.span.last >= span.last;
        if !visit(chunk)? || is_last {
            return Ok(());
        }
    }
    let want = match order {
        Order::Ascending => end(connection, series)?.filter(|end| *end >= span.first),
        Order::Descending => {
            ending_from(connection, series, span.first)?.map(|chunk| chunk.span.last)
        }
    };
    if last == want { Ok(()) } else { Err(damaged(series.dataset)(DecodeError::MISSING)) }
}

/// Returns at most `limit` chunks of raw rows, each with at least one row number above `after`.
pub(super) fn with_rows_after(
    connection: &Connection,
    dataset: DatasetId,
    after: i64,
    limit: usize,
) -> Result<Vec<Chunk>> {
    Ok(connection.all(
        "SELECT id, t_first, t_last, n FROM chunks WHERE dataset = ?1 AND last_row > ?2 AND resolution = 0
         LIMIT ?3",
        params![dataset.get(), after, limit],
        chunk,
    )?)
}

/// Returns the timestamps of the rows of a chunk.
pub(super) fn times(
    connection: &Connection,
    dataset: DatasetId,
    chunk: Chunk,
) -> Result<Vec<Timestamp>> {
    let sql = "SELECT times, x'' FROM chunks WHERE id = ?1";
    show(connection, sql, dataset, chunk, |times, _| Ok(times.to_vec()))
}

/// Passes the timestamps and the encoded body of a chunk to `read`.
pub(super) fn open<T>(
    connection: &Connection,
    dataset: DatasetId,
    chunk: Chunk,
    read: impl FnOnce(&[Timestamp], &[u8]) -> Result<T, DecodeError>,
) -> Result<T> {
    show(connection, "SELECT times, body FROM chunks WHERE id = ?1", dataset, chunk, read)
}

fn show<T>(
    connection: &Connection,
    sql: &str,
    dataset: DatasetId,
    chunk: Chunk,
    read: impl FnOnce(&[Timestamp], &[u8]) -> Result<T, DecodeError>,
) -> Result<T> {
    let shown = connection.find(sql, [chunk.id], |row| {
        let (times, body) = (row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        Ok(decode_times(times, chunk.n).and_then(|times| {
            let ends = times.first().zip(times.last());
            if ends != Some((&chunk.span.first, &chunk.span.last)) {
                return Err(DecodeError::MISSING);
            }
            read(&times, body)
        }))
    })?;
    shown.unwrap_or(Err(DecodeError::MISSING)).map_err(damaged(dataset))
}

/// Reads a whole chunk into a block with the columns of `empty`.
pub(super) fn read(
    connection: &Connection,
    series: SeriesId,
    chunk: Chunk,
    empty: Block,
) -> Result<Block> {
    let mut block = empty;
    open(connection, series.dataset, chunk, |times, body| {
        decode_rows(&mut block, times, body, 0..times.len(), None)
    })?;
    Ok(block)
}

/// Writes `block`, whose rows come after all chunks, as chunks of about [`CHUNK_ROWS`] rows. New chunks of
/// buckets are later joined by [`join`].
pub(super) fn append(connection: &Connection, series: SeriesId, block: &Block) -> Result<()> {
    insert_all(connection, series, block, true)
}

/// Returns the latest consecutive chunks of buckets that are new or short and end before `before`, in
/// ascending order.
pub(super) fn new_before(
    connection: &Connection,
    series: SeriesId,
    before: Timestamp,
) -> Result<Vec<Chunk>> {
    let mut statement = connection.prepare_cached(
        "SELECT id, t_first, t_last, n, packed FROM chunks
         WHERE dataset = ?1 AND resolution = ?2 AND t_last < ?3 ORDER BY t_last DESC",
    )?;
    let (dataset, resolution) = series.key();
    let mut rows = statement.query([dataset, resolution, before.micros()])?;
    let mut found = Vec::new();
    while let Some(row) = rows.next()? {
        let chunk = chunk(row)?;
        if chunk.n >= CHUNK_ROWS_MIN && row.get::<_, i64>(4)? != NEW_BUCKETS {
            break;
        }
        found.push(chunk);
    }
    found.reverse();
    Ok(found)
}

/// Joins consecutive chunks and writes their buckets as packed chunks.
pub(super) fn join(
    connection: &Connection,
    series: SeriesId,
    chunks: &[Chunk],
    mut joined: Block,
) -> Result<()> {
    for chunk in chunks {
        let rows = read(connection, series, *chunk, joined.empty_like())?;
        joined.extend_from(&rows, 0..rows.len());
    }
    // Removes the chunks after all of them could be read.
    for chunk in chunks {
        remove(connection, *chunk)?;
    }
    insert_all(connection, series, &joined, false)
}

/// Writes the rows of `block` as chunks of about equal length. See [`insert`] for `is_new`.
pub(super) fn insert_all(
    connection: &Connection,
    series: SeriesId,
    block: &Block,
    is_new: bool,
) -> Result<()> {
    let n = block.len();
    let n_chunks = ((n + CHUNK_ROWS / 2) / CHUNK_ROWS).max(1);
    for chunk_idx in 0..n_chunks {
        let rows = n * chunk_idx / n_chunks..n * (chunk_idx + 1) / n_chunks;
        insert(connection, series, block, rows, is_new)?;
    }
    Ok(())
}

/// Returns true if `timestamps`, which are sorted, fall into at most `limit` chunks.
pub(super) fn are_within(
    connection: &Connection,
    series: SeriesId,
    timestamps: &[Timestamp],
    limit: usize,
) -> Result<bool> {
    let mut n = 0;
    covering(connection, series, timestamps, |_, _| {
        n += 1;
        Ok(n <= limit)
    })?;
    Ok(n <= limit)
}

/// Merges `late` rows into the chunks into which their timestamps fall. No row may come after the last
/// chunk.
pub(super) fn overlay(connection: &Connection, series: SeriesId, late: &Block) -> Result<()> {
    let n_merged = covering(connection, series, &late.times, |chunk, rows| {
        let under = read(connection, series, chunk, late.empty_like())?;
        let merged = under.merge(&late.part(rows));
        remove(connection, chunk)?;
        if merged.len() < SPLIT_ROWS {
            insert(connection, series, &merged, 0..merged.len(), false)?;
        } else {
            insert_all(connection, series, &merged, false)?;
        }
        Ok(true)
    })?;
    if n_merged == late.len() { Ok(()) } else { Err(damaged(series.dataset)(DecodeError::MISSING)) }
}

/// Removes the rows of a span from chunks. The remaining rows of an affected chunk become new chunks.
pub(super) fn cut(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    empty: &Block,
) -> Result<()> {
    let mut touched = Vec::new();
    touching(connection, series, span, Order::Ascending, &mut |chunk| {
        touched.push(chunk);
        Ok(true)
    })?;
    for chunk in touched {
        let mut rows = empty.clone();
        if chunk.span.first < span.first || span.last < chunk.span.last {
            rows = read(connection, series, chunk, rows)?;
        }
        remove(connection, chunk)?;
        insert(connection, series, &rows, 0..rows.first_not_before(span.first), false)?;
        insert(connection, series, &rows, rows.first_after(span.last)..rows.len(), false)?;
    }
    Ok(())
}

/// Returns the oldest unpacked chunk of rows that is not one of the latest `n_hot` chunks.
pub(super) fn unpacked(connection: &Connection, n_hot: i64) -> Result<Option<(DatasetId, Chunk)>> {
    Ok(connection.find(
        "SELECT id, t_first, t_last, n, dataset FROM chunks
         WHERE packed = 0 AND id <= (SELECT max(id) FROM chunks) - ?1 ORDER BY id LIMIT 1",
        [n_hot],
        |row| Ok((checked_id(row.get(4)?)?, chunk(row)?)),
    )?)
}

/// Packs a chunk of rows, which retains its id and its rows.
pub(super) fn pack(connection: &Connection, chunk: Chunk, rows: &Block) -> Result<()> {
    let packed = encode(rows, 0..rows.len(), Packing::Small);
    let sql = "UPDATE chunks SET times = ?2, body = ?3, packed = 1 WHERE id = ?1";
    connection.run(sql, params![chunk.id, packed.times, packed.body])?;
    Ok(())
}

/// Marks a chunk that cannot be read, so that the maintenance does not try to pack it again.
pub(super) fn leave(connection: &Connection, chunk: Chunk) -> Result<()> {
    connection.run("UPDATE chunks SET packed = 2 WHERE id = ?1", [chunk.id])?;
    Ok(())
}

/// Removes chunks that end before `timestamp`, beginning with the oldest chunk, with about `limit_rows`
/// rows at most. Returns the number of removed rows and the latest of their timestamps.
pub(super) fn remove_before(
    connection: &Connection,
    series: SeriesId,
    timestamp: Timestamp,
    limit_rows: usize,
) -> Result<(usize, Option<Timestamp>)> {
    let (mut old, mut n_rows): (Vec<Chunk>, usize) = (Vec::new(), 0);
    while n_rows < limit_rows
        && let from = old.last().map_or(Timestamp::MIN, |last| just_after(last.span.last))
        && let Some(chunk) = ending_from(connection, series, from)?
        && chunk.span.last < timestamp
    {
        n_rows += chunk.n;
        old.push(chunk);
    }
    let newest = old.last().map(|chunk| chunk.span.last);
    for chunk in old {
        remove(connection, chunk)?;
    }
    Ok((n_rows, newest))
}

/// Returns the timestamp before which to prune, so that the remaining rows fit into `n_bytes`. The latest
/// chunk always remains. Returns `None` if all chunks fit.
///
/// Adds up the sizes of the chunks, beginning with the latest chunk, until they exceed `n_bytes`. The
/// chunk that exceeds the limit and all earlier chunks are to be pruned. Since pruning removes whole
/// chunks and whole buckets of five minutes, the timestamp is the end of the bucket in which this chunk
/// ends.
pub(super) fn newest_within(
    connection: &Connection,
    series: SeriesId,
    n_bytes: u64,
) -> Result<Option<Timestamp>> {
    let mut statement = connection.prepare_cached(
        "SELECT t_last, length(times) + length(body) FROM chunks
         WHERE dataset = ?1 AND resolution = ?2 ORDER BY t_last DESC",
    )?;
    let mut rows = statement.query(series.key())?;
    let mut n_newest = 0_u64;
    let mut is_newest = true;
    while let Some(row) = rows.next()? {
        n_newest = n_newest.saturating_add(row.get(1)?);
        if n_newest > n_bytes && !is_newest {
            let last = Timestamp::from_micros(row.get(0)?);
            return Ok(Some(bucket_end(Resolution::FiveMinutes, last)));
        }
        is_newest = false;
    }
    Ok(None)
}

fn remove(connection: &Connection, chunk: Chunk) -> Result<()> {
    connection.run("DELETE FROM chunks WHERE id = ?1", [chunk.id])?;
    Ok(())
}

/// Writes a chunk of rows. Raw rows are packed later, since most late rows fall into new chunks, and so
/// are new buckets, since a writer waits for them.
fn insert(
    connection: &Connection,
    series: SeriesId,
    block: &Block,
    rows: Range<usize>,
    is_new: bool,
) -> Result<()> {
    let timestamps = block.times.get(rows.clone()).unwrap_or_default();
    let (Some(first), Some(last)) = (timestamps.first(), timestamps.last()) else { return Ok(()) };
    let n = rows.len();
    let (packing, packed) = match series.resolution {
        Resolution::Raw => (Packing::Quick, 0),
        _ if is_new => (Packing::Quick, NEW_BUCKETS),
        _ => (Packing::Small, 1),
    };
    let encoded = encode(block, rows.clone(), packing);
    let last_row = block.ids.get(rows).and_then(|ids| ids.iter().max().copied());
    let (dataset, resolution) = series.key();
    connection.run(
        "INSERT INTO chunks (dataset, resolution, t_first, t_last, n, packed, last_row, times, body)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            dataset,
            resolution,
            first.micros(),
            last.micros(),
            n,
            packed,
            last_row.unwrap_or_default(),
            encoded.times,
            encoded.body
        ],
    )?;
    Ok(())
}
