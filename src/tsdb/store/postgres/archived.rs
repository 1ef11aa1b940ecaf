//! Records of the archive: the trait of its engine, with checks and changes of records in other writes.

use std::time::Duration;

use db::postgres::fault::unsigned;
use futures::future::{BoxFuture, FutureExt as _};
use model::dataset::DatasetId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use sqlx::postgres::PgRow;
use sqlx::{PgConnection, Row as _};

use super::archived_files::months_of;
use super::catalog::dataset_id;
use super::head::Head;
use super::time::{Time, bounds};
use super::{PostgresStore, Result, StoreError, append, copying};
use crate::archive::month::Month;
use crate::catalog::TagChange;
use crate::span::Span;
use crate::store::archived::{
    ArchiveCommit, ArchivedFile, ArchivedMonth, Beneath, FileState, RowDeletion,
};
use crate::store::engine::{CatalogEntry, Engine};
use crate::store::{Append, Appended, OnCommit, OnRemoval};

impl Engine for PostgresStore {
    fn next_entry(&self, after: Option<DatasetId>) -> Result<Option<CatalogEntry>> {
        self.read_snapshot(move |c| copying::next_entry(c, after).boxed())
    }

    fn grants(&self) -> Result<Vec<TagChange>> {
        self.read(|c| copying::grants(c).boxed())
    }

    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        self.write(None, move |c| async move { copying::create(c, &entry).await }.boxed())
    }

    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(Some(dataset), move |c| {
            append::put_buckets(c, dataset, buckets, kept_from).boxed()
        })
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
        let write = self.write_and_report(
            Some(dataset),
            move |c| async move { append::delete_over(c, dataset, &deletion).await }.boxed(),
            on_commit,
        );
        async move { Ok(write.await?.n_rows) }.boxed()
    }

    fn archived(&self, dataset: DatasetId, span: Span) -> Result<Vec<ArchivedMonth>> {
        self.read_snapshot(move |c| months(c, dataset, span).boxed())
    }

    fn has_archive(&self) -> Result<bool> {
        let sql = "SELECT EXISTS (SELECT FROM datasets.archived)";
        self.read(move |c| async move { Ok(sqlx::query_scalar(sql).fetch_one(c).await?) }.boxed())
    }

    fn last_row(&self, dataset: DatasetId) -> Result<i64> {
        let sql = "SELECT last_row FROM datasets.datasets WHERE id = $1";
        self.read(move |c| {
            async move {
                let query = sqlx::query_scalar(sql).bind(dataset.get());
                query.fetch_optional(c).await?.ok_or(StoreError::NoDataset { dataset })
            }
            .boxed()
        })
    }

    fn lease_archive(&self, holder: i64, length: Duration) -> BoxFuture<'_, Result<bool>> {
        let sql = "INSERT INTO datasets.archive_lease AS l (id, holder, until)
             VALUES (1, $1, now() + make_interval(secs => $2))
             ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, until = excluded.until
             WHERE l.holder = $1 OR l.until <= now()";
        let query = sqlx::query(sql).bind(holder).bind(length.as_secs_f64());
        self.write(None, move |c| {
            async move { Ok(query.execute(c).await?.rows_affected() == 1) }.boxed()
        })
    }

    fn announce_file(
        &self,
        dataset: DatasetId,
        file: ArchivedFile,
        holder: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        self.write(None, move |c| {
            async move {
                let is_held = has_lease(c, holder).await?;
                if is_held {
                    insert(c, dataset, &file).await?;
                }
                Ok(is_held)
            }
            .boxed()
        })
    }

    fn commit_file(&self, commit: ArchiveCommit, holder: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(Some(commit.dataset), move |c| {
            async move { Ok(has_lease(c, holder).await? && put_into_effect(c, &commit).await?) }
                .boxed()
        })
    }

    fn doomed_file(&self, grace: Duration) -> Result<Option<(DatasetId, String)>> {
        let sql = "SELECT dataset, key FROM datasets.archived doomed
             WHERE state <> 1 AND changed <= now() - make_interval(secs => $1) AND NOT EXISTS (
                 SELECT FROM datasets.archived other
                 WHERE other.dataset = doomed.dataset AND other.key = doomed.key AND (other.state = 1
                     OR other.changed > now() - make_interval(secs => $1)))
             LIMIT 1";
        let found: Option<(i64, String)> = self.read(move |c| {
            let query = sqlx::query_as(sql).bind(grace.as_secs_f64());
            async move { Ok(query.fetch_optional(c).await?) }.boxed()
        })?;
        found.map(|(id, key)| Ok((dataset_id(id)?, key))).transpose()
    }

    fn forget_file(&self, dataset: DatasetId, key: String) -> BoxFuture<'_, Result<()>> {
        let sql = "DELETE FROM datasets.archived WHERE dataset = $1 AND key = $2 AND state <> 1";
        let query = sqlx::query(sql).bind(dataset.get()).bind(key);
        self.write(None, move |c| async move { Ok(query.execute(c).await.map(drop)?) }.boxed())
    }
}

async fn has_lease(c: &mut PgConnection, holder: i64) -> Result<bool> {
    // Locked, so that another process gets the lease after the transaction.
    let sql = "SELECT holder FROM datasets.archive_lease FOR SHARE";
    let found: Option<i64> = sqlx::query_scalar(sql).fetch_optional(c).await?;
    Ok(found == Some(holder))
}

