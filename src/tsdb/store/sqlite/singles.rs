//! The tail: single rows. A row of the tail replaces the row of a chunk at the same timestamp.

use db::statement::Statements as _;
use model::block::Block;
use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use rusqlite::{CachedStatement, Connection, Row, params};

use super::series::direction;
use super::{Result, StoreError};
use crate::codec::{Packing, decode_body, encode_body};
use crate::span::{Order, Span};

/// An encoded row of the tail.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TailRow {
    pub(super) time: Timestamp,
    /// True if a chunk has a row at this timestamp.
    pub(super) replaces: bool,
    body: Vec<u8>,
}

impl TailRow {
    /// Appends the decoded row to `block`.
    pub(super) fn read_into(&self, dataset: DatasetId, block: &mut Block) -> Result<()> {
        block.times.push(self.time);
        decode_body(block, 1, &self.body, 0..1, None)
            .map_err(|source| StoreError::Damaged { dataset, source })
    }
}

/// Prepares the statement that [`open`] executes.
pub(super) fn statement(connection: &Connection, order: Order) -> Result<CachedStatement<'_>> {
    let sql = format!(
        "SELECT t, replaces, body FROM tail WHERE dataset = ?1 AND t BETWEEN ?2 AND ?3 ORDER BY t {}",
        direction(order)
    );
    Ok(connection.prepare_cached(&sql)?)
}

/// Reads the rows of a span from the tail, with the prepared [`statement`].
pub(super) fn open<'s>(
    statement: &'s mut CachedStatement<'_>,
    dataset: DatasetId,
    span: Span,
) -> Result<impl Iterator<Item = rusqlite::Result<TailRow>> + 's> {
    Ok(statement.query_map(bounds(dataset, span), |row| {
        let time = Timestamp::from_micros(row.get(0)?);
        Ok(TailRow { time, replaces: row.get(1)?, body: row.get(2)? })
    })?)
}

/// Stores rows in the tail. Returns the number of late rows, which are not after `chunks_end`. `held`
/// has the sorted timestamps of these rows at which chunks already have rows.
pub(super) fn put(
    connection: &Connection,
    dataset: DatasetId,
    block: &Block,
    chunks_end: Option<Timestamp>,
    held: &[Timestamp],
) -> Result<usize> {
    let mut insert = connection.prepare_cached(
        "INSERT OR REPLACE INTO tail (dataset, t, replaces, body) VALUES (?1, ?2, ?3, ?4)",
    )?;
    let mut n_late = 0;
    for (row_idx, time) in block.times.iter().enumerate() {
        let is_late = chunks_end.is_some_and(|end| *time <= end);
        n_late += usize::from(is_late);
        let replaces = is_late && held.binary_search(time).is_ok();
        let body = encode_body(block, row_idx..row_idx + 1, Packing::Quick);
        insert.execute(params![dataset.get(), time.micros(), replaces, body])?;
    }
    Ok(n_late)
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
    let time = |row: &Row<'_>| Ok(Timestamp::from_micros(row.get(0)?));
    Ok(connection.all(sql, params![dataset.get(), format!("{micros:?}")], time)?)
}

/// Removes and returns the first rows of a span from the tail, at most `limit`.
pub(super) fn take(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    limit: usize,
    empty: Block,
) -> Result<Block> {
    let mut taken = empty;
    {
        let mut statement = statement(connection, Order::Ascending)?;
        for row in open(&mut statement, dataset, span)?.take(limit) {
            row?.read_into(dataset, &mut taken)?;
        }
    }
    if let Some(last) = taken.times.last() {
        remove(connection, dataset, Span { first: span.first, last: *last })?;
    }
    Ok(taken)
}

/// Removes the rows of a span from the tail.
pub(super) fn remove(connection: &Connection, dataset: DatasetId, span: Span) -> Result<()> {
    let sql = "DELETE FROM tail WHERE dataset = ?1 AND t BETWEEN ?2 AND ?3";
    connection.run(sql, bounds(dataset, span))?;
    Ok(())
}

/// Returns the timestamps of the tail rows of a span that do not replace a row of a chunk, in ascending
/// order.
pub(super) fn new_timestamps(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
) -> Result<Vec<Timestamp>> {
    let sql = "SELECT t FROM tail
         WHERE dataset = ?1 AND t BETWEEN ?2 AND ?3 AND replaces = 0 ORDER BY t";
    let time = |row: &Row<'_>| Ok(Timestamp::from_micros(row.get(0)?));
    Ok(connection.all(sql, bounds(dataset, span), time)?)
}

/// Returns the number of tail rows of a span.
pub(super) fn count(connection: &Connection, dataset: DatasetId, span: Span) -> Result<usize> {
    let sql = "SELECT count(*) FROM tail WHERE dataset = ?1 AND t BETWEEN ?2 AND ?3";
    Ok(connection.value(sql, bounds(dataset, span))?)
}

fn bounds(dataset: DatasetId, span: Span) -> [i64; 3] {
    [dataset.get(), span.first.micros(), span.last.micros()]
}
