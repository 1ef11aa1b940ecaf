//! Records of the archive, in their tables.

use db::postgres::fault::unsigned;
use futures::future::{BoxFuture, FutureExt as _};
use model::{dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};
use sqlx::PgConnection;

use super::{
    PostgresStore, Result, StoreError, append,
    archived_files::months_of,
    catalog::dataset_id,
    head::{Change, Head},
    time::{Time, bounds},
};
use crate::{
    archive::month::Month,
    span::Span,
    store::{
        Append, Appended, OnCommit, OnRemoval, Removal, Removed,
        archived::{
            ArchiveCommit, ArchiveLease, ArchiveRecords, ArchivedFile, ArchivedMonth, Beneath,
            RowDeletion,
        },
    },
};

/// State of the file of a month. One that is being written has 0, and one that is to be deleted 2.
const IN_EFFECT: i32 = 1;

impl ArchiveRecords for PostgresStore {
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
        let write = self.write(
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

    fn lease_archive(&self, lease: ArchiveLease) -> BoxFuture<'_, Result<bool>> {
        let ArchiveLease { holder, now, until } = lease;
        let sql = "INSERT INTO datasets.archive_lease AS l (id, holder, until) VALUES (1, $1, $3)
             ON CONFLICT (id) DO UPDATE SET holder = $1, until = $3
             WHERE l.holder = $1 OR l.until < $2";
        let query = sqlx::query(sql).bind(holder).bind(Time(now)).bind(Time(until));
        self.write(
            None,
            move |c| async move { Ok(query.execute(c).await?.rows_affected() == 1) }.boxed(),
            |_| {},
        )
    }

    fn announce_file(
        &self,
        dataset: DatasetId,
        file: ArchivedFile,
        holder: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        self.write(
            None,
            move |c| {
                async move {
                    let is_held = has_lease(c, holder).await?;
                    if is_held {
                        insert(c, dataset, &file).await?;
                    }
                    Ok(is_held)
                }
                .boxed()
            },
            |_| {},
        )
    }

    fn commit_file(&self, commit: ArchiveCommit, holder: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(
            Some(commit.dataset),
            move |c| {
                async move { Ok(has_lease(c, holder).await? && put_into_effect(c, &commit).await?) }
                    .boxed()
            },
            |_| {},
        )
    }

    fn prune_files(
        &self,
        dataset: DatasetId,
        stamps: Vec<i64>,
        newest_archived: Option<Timestamp>,
        on_commit: OnRemoval,
    ) -> BoxFuture<'_, Result<u64>> {
        let write = self.write(
            Some(dataset),
            move |c| prune(c, dataset, stamps, newest_archived).boxed(),
            on_commit,
        );
        async move { Ok(write.await?.n_rows) }.boxed()
    }

    fn doomed_files(&self, before: Timestamp, limit: usize) -> Result<Vec<(DatasetId, String)>> {
        let sql = "SELECT DISTINCT dataset, key FROM datasets.archived doomed
             WHERE state <> 1 AND changed < $1 AND NOT EXISTS (
                 SELECT FROM datasets.archived other WHERE other.dataset = doomed.dataset
                     AND other.key = doomed.key AND (other.state = 1 OR other.changed >= $1))
             LIMIT $2";
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        self.read(move |c| {
            async move {
                let query = sqlx::query_as(sql).bind(Time(before)).bind(limit);
                let found: Vec<(i64, String)> = query.fetch_all(c).await?;
                found.into_iter().map(|(id, key)| Ok((dataset_id(id)?, key))).collect()
            }
            .boxed()
        })
    }

    fn forget_file(&self, dataset: DatasetId, key: String) -> BoxFuture<'_, Result<()>> {
        let sql = "DELETE FROM datasets.archived WHERE dataset = $1 AND key = $2 AND state <> 1";
        let query = sqlx::query(sql).bind(dataset.get()).bind(key);
        self.write(
            None,
            move |c| async move { Ok(query.execute(c).await.map(drop)?) }.boxed(),
            |()| {},
        )
    }
}

async fn has_lease(c: &mut PgConnection, holder: i64) -> Result<bool> {
    // Another process takes it after the transaction.
    let sql = "SELECT holder FROM datasets.archive_lease FOR SHARE";
    let found: Option<i64> = sqlx::query_scalar(sql).fetch_optional(c).await?;
    Ok(found == Some(holder))
}

