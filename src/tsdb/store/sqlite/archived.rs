//! Records of the archive: the trait of its engine, with checks and changes of records in other writes.

use std::time::Duration;

use db::statement::Statements as _;
use futures::future::{BoxFuture, FutureExt as _};
use model::block::Block;
use model::dataset::DatasetId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::{Connection, params};

use super::archived_files::{NOW, months};
use super::progress::Progress;
use super::series::SeriesId;
use super::tables::checked_id;
use super::{Result, SqliteStore, StoreError, append, catalog, chunks, copying, scan, tail};
use crate::catalog::TagChange;
use crate::span::Span;
use crate::store::archived::{
    ANNOUNCED, ArchiveCommit, ArchivedFile, ArchivedMonth, Beneath, DOOMED, IN_EFFECT, RowDeletion,
};
use crate::store::engine::{CatalogEntry, Engine};
use crate::store::{Append, Appended, OnCommit, OnRemoval};

impl Engine for SqliteStore {
    fn next_entry(&self, after: Option<DatasetId>) -> Result<Option<CatalogEntry>> {
        self.readers.read(|connection| copying::next_entry(connection, after))
    }

    fn grants(&self) -> Result<Vec<TagChange>> {
        self.readers.read(copying::grants)
    }

    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| copying::create(connection, &entry))
    }

    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| copying::put_buckets(connection, dataset, buckets, kept_from))
    }

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
