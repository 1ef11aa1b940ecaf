//! Files of the archive, as their records have them.

use db::statement::Statements as _;
use model::{dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use rusqlite::{Connection, Row};

use super::{Result, StoreError, progress::Progress};
use crate::{
    archive::month::Month,
    span::Span,
    store::archived::{ArchivedFile, ArchivedMonth, Beneath, RowDeletion},
};

/// State of a file that is being written.
pub(super) const ANNOUNCED: i64 = 0;

/// State of the file of a month.
pub(super) const IN_EFFECT: i64 = 1;

/// State of a file that is to be deleted.
pub(super) const DOOMED: i64 = 2;

/// Current time in microseconds, by the engine's clock.
pub(super) const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

/// Checks that an append of late rows comes with the archived rows beneath them.
pub(super) fn check_beneath(
    connection: &Connection,
    dataset: DatasetId,
    progress: &Progress,
    first: Timestamp,
    beneath: Option<&Beneath>,
) -> Result<()> {
    if let Some(beneath) = beneath {
        return check_stamps(connection, dataset, beneath);
    }
    let start = Resolution::FiveMinutes.bucket_start(first);
    let is_after = progress.archived_until.is_none_or(|until| until <= start);
    if is_after { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset }) }
}

/// Checks that the archived rows of a write are those of the files in effect.
pub(super) fn check_stamps(
    connection: &Connection,
    dataset: DatasetId,
    Beneath { span, stamps, .. }: &Beneath,
) -> Result<()> {
    let sql = "SELECT stamp FROM archived
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state = 1 ORDER BY month";
    let found: Vec<i64> = connection.all(sql, bounds(dataset, *span), |row| row.get(0))?;
    if found == *stamps { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset }) }
}

/// The archived months that touch a span.
pub(super) fn months(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
) -> Result<Vec<ArchivedMonth>> {
    let mut months: Vec<ArchivedMonth> = Vec::new();
    let sql = "SELECT month, stamp, key, rows, bytes, sha256, tail_bytes, tail_crc, first, last,
         last_row, columns, written, state FROM archived
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state < 2
         ORDER BY month, state DESC, changed";
    for (file, state) in connection.all(sql, bounds(dataset, span), file)? {
        match months.last_mut().filter(|month| month.file.month == file.month) {
            Some(month) => month.next.push(file),
            None if state == IN_EFFECT => {
                months.push(ArchivedMonth { file, next: Vec::new(), cuts: Vec::new() });
            }
            // It is written for the first time, and its rows are in the store.
            None => {}
        }
    }
    let sql = "SELECT first, last FROM archived_cuts WHERE dataset = ?1 AND month = ?2";
    for month in &mut months {
        let key = [dataset.get(), month.file.month.start().micros()];
        month.cuts = connection.all(sql, key, |row| {
            let (first, last) = (row.get(0)?, row.get(1)?);
            let (first, last) = (Timestamp::from_micros(first), Timestamp::from_micros(last));
            Ok(Span { first, last })
        })?;
    }
    Ok(months)
}

/// Records the span of a deletion in the months that it touches.
pub(super) fn cut(
    connection: &Connection,
    dataset: DatasetId,
    deletion: &RowDeletion,
) -> Result<()> {
    let RowDeletion { span, stamp, .. } = deletion;
    let sql = "UPDATE archived SET stamp = ?4 WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3
         AND state = 1";
    let [id, first, last] = bounds(dataset, *span);
    connection.run(sql, [id, first, last, *stamp])?;
    let sql = "INSERT OR IGNORE INTO archived_cuts (dataset, month, first, last)
         SELECT DISTINCT dataset, month, ?4, ?5 FROM archived
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state < 2";
    connection.run(sql, [id, first, last, span.first.micros(), span.last.micros()])?;
    Ok(())
}

/// Returns true if a dataset has archived months.
pub(super) fn has_files(connection: &Connection, dataset: DatasetId) -> Result<bool> {
    let sql = "SELECT EXISTS (SELECT 1 FROM archived WHERE dataset = ?1 AND state = 1)";
    Ok(connection.value(sql, [dataset.get()])?)
}

/// Leaves all files of a deleted dataset to be deleted.
pub(super) fn doom(connection: &Connection, dataset: DatasetId) -> Result<()> {
    connection.run("DELETE FROM archived_cuts WHERE dataset = ?1", [dataset.get()])?;
    let sql = format!("UPDATE archived SET state = 2, changed = {NOW} WHERE dataset = ?1");
    connection.run(&sql, [dataset.get()])?;
    Ok(())
}

/// The dataset and the first microseconds of the months of the ends of a span.
fn bounds(dataset: DatasetId, span: Span) -> [i64; 3] {
    let month = |timestamp| Month::of(timestamp).start().micros();
    [dataset.get(), month(span.first), month(span.last)]
}

fn file(row: &Row<'_>) -> rusqlite::Result<(ArchivedFile, i64)> {
    let timestamp = |micros| Timestamp::from_micros(micros);
    let file = ArchivedFile {
        month: Month::of(timestamp(row.get(0)?)),
        stamp: row.get(1)?,
        key: row.get(2)?,
        n_rows: row.get(3)?,
        n_bytes: row.get(4)?,
        sha256: row.get(5)?,
        tail_bytes: row.get(6)?,
        tail_crc: row.get(7)?,
        rows: Span { first: timestamp(row.get(8)?), last: timestamp(row.get(9)?) },
        last_row: row.get(10)?,
        columns: row.get(11)?,
        written: timestamp(row.get(12)?),
    };
    Ok((file, row.get(13)?))
}
