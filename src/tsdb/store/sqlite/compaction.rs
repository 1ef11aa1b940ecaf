//! Making what is old small: chunks of rows are packed, buckets become chunks, and space that is no
//! longer needed goes back to the disk.

use db::statement::Statements as _;
use model::dataset::DatasetId;
use rusqlite::Connection;
use tracing::error;

use super::{
    Result, StoreError, append, buckets, catalog,
    chunks::{self, Chunk},
    scan,
    series::{SETTLED, SeriesId},
};

/// The newest chunks of the whole store, which are left as they came: late rows fall into them more
/// often than into others. Every other one holds new buckets; the rest take some 15 MB.
pub(super) const HOT_CHUNKS: i64 = 512;

/// Free pages that a file keeps for the next rows: 1 MB, as much as 14 000 rows take before they are
/// packed. A file of a million packed rows has 16 MB in use.
const FREE_PAGES_KEPT: i64 = 256;

/// Pages given back in one step, about a megabyte.
const FREE_PAGES_STEP: i64 = 256;

/// Packs the oldest chunk that is not packed yet, unless it is among the newest `n_hot`, and the
/// buckets before it, or lays some late rows over their chunks; whether there may be more.
pub(super) fn step(connection: &Connection, n_hot: i64) -> Result<bool> {
    let before = chunks::newest(connection)?.saturating_sub(n_hot).saturating_add(1);
    let Some((dataset, chunk)) = chunks::unpacked(connection, before)? else {
        return append::settle_some(connection);
    };
    match packed(connection, dataset, chunk) {
        Err(StoreError::Damaged { dataset, source }) => {
            error!(dataset.id = %dataset, chunk.id, error = %source,
                "a chunk of dataset {dataset} is damaged; restore the store from a backup");
            chunks::leave(connection, chunk)?;
        }
        // It was deleted, and goes soon.
        Err(StoreError::NoDataset { .. }) => chunks::leave(connection, chunk)?,
        packed => packed?,
    }
    Ok(true)
}

fn packed(connection: &Connection, dataset: DatasetId, chunk: Chunk) -> Result<()> {
    let empty = scan::empty(connection, dataset)?;
    let mut rows = chunks::read(connection, SeriesId::rows(dataset), chunk, empty)?;
    rows.clear_columns(&catalog::columns(connection, dataset)?);
    chunks::pack(connection, chunk, &rows)?;
    for resolution in SETTLED {
        let before = resolution.bucket_start(chunk.span.first);
        buckets::settle(connection, SeriesId { dataset, resolution }, before)?;
    }
    Ok(())
}

/// Gives some free space back to the disk; whether there may be more.
pub(super) fn shrink(connection: &Connection) -> Result<bool> {
    let n_free: i64 = connection.value("PRAGMA freelist_count", [])?;
    let n_pages = (n_free - FREE_PAGES_KEPT).min(FREE_PAGES_STEP);
    if n_pages <= 0 {
        return Ok(false);
    }
    connection.all(&format!("PRAGMA incremental_vacuum({n_pages})"), [], |_| Ok(()))?;
    // A file that was made without this cannot.
    Ok(connection.value::<i64>("PRAGMA freelist_count", [])? < n_free)
}