/// A file as its table has it, and its state.
type FoundFile = (Time, i64, String, i64, i64, [u8; 32], i64, i64, Time, Time, i64, i64, Time, i32);

fn file_of(found: FoundFile) -> Result<(ArchivedFile, i32)> {
    let (Time(month), stamp, key, n_rows, n_bytes, sha256, tail_bytes, tail_crc, ..) = found;
    let (Time(first), Time(last), last_row, columns, Time(written), state) =
        (found.8, found.9, found.10, found.11, found.12, found.13);
    let file = ArchivedFile {
        month: Month::of(month),
        stamp,
        key,
        n_rows: unsigned(n_rows)?,
        n_bytes: unsigned(n_bytes)?,
        sha256,
        tail_bytes: unsigned(tail_bytes)?,
        tail_crc: unsigned(tail_crc)?,
        rows: Span { first, last },
        last_row,
        columns,
        written,
    };
    Ok((file, state))
}

/// The archived months that touch a span.
async fn months(
    c: &mut PgConnection,
    dataset: DatasetId,
    span: Span,
) -> Result<Vec<ArchivedMonth>> {
    let (first, last) = bounds(months_of(span));
    let files: Vec<FoundFile> = sqlx::query_as(
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
    let mut months: Vec<ArchivedMonth> = Vec::new();
    for found in files {
        let (file, state) = file_of(found)?;
        match months.last_mut().filter(|month| month.file.month == file.month) {
            Some(month) => month.next.push(file),
            None if state == IN_EFFECT => {
                months.push(ArchivedMonth { file, next: Vec::new(), cuts: Vec::new() });
            }
            // It is written for the first time, and its rows are in the store.
            None => {}
        }
    }
    let cuts: Vec<(Time, Time, Time)> = sqlx::query_as(
        "SELECT month, first_ts, last_ts FROM datasets.archived_cuts
         WHERE dataset = $1 AND month BETWEEN $2 AND $3 ORDER BY month, first_ts, last_ts",
    )
    .bind(dataset.get())
    .bind(first)
    .bind(last)
    .fetch_all(c)
    .await?;
    for (Time(month), Time(first), Time(last)) in cuts {
        let month = Month::of(month);
        if let Some(found) = months.iter_mut().find(|found| found.file.month == month) {
            found.cuts.push(Span { first, last });
        }
    }
    Ok(months)
}

/// Records a file that is about to be written.
async fn insert(c: &mut PgConnection, dataset: DatasetId, file: &ArchivedFile) -> Result<()> {
    // The key is in use again.
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

/// Has the announced file of a month replace the stored rows that are in it.
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

/// Prunes archived months.
async fn prune(
    c: &mut PgConnection,
    dataset: DatasetId,
    stamps: Vec<i64>,
    newest_archived: Option<Timestamp>,
) -> Result<Removed> {
    let mut head = Head::lock(c, dataset).await?;
    let n_stamps = stamps.len();
    let found: Vec<(i64, Time, Time)> = sqlx::query_as(
        "UPDATE datasets.archived SET state = 2, changed = now()
         WHERE dataset = $1 AND stamp = ANY($2) AND state = 1 RETURNING n_rows, last_ts, month",
    )
    .bind(dataset.get())
    .bind(stamps)
    .fetch_all(&mut *c)
    .await?;
    if found.len() != n_stamps {
        return Err(StoreError::ArchiveChanged { dataset });
    }
    let mut n_rows = 0_u64;
    let mut months = Vec::with_capacity(found.len());
    for (n, Time(last), month) in found {
        n_rows = n_rows.saturating_add(unsigned(n)?);
        let finest = Resolution::FiveMinutes;
        let end = finest.bucket_start(last) + finest.bucket().unwrap_or_default();
        head.kept_from = head.kept_from.max(Some(end));
        months.push(month);
    }
    let sql = "DELETE FROM datasets.archived_cuts WHERE dataset = $1 AND month = ANY($2)";
    sqlx::query(sql).bind(dataset.get()).bind(months).execute(&mut *c).await?;
    head.newest_archived = newest_archived;
    head.read_latest(c).await?;
    head.commit(c, Change::Removal(Removal::Old), None).await?;
    Ok(head.removed(n_rows))
}