/// Reads a file and its state.
fn file_of(row: &PgRow) -> Result<(ArchivedFile, FileState)> {
    let time = |idx| row.try_get(idx).map(|Time(at)| at);
    let number = |idx| Ok::<_, StoreError>(unsigned(row.try_get(idx)?)?);
    let file = ArchivedFile {
        month: Month::of(time(0)?),
        stamp: row.try_get(1)?,
        key: row.try_get(2)?,
        n_rows: number(3)?,
        n_bytes: number(4)?,
        sha256: row.try_get(5)?,
        tail_bytes: number(6)?,
        tail_crc: unsigned(row.try_get(7)?)?,
        rows: Span { first: time(8)?, last: time(9)? },
        last_row: row.try_get(10)?,
        columns: row.try_get(11)?,
        written: time(12)?,
    };
    Ok((file, row.try_get(13)?))
}

/// Returns the archived months that touch a span.
async fn months(
    c: &mut PgConnection,
    dataset: DatasetId,
    span: Span,
) -> Result<Vec<ArchivedMonth>> {
    let (first, last) = bounds(months_of(span));
    let files = sqlx::query(
        "SELECT month, stamp, key, n_rows, n_bytes, sha256, tail_bytes, tail_crc, first_ts, last_ts,
             last_row, columns, written, state
         FROM datasets.archived WHERE dataset = $1 AND month BETWEEN $2 AND $3 AND state < 2
         ORDER BY month, state DESC, changed",
    )
    .bind(dataset.get())
    .bind(first)
    .bind(last)
    .fetch_all(&mut *c)
    .await?;
    let files: Vec<_> = files.iter().map(file_of).collect::<Result<_>>()?;
    let cuts: Vec<(Time, Time, Time)> = sqlx::query_as(
        "SELECT month, first_ts, last_ts FROM datasets.archived_cuts
         WHERE dataset = $1 AND month BETWEEN $2 AND $3 ORDER BY month, first_ts, last_ts",
    )
    .bind(dataset.get())
    .bind(first)
    .bind(last)
    .fetch_all(c)
    .await?;
    let cuts = cuts
        .into_iter()
        .map(|(Time(month), Time(first), Time(last))| (Month::of(month), Span { first, last }));
    Ok(ArchivedMonth::group(files, cuts))
}

/// Records a file that is about to be written.
async fn insert(c: &mut PgConnection, dataset: DatasetId, file: &ArchivedFile) -> Result<()> {
    // The key is used again.
    let sql = "DELETE FROM datasets.archived WHERE dataset = $1 AND month = $2 AND state = 2";
    let month = Time(file.month.start());
    sqlx::query(sql).bind(dataset.get()).bind(month).execute(&mut *c).await?;
    sqlx::query(
        "INSERT INTO datasets.archived (dataset, month, stamp, state, changed, key, n_rows, n_bytes,
             sha256, tail_bytes, tail_crc, first_ts, last_ts, last_row, columns, written)
         VALUES ($1, $2, $3, 0, now(), $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
    )
    .bind(dataset.get())
    .bind(month)
    .bind(file.stamp)
    .bind(&file.key)
    .bind(file.n_rows.cast_signed())
    .bind(file.n_bytes.cast_signed())
    .bind(file.sha256.as_slice())
    .bind(file.tail_bytes.cast_signed())
    .bind(i64::from(file.tail_crc))
    .bind(Time(file.rows.first))
    .bind(Time(file.rows.last))
    .bind(file.last_row)
    .bind(file.columns)
    .bind(Time(file.written))
    .execute(c)
    .await?;
    Ok(())
}

/// Puts an announced file into effect in place of the stored rows in it.
async fn put_into_effect(c: &mut PgConnection, commit: &ArchiveCommit) -> Result<bool> {
    let ArchiveCommit { dataset, month, stamp, revision, last_row } = *commit;
    let head = match Head::lock(c, dataset).await {
        Err(StoreError::NoDataset { .. }) => return Ok(false),
        head => head?,
    };
    if head.removed > revision {
        return Ok(false);
    }
    let start = Time(month.start());
    if let Some(stamp) = stamp {
        let sql = "UPDATE datasets.archived SET state = 1, changed = now()
             WHERE dataset = $1 AND month = $2 AND stamp = $3 AND state = 0 RETURNING last_ts";
        let found = sqlx::query_scalar(sql).bind(dataset.get()).bind(start).bind(stamp);
        let found: Option<Time> = found.fetch_optional(&mut *c).await?;
        let Some(last) = found else { return Ok(false) };
        let sql = "DELETE FROM datasets.archived WHERE dataset = $1 AND month = $2 AND stamp <> $3";
        let others = sqlx::query(sql).bind(dataset.get()).bind(start).bind(stamp);
        others.execute(&mut *c).await?;
        let sql = "UPDATE datasets.datasets SET archived_until = greatest(archived_until, $2),
             newest_archived = greatest(newest_archived, $3) WHERE id = $1";
        let noted = sqlx::query(sql).bind(dataset.get()).bind(Time(month.next().start()));
        noted.bind(last).execute(&mut *c).await?;
    } else {
        let sql = "UPDATE datasets.archived SET state = 2, changed = now()
             WHERE dataset = $1 AND month = $2";
        sqlx::query(sql).bind(dataset.get()).bind(start).execute(&mut *c).await?;
    }
    let sql = "DELETE FROM datasets.archived_cuts WHERE dataset = $1 AND month = $2";
    sqlx::query(sql).bind(dataset.get()).bind(start).execute(&mut *c).await?;
    let (first, last) = bounds(month.span());
    let sql = "DELETE FROM datasets.rows WHERE dataset = $1 AND ts BETWEEN $2 AND $3 AND id <= $4";
    let moved = sqlx::query(sql).bind(dataset.get()).bind(first).bind(last).bind(last_row);
    moved.execute(c).await?;
    Ok(true)
}
