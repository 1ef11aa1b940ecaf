//! Deletion of the rows of a span in one transaction, and of a dataset in two phases: the dataset
//! becomes invisible first, then its space is freed in small steps.

use db::statement::Statements as _;
use model::block::Block;
use model::dataset::DatasetId;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::progress::{self, Progress};
use super::series::SeriesId;
use super::{Result, StoreError, buckets, catalog, chunks, scan, singles};
use crate::span::Span;
use crate::store::session::ready;
use crate::store::{Removed, RowDeletion, records};

/// Number of chunks of a deleted dataset that one step removes. Writers wait for a step, which takes a
/// few milliseconds.
const STEP_RECORDS: i64 = 16;

/// Number of tail rows or single buckets that a step removes instead of one chunk, since they are
/// smaller.
const SMALL_PER_RECORD: i64 = 64;

/// Deletes the stored and archived rows of a span.
pub(super) fn rows(
    connection: &Connection,
    dataset: DatasetId,
    deletion: &RowDeletion,
) -> Result<Removed> {
    let RowDeletion { span, now, .. } = *deletion;
    let mut progress = Progress::read(connection, dataset)?;
    let Some(deletion) = &deletion.archived else {
        if ready(records::has_files(&mut &*connection, dataset, Span::ALL))? {
            return Err(StoreError::ArchiveChanged { dataset });
        }
        return cut(connection, dataset, span, now, None);
    };
    let series = SeriesId::rows(dataset);
    let mut is_changed = progress.state.removed > deletion.revision;
    for (part, n_stored) in &deletion.stored {
        is_changed |= scan::count(connection, series, *part)? != *n_stored;
    }
    if is_changed {
        return Err(StoreError::ArchiveChanged { dataset });
    }
    ready(records::cut(&mut &*connection, dataset, span, deletion, &mut progress.state))?;
    progress.save(connection, dataset)?;
    let mut removed = cut(connection, dataset, span, now, Some(&deletion.beneath.rows))?;
    removed.n_rows = removed.n_rows.saturating_add(deletion.n_rows);
    Ok(removed)
}

/// Deletes the stored rows of a span. `beneath` has the archived rows that remain in the buckets at both
/// ends of the span.
fn cut(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    now: Timestamp,
    beneath: Option<&Block>,
) -> Result<Removed> {
    let mut progress = Progress::read(connection, dataset)?;
    if span.first > span.last {
        return Ok(progress.state.removed(0));
    }
    let series = SeriesId::rows(dataset);
    let n_rows = scan::count(connection, series, span)?;
    singles::remove(connection, series, span)?;
    chunks::cut(connection, series, span, &scan::empty(connection, series)?)?;
    if let Some(fold) = catalog::fold(connection, dataset)? {
        buckets::cut(connection, dataset, fold, span, progress.state.kept_from, beneath)?;
    }
    progress.recount(connection, dataset)?;
    progress.note_removal(connection, dataset, span)?;
    progress.save(connection, dataset)?;
    progress::touch(connection, dataset, now)?;
    Ok(progress.state.removed(n_rows))
}

/// Removes a dataset from the catalog. [`step`] removes its rows later. Returns false if the dataset
/// does not exist.
pub(super) fn dataset(connection: &Connection, dataset: DatasetId) -> Result<bool> {
    if !catalog::forget(connection, dataset)? {
        return Ok(false);
    }
    ready(records::doom(&mut &*connection, dataset))?;
    connection.run("INSERT INTO doomed (dataset) VALUES (?1)", [dataset.get()])?;
    Ok(true)
}

/// Removes some records of a deleted dataset. Returns true if there can be more.
pub(super) fn step(connection: &Connection) -> Result<bool> {
    let doomed = connection.find("SELECT dataset FROM doomed LIMIT 1", [], |row| row.get(0))?;
    let Some::<i64>(doomed) = doomed else { return Ok(false) };
    let mut left = STEP_RECORDS;
    for (sql, small) in [
        ("DELETE FROM chunks WHERE id IN (SELECT id FROM chunks WHERE dataset = ?1 LIMIT ?2)", 1),
        (
            "DELETE FROM tail WHERE dataset = ?1
             AND t IN (SELECT t FROM tail WHERE dataset = ?1 LIMIT ?2)",
            SMALL_PER_RECORD,
        ),
        (
            "DELETE FROM buckets WHERE (dataset, resolution, t) IN
             (SELECT dataset, resolution, t FROM buckets WHERE dataset = ?1 LIMIT ?2)",
            SMALL_PER_RECORD,
        ),
    ] {
        let n_gone = connection.run(sql, [doomed, left * small])?;
        left -= i64::try_from(n_gone).unwrap_or(i64::MAX) / small;
        if left <= 0 {
            return Ok(true);
        }
    }
    connection.run("DELETE FROM doomed WHERE dataset = ?1", [doomed])?;
    Ok(true)
}
