//! Reads rows committed after a certain row, in the order of their row numbers.
//!
//! Row numbers increase over all commits of a store. A row that replaces another row has a new number,
//! so a higher number means a later commit.

use std::collections::HashSet;

use model::block::Block;
use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::chunks::{self, CHUNK_ROWS};
use super::series::SeriesId;
use super::{Result, catalog, progress, tail};
use crate::span::{Order, Span};
use crate::store::Since;
use crate::store::row_batch::lowest_rows;

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
    let mut found = Found { rows: Block::new(&catalog::dtypes(connection, dataset)?), limit };
    let replaced = found.add_tail(connection, dataset, after)?;
    for chunk in touched {
        let rows = chunks::read(connection, series, chunk, found.rows.empty_like())?;
        found.add(&rows, |number, time| number > after && !replaced.contains(&time));
    }
    let is_all = found.rows.len() <= limit;
    Ok(Some(Since { rows: lowest_rows(&found.rows, limit), is_all, revision }))
}

/// Rows found so far. Only the rows with the lowest row numbers are retained.
struct Found {
    rows: Block,
    limit: usize,
}

impl Found {
    /// Adds rows of the tail. Returns the timestamps of all tail rows that replace a row of a chunk.
    fn add_tail(
        &mut self,
        connection: &Connection,
        dataset: DatasetId,
        after: i64,
    ) -> Result<HashSet<Timestamp>> {
        let mut statement = tail::statement(connection, Order::Ascending)?;
        let mut replaced = HashSet::new();
        let mut rows = self.rows.empty_like();
        for row in tail::open(&mut statement, dataset, Span::ALL)? {
            let row = row?;
            row.read_into(dataset, &mut rows)?;
            if row.replaces {
                replaced.insert(row.time);
            }
            // Limits the memory for wide rows.
            if rows.len() == CHUNK_ROWS {
                self.add(&rows, |number, _| number > after);
                rows = rows.empty_like();
            }
        }
        self.add(&rows, |number, _| number > after);
        Ok(replaced)
    }

    /// Adds the rows with a number and a timestamp that `is_wanted` accepts.
    fn add(&mut self, rows: &Block, is_wanted: impl Fn(i64, Timestamp) -> bool) {
        for (row_idx, (number, time)) in rows.ids.iter().zip(&rows.times).enumerate() {
            if is_wanted(*number, *time) {
                self.rows.extend_from(rows, row_idx..row_idx + 1);
            }
        }
        // Retains one row more than the limit, to find out if more rows follow.
        if self.rows.len() > 4 * self.limit + 1 {
            self.rows = lowest_rows(&self.rows, self.limit + 1);
        }
    }
}
