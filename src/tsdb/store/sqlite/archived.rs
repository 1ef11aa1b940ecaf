//! Records of the archive: the trait of its engine, and checks and changes of records in other
//! writes.

use std::time::Duration;

use db::statement::Statements as _;
use futures::future::{BoxFuture, FutureExt as _};
use model::{block::Block, dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use rusqlite::{Connection, Row, params};

use super::{
    Result, SqliteStore, StoreError, append, catalog, chunks,
    progress::Progress,
    scan,
    series::{self, SeriesId},
    tables::checked_id,
    tail,
};
use crate::{
    archive::month::Month,
    span::Span,
    store::{
        Append, Appended, OnCommit, OnRemoval,
        archived::{
            ANNOUNCED, ArchiveCommit, ArchiveRecords, ArchivedFile, ArchivedMonth, Beneath, DOOMED,
            FileState, IN_EFFECT, RowDeletion,
        },
    },
};

/// Length of the buckets that are folded from rows.
const FINEST: Resolution = Resolution::FiveMinutes;

/// Current time in microseconds, by the clock of the engine.
const NOW: &str = "CAST(unixepoch('subsec') * 1000000 AS INTEGER)";

impl ArchiveRecords for SqliteStore {
    fn append_over(
        &self,
        dataset: DatasetId,
        append: Append,
        beneath: Beneath,
        on_commit: OnCommit,
    ) -> BoxFuture<'_, Result<Appended>> {
        self.append_rows(dataset, append, Some(beneath), on_commit)
    }

    fn delete_over(
        &self,
        dataset: DatasetId,
        deletion: RowDeletion,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<u64>> {
        let work =
            move |connection: &Connection| super::delete::over(connection, dataset, &deletion);
        async move { Ok(self.writer.run(work, on_commit).await?.n_rows) }.boxed()
    }

    fn archived(&self, dataset: DatasetId, span: Span) -> Result<Vec<ArchivedMonth>> {
        self.readers.read(|connection| months(connection, dataset, span))
    }

    fn has_archive(&self) -> Result<bool> {
        self.readers
            .read(|connection| Ok(connection.value("SELECT EXISTS (SELECT 1 FROM archived)", [])?))
    }

    fn last_row(&self, _: DatasetId) -> Result<i64> {
        let sql = "SELECT value FROM counters WHERE name = 'row'";
        self.readers.read(|connection| Ok(connection.value(sql, [])?))
    }

    fn lease_archive(&self, holder: i64, length: Duration) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| {
            let sql = format!(
                "INSERT INTO archive_lease (id, holder, until) VALUES (1, ?1, {NOW} + ?2)
                 ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until = excluded.until
                 WHERE holder = ?1 OR until <= {NOW}"
            );
            Ok(connection.run(&sql, [holder, micros(length)])? == 1)
        })
    }

    fn announce_file(
        &self,
        dataset: DatasetId,
        file: ArchivedFile,
        holder: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| {
            if !has_lease(connection, holder)? {
                return Ok(false);
            }
            // The key is used again.
            let sql = "DELETE FROM archived WHERE dataset = ?1 AND month = ?2 AND state = 2";
            connection.run(sql, [dataset.get(), file.month.start().micros()])?;
            insert(connection, dataset, &file)?;
            Ok(true)
        })
    }

    fn commit_file(&self, commit: ArchiveCommit, holder: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| {
            Ok(has_lease(connection, holder)? && put_into_effect(connection, &commit)?)
        })
    }

    fn doomed_file(&self, grace: Duration) -> Result<Option<(DatasetId, String)>> {
        let sql = format!(
            "SELECT dataset, key FROM archived doomed
             WHERE state <> 1 AND changed <= {NOW} - ?1 AND NOT EXISTS
             (SELECT 1 FROM archived other WHERE other.dataset = doomed.dataset
              AND other.key = doomed.key AND (other.state = 1 OR other.changed > {NOW} - ?1))
             LIMIT 1"
        );
        self.readers.read(|connection| {
            Ok(connection
                .find(&sql, [micros(grace)], |row| Ok((checked_id(row.get(0)?)?, row.get(1)?)))?)
        })
    }

    fn forget_file(&self, dataset: DatasetId, key: String) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| {
            let sql = "DELETE FROM archived WHERE dataset = ?1 AND key = ?2 AND state <> 1";
            connection.run(sql, params![dataset.get(), key])?;
            Ok(())
        })
    }
}

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn has_lease(connection: &Connection, holder: i64) -> Result<bool> {
    let found: Option<i64> =
        connection.find("SELECT holder FROM archive_lease", [], |row| row.get(0))?;
    Ok(found == Some(holder))
}

