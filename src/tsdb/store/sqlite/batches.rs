//! Removal of old records of named batches.

use db::statement::Statements as _;
use rusqlite::Connection;

use super::Result;
use crate::store::batch::{KEPT_MICROS, PER_WRITER_MAX};

/// Maximum number of records that one step removes. Writers wait for a step, which takes some
/// milliseconds.
const STEP_BATCHES: i64 = 256;

/// Removes some old records of batches of one writer: the writer with the lowest number above `after`.
/// Returns the number to pass as `after` to the next call, or `None` if there is no such writer.
pub(super) fn trim(connection: &Connection, after: i64) -> Result<Option<i64>> {
    let next = "SELECT writer FROM batches WHERE writer > ?1 ORDER BY writer LIMIT 1";
    let found = connection.find(next, [after], |row| row.get(0))?;
    let Some::<i64>(writer) = found else { return Ok(None) };
    let n_gone = connection.run(
        "DELETE FROM batches WHERE writer = ?1
         AND n < (SELECT min(n) FROM batches WHERE writer = ?1) + ?2
         AND (at < CAST(unixepoch('subsec') * 1000000 AS INTEGER) - ?3
             OR n <= (SELECT max(n) FROM batches WHERE writer = ?1) - ?4)",
        [writer, STEP_BATCHES, KEPT_MICROS, PER_WRITER_MAX],
    )?;
    Ok(Some(if n_gone > 0 { after } else { writer }))
}
