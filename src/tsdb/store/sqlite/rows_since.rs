//! Reads rows committed after a certain row, in the order of their row numbers.
//!
//! Row numbers increase over all commits of a store. A row that replaces another row has a new number,
//! so a higher number means a later commit.

use model::dataset::DatasetId;
use rusqlite::Connection;

use super::chunks::{self, CHUNK_ROWS};
use super::series::SeriesId;
use super::{Result, progress, scan, singles};
use crate::span::{Order, Span};
use crate::store::Since;
use crate::store::row_batch::{add_newer, lowest_rows};

/// Maximum number of chunks that are searched: half a million rows, which takes a tenth of a second. A
/// reader that is further behind should download the dataset.
const CHUNKS_MAX: usize = 512;

/// Returns the rows of a dataset with row numbers above `after`, in ascending order and at most `limit`.
/// Returns `None` if the number `after` is unknown or too far back.
pub(super) fn read_since(
    connection: &Connection,
    dataset: DatasetId,
    after: i64,
    limit: usize,
) -> Result<Option<Since>> {
    if !(0..=progress::last_row(connection)?).contains(&after) {
        return Ok(None);
    }
    let touched = chunks::with_rows_after(connection, dataset, after, CHUNKS_MAX + 1)?;
    if touched.len() > CHUNKS_MAX {
        return Ok(None);
    }
    let series = SeriesId::rows(dataset);
    let revision = progress::revision(connection, dataset)?;
    let empty = scan::empty(connection, series)?;
    let mut found = empty.clone();
    let mut replaced = Vec::new();
    let mut statement = singles::statement(connection, series, Order::Ascending)?;
    let mut tail = singles::open(&mut statement, series, Span::ALL)?;
    loop {
        // A chunk's number of rows at a time, which limits the memory for wide rows.
        let mut rows = empty.clone();
        tail.read_while(&mut rows, CHUNK_ROWS, |_| true)?;
        if rows.is_empty() {
            break;
        }
        add_newer(&mut found, &rows, after, &[], limit);
        replaced.append(&mut rows.times);
    }
    for chunk in touched {
        let rows = chunks::read(connection, series, chunk, empty.clone())?;
        add_newer(&mut found, &rows, after, &replaced, limit);
    }
    let is_all = found.len() <= limit;
    Ok(Some(Since { rows: lowest_rows(&found, limit), is_all, revision }))
}
