//! Records of the archive in writes of rows.

use db::statement::Statements as _;
use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;
use rusqlite::{Connection, Row};

use super::progress::Progress;
use super::{Result, StoreError, series};
use crate::archive::month::Month;
use crate::span::Span;
use crate::store::archived::{
    ArchivedFile, ArchivedMonth, Beneath, DOOMED, FileState, IN_EFFECT, RowDeletion,
};

/// Length of the buckets that are folded from rows.
const FINEST: Resolution = Resolution::FiveMinutes;

/// Current time in microseconds, by the clock of the engine.
pub(super) const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

/// Checks that an append of late rows includes the archived rows beneath them.
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
    let start = FINEST.bucket_start(first);
    let is_after = progress.archived_until.is_none_or(|until| until <= start);
    if is_after { Ok(()) } else { Err(StoreError::ArchiveChanged { dataset }) }
}

/// Checks that the archived rows of a write are from the files in effect.
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

/// Returns the archived months that touch a span.
pub(super) fn months(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
) -> Result<Vec<ArchivedMonth>> {
    let files = "SELECT month, stamp, key, rows, bytes, sha256, tail_bytes, tail_crc, first, last,
         last_row, columns, written, state FROM archived
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state < 2
         ORDER BY month, state DESC, changed";
    let cuts = "SELECT month, first, last FROM archived_cuts
         WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3";
    let cut = |row: &Row<'_>| {
        let [month, first, last] = [time(row, 0)?, time(row, 1)?, time(row, 2)?];
        Ok((Month::of(month), Span { first, last }))
    };
    let key = bounds(dataset, span);
    Ok(ArchivedMonth::group(connection.all(files, key, file)?, connection.all(cuts, key, cut)?))
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

/// Prunes the archived months that end before `before`, in a separate commit. Returns the number of
/// their rows, or `None` if there are no such months.
pub(super) fn prune(
    connection: &Connection,
    dataset: DatasetId,
    progress: &mut Progress,
    before: Timestamp,
) -> Result<Option<u64>> {
    let start = Month::of(before).start();
    let key = [dataset.get(), start.micros()];
    let sql = format!(
        "UPDATE archived SET state = {DOOMED}, changed = {NOW}
         WHERE dataset = ?1 AND month < ?2 AND state = {IN_EFFECT} RETURNING rows, last"
    );
    let files: Vec<(u64, i64)> = connection.all(&sql, key, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if files.is_empty() {
        return Ok(None);
    }
    connection.run("DELETE FROM archived_cuts WHERE dataset = ?1 AND month < ?2", key)?;
    for (_, last) in &files {
        let bucket = FINEST.bucket_start(Timestamp::from_micros(*last));
        let end = Timestamp::from_micros(series::span(FINEST, bucket).last.micros() + 1);
        progress.kept_from = progress.kept_from.max(Some(end));
    }
    progress.newest_archived = progress.newest_archived.filter(|newest| *newest >= start);
    progress.note_removal(connection, dataset)?;
    progress.save(connection, dataset)?;
    Ok(Some(files.iter().fold(0, |n_rows, (n, _)| n_rows.saturating_add(*n))))
}

/// Returns true if a month that touches a span has a file in effect.
pub(super) fn has_files(connection: &Connection, dataset: DatasetId, span: Span) -> Result<bool> {
    let sql = "SELECT EXISTS (
         SELECT 1 FROM archived WHERE dataset = ?1 AND month BETWEEN ?2 AND ?3 AND state = 1)";
    Ok(connection.value(sql, bounds(dataset, span))?)
}

/// Marks all files of a deleted dataset for deletion.
pub(super) fn doom(connection: &Connection, dataset: DatasetId) -> Result<()> {
    connection.run("DELETE FROM archived_cuts WHERE dataset = ?1", [dataset.get()])?;
    let sql = format!("UPDATE archived SET state = 2, changed = {NOW} WHERE dataset = ?1");
    connection.run(&sql, [dataset.get()])?;
    Ok(())
}

/// Returns the dataset and the starts of the months at both ends of a span.
fn bounds(dataset: DatasetId, span: Span) -> [i64; 3] {
    let month = |timestamp| Month::of(timestamp).start().micros();
    [dataset.get(), month(span.first), month(span.last)]
}

fn time(row: &Row<'_>, idx: usize) -> rusqlite::Result<Timestamp> {
    row.get(idx).map(Timestamp::from_micros)
}

fn file(row: &Row<'_>) -> rusqlite::Result<(ArchivedFile, FileState)> {
    let file = ArchivedFile {
        month: Month::of(time(row, 0)?),
        stamp: row.get(1)?,
        key: row.get(2)?,
        n_rows: row.get(3)?,
        n_bytes: row.get(4)?,
        sha256: row.get(5)?,
        tail_bytes: row.get(6)?,
        tail_crc: row.get(7)?,
        rows: Span { first: time(row, 8)?, last: time(row, 9)? },
        last_row: row.get(10)?,
        columns: row.get(11)?,
        written: time(row, 12)?,
    };
    Ok((file, row.get(13)?))
}