fn insert(connection: &Connection, dataset: DatasetId, file: &ArchivedFile) -> Result<()> {
    let sql = format!(
        "INSERT INTO archived (dataset, month, stamp, state, changed, key, rows, bytes, sha256,
         tail_bytes, tail_crc, first, last, last_row, columns, written)
         VALUES (?1, ?2, ?3, {ANNOUNCED}, {NOW}, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
    );
    connection.run(
        &sql,
        params![
            dataset.get(),
            file.month.start().micros(),
            file.stamp,
            file.key,
            file.n_rows,
            file.n_bytes,
            file.sha256,
            file.tail_bytes,
            file.tail_crc,
            file.rows.first.micros(),
            file.rows.last.micros(),
            file.last_row,
            file.columns,
            file.written.micros()
        ],
    )?;
    Ok(())
}

/// Puts an announced file into effect in place of the stored rows in it.
fn put_into_effect(connection: &Connection, commit: &ArchiveCommit) -> Result<bool> {
    let ArchiveCommit { dataset, month, stamp, revision, last_row } = *commit;
    let mut progress = match Progress::read(connection, dataset) {
        Err(StoreError::NoDataset { .. }) => return Ok(false),
        progress => progress?,
    };
    if progress.removed > revision {
        return Ok(false);
    }
    let key = (dataset.get(), month.start().micros());
    if let Some(stamp) = stamp {
        let sql = format!(
            "UPDATE archived SET state = {IN_EFFECT}, changed = {NOW}
             WHERE dataset = ?1 AND month = ?2 AND stamp = ?3 AND state = {ANNOUNCED}
             RETURNING last"
        );
        let last = connection.find(&sql, (key.0, key.1, stamp), |row| row.get(0))?;
        let Some(last) = last.map(Timestamp::from_micros) else { return Ok(false) };
        let sql = "DELETE FROM archived WHERE dataset = ?1 AND month = ?2 AND stamp <> ?3";
        connection.run(sql, (key.0, key.1, stamp))?;
        progress.archived_until = progress.archived_until.max(Some(month.next().start()));
        progress.newest_archived = progress.newest_archived.max(Some(last));
    } else {
        let sql = format!(
            "UPDATE archived SET state = {DOOMED}, changed = {NOW} WHERE dataset = ?1 AND month = ?2"
        );
        connection.run(&sql, key)?;
    }
    connection.run("DELETE FROM archived_cuts WHERE dataset = ?1 AND month = ?2", key)?;
    remove_rows(connection, dataset, month.span(), last_row, &mut progress)?;
    progress.save(connection, dataset)?;
    Ok(true)
}

/// Removes the stored rows of a span with numbers up to `last_row`.
fn remove_rows(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    last_row: i64,
    progress: &mut Progress,
) -> Result<()> {
    let empty = Block::new(&catalog::dtypes(connection, dataset)?);
    let has_newer = tail::count(connection, dataset, span)? > 0
        || !chunks::with_rows_after(connection, dataset, last_row, 1)?.is_empty();
    let mut newer = empty.clone();
    if has_newer {
        let projection = scan::Projection { empty: empty.clone(), columns: None, sought: None };
        scan::blocks(connection, dataset, span, projection, &mut |block| {
            for row_idx in 0..block.len() {
                if block.ids.get(row_idx).is_some_and(|id| *id > last_row) {
                    newer.extend_from(&block, row_idx..row_idx + 1);
                }
            }
        })?;
    }
    tail::remove(connection, dataset, span)?;
    chunks::cut(connection, SeriesId::rows(dataset), span, &empty)?;
    progress.recount(connection, dataset)?;
    if newer.is_empty() { Ok(()) } else { append::put(connection, dataset, &newer, None, progress) }
}

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
/// their rows; `None` if there are no such months.
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

/// Returns the dataset, and the starts of the months at the ends of a span.
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
