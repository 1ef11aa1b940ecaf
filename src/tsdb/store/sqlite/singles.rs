//! Single records of a series: the rows of the tail, and buckets outside of chunks. A single record
//! replaces the row or bucket of a chunk at the same timestamp.

use db::statement::Statements as _;
use model::block::{Block, Series};
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator as _;
use rusqlite::{CachedStatement, Connection, Row, Rows, params};

use super::Result;
use super::chunks;
use super::series::{SeriesId, code, direction};
use crate::codec::{Packing, decode_body, encode_body};
use crate::span::{Order, Span};

/// Single records of a span that are still to be read.
pub(super) struct Singles<'s> {
    series: SeriesId,
    rows: Rows<'s>,
}

/// Returns the end of a statement that selects the records of a span. [`SeriesId::within`] returns its
/// parameters.
const fn records(series: SeriesId) -> &'static str {
    match series.resolution {
        Resolution::Raw => "FROM tail WHERE dataset = ?1 AND ?2 = 0 AND t BETWEEN ?3 AND ?4",
        _ => "FROM buckets WHERE dataset = ?1 AND resolution = ?2 AND t BETWEEN ?3 AND ?4",
    }
}

/// Prepares the statement that [`open`] executes.
pub(super) fn statement(
    connection: &Connection,
    series: SeriesId,
    order: Order,
) -> Result<CachedStatement<'_>> {
    let columns = match series.resolution {
        Resolution::Raw => "t, replaces, body",
        _ => "t, 0, open, high, low, close, volume, count",
    };
    let (records, direction) = (records(series), direction(order));
    Ok(connection.prepare_cached(&format!("SELECT {columns} {records} ORDER BY t {direction}"))?)
}

/// Reads the records of a span with the prepared [`statement`].
pub(super) fn open<'s>(
    statement: &'s mut CachedStatement<'_>,
    series: SeriesId,
    span: Span,
) -> Result<Singles<'s>> {
    let mut rows = statement.query(series.within(span))?;
    rows.advance()?;
    Ok(Singles { series, rows })
}

impl Singles<'_> {
    /// Appends the next records to `block`, which is complete at `limit` rows, and stops before the first
    /// record at a timestamp that `is_wanted` rejects. Returns the number of appended rows that do not
    /// replace a row of a chunk. For buckets, this is unknown, and all are counted.
    pub(super) fn read_while(
        &mut self,
        block: &mut Block,
        limit: usize,
        is_wanted: impl Fn(Timestamp) -> bool,
    ) -> Result<usize> {
        let mut n_new = 0;
        while block.len() < limit
            && let Some(row) = self.rows.get()
        {
            let time = Timestamp::from_micros(row.get(0)?);
            if !is_wanted(time) {
                break;
            }
            n_new += usize::from(!row.get::<_, bool>(1)?);
            block.times.push(time);
            match self.series.resolution {
                Resolution::Raw => {
                    let body = row.get_ref(2)?.as_blob().map_err(rusqlite::Error::from)?;
                    decode_body(block, 1, body, 0..1, None)
                        .map_err(chunks::damaged(self.series.dataset))?;
                }
                _ => read_bucket(row, block)?,
            }
            self.rows.advance()?;
        }
        Ok(n_new)
    }
}

fn read_bucket(row: &Row<'_>, block: &mut Block) -> Result<()> {
    for (place, series) in (2..).zip(&mut block.columns) {
        match series {
            Series::Float(values) => values.push(row.get(place)?),
            Series::Integer(values) => values.push(row.get(place)?),
            Series::String(_) | Series::Boolean(_) => {}
        }
    }
    Ok(())
}

/// Stores rows in the tail. Returns the number of late rows, which are not after `chunks_end`. `held`
/// has the sorted timestamps of these rows at which chunks already have rows.
pub(super) fn put_rows(
    connection: &Connection,
    dataset: DatasetId,
    block: &Block,
    chunks_end: Option<Timestamp>,
    held: &[Timestamp],
) -> Result<usize> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO tail (dataset, t, replaces, body) VALUES (?1, ?2, ?3, ?4)",
    )?;
    let n_late = chunks_end.map_or(0, |end| block.first_after(end));
    for (row_idx, time) in block.times.iter().enumerate() {
        let replaces = row_idx < n_late && held.binary_search(time).is_ok();
        let body = encode_body(block, row_idx..row_idx + 1, Packing::Quick);
        insert.execute(params![dataset.get(), time.micros(), replaces, body])?;
    }
    Ok(n_late)
}

/// Stores single buckets.
pub(super) fn put_buckets<'a>(
    connection: &Connection,
    SeriesId { dataset, resolution }: SeriesId,
    buckets: impl IntoIterator<Item = &'a Bucket>,
) -> Result<()> {
    let (dataset, resolution) = (dataset.get(), code(resolution));
    for bucket in buckets {
        let Bucket { timestamp, open, high, low, close, volume, count } = *bucket;
        let start = timestamp.micros();
        connection.run(
            "INSERT OR REPLACE INTO buckets
             (dataset, resolution, t, open, high, low, close, volume, count)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![dataset, resolution, start, open, high, low, close, volume, count],
        )?;
    }
    Ok(())
}

/// Returns the timestamps among `times` at which the tail has rows.
pub(super) fn find_times(
    connection: &Connection,
    dataset: DatasetId,
    times: &[Timestamp],
) -> Result<Vec<Timestamp>> {
    if times.is_empty() {
        return Ok(Vec::new());
    }
    let micros: Vec<i64> = times.iter().map(|time| time.micros()).collect();
    // `json_each` passes any number of timestamps as one parameter.
    let sql = "SELECT t FROM tail
         WHERE dataset = ?1 AND t IN (SELECT value FROM json_each(?2))";
    Ok(connection.all(sql, params![dataset.get(), format!("{micros:?}")], time)?)
}

fn time(row: &Row<'_>) -> rusqlite::Result<Timestamp> {
    Ok(Timestamp::from_micros(row.get(0)?))
}

/// Removes and returns the first records of a span, at most `limit`.
pub(super) fn take(
    connection: &Connection,
    series: SeriesId,
    span: Span,
    limit: usize,
    mut empty: Block,
) -> Result<Block> {
    let mut statement = statement(connection, series, Order::Ascending)?;
    open(&mut statement, series, span)?.read_while(&mut empty, limit, |_| true)?;
    if let Some(last) = empty.times.last() {
        remove(connection, series, Span { first: span.first, last: *last })?;
    }
    Ok(empty)
}

/// Removes the records of a span.
pub(super) fn remove(connection: &Connection, series: SeriesId, span: Span) -> Result<()> {
    connection.run(&format!("DELETE {}", records(series)), series.within(span))?;
    Ok(())
}

/// Returns the timestamps of the records of a span that do not replace a row or bucket of a chunk, in
/// ascending order.
pub(super) fn new_times(
    connection: &Connection,
    series: SeriesId,
    span: Span,
) -> Result<Vec<Timestamp>> {
    let is_raw = series.resolution == Resolution::Raw;
    let is_new = if is_raw { "AND replaces = 0" } else { "" };
    let sql = format!("SELECT t {} {is_new} ORDER BY t", records(series));
    let mut times = connection.all(&sql, series.within(span), time)?;
    if !is_raw {
        let held = chunks::find_times(connection, series, &times)?;
        times.retain(|time| held.binary_search(time).is_err());
    }
    Ok(times)
}

/// Returns the number of records of a span.
pub(super) fn count(connection: &Connection, series: SeriesId, span: Span) -> Result<usize> {
    Ok(connection.value(&format!("SELECT count(*) {}", records(series)), series.within(span))?)
}
