//! Implements the interface for the archive and for copies.

use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use model::dataset::DatasetId;
use model::key::KeyId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use sqlx::PgConnection;

use super::head::Head;
use super::time::{Time, bounds};
use super::{PostgresStore, Result, StoreError, append, catalog};
use crate::catalog::{DatasetRef, NewDataset, TagFilter};
use crate::span::Span;
use crate::store::archived::{ArchiveCommit, ArchivedFile, ArchivedMonth, Beneath, RowDeletion};
use crate::store::engine::{CatalogEntry, Engine};
use crate::store::{Append, Appended, OnCommit, OnRemoval, Sight, records, tags};

impl Engine for PostgresStore {
    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        self.write(None, move |c| create(c, entry).boxed())
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
            move |c| append::delete_over(c, dataset, deletion).boxed(),
            on_commit,
        );
        async move { Ok(write.await?.n_rows) }.boxed()
    }

    fn archived(&self, dataset: DatasetId, span: Span) -> Result<Vec<ArchivedMonth>> {
        self.read_snapshot(move |c| records::months(c, dataset, span).boxed())
    }

    fn has_archive(&self) -> Result<bool> {
        self.read(|c| records::has_any(c).boxed())
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
        self.write(None, move |c| records::lease(c, holder, length).boxed())
    }

    fn announce_file(
        &self,
        dataset: DatasetId,
        file: ArchivedFile,
        holder: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        self.write(None, move |c| records::announce(c, dataset, file, holder).boxed())
    }

    fn commit_file(&self, commit: ArchiveCommit, holder: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(Some(commit.dataset), move |c| put_into_effect(c, commit, holder).boxed())
    }

    fn doomed_file(&self, grace: Duration) -> Result<Option<(DatasetId, String)>> {
        self.read(move |c| records::doomed(c, grace).boxed())
    }

    fn forget_file(&self, dataset: DatasetId, key: String) -> BoxFuture<'_, Result<()>> {
        self.write(None, move |c| records::forget(c, dataset, key).boxed())
    }
}

/// Puts an announced file into effect and removes the stored rows that are in it.
async fn put_into_effect(c: &mut PgConnection, commit: ArchiveCommit, holder: i64) -> Result<bool> {
    let ArchiveCommit { dataset, month, revision, last_row, .. } = commit;
    if !records::has_lease(c, holder).await? {
        return Ok(false);
    }
    let head = match Head::lock(c, dataset).await {
        Err(StoreError::NoDataset { .. }) => return Ok(false),
        head => head?,
    };
    if head.removed > revision {
        return Ok(false);
    }
    let Some(last) = records::put_into_effect(c, &commit).await? else { return Ok(false) };
    if let Some(last) = last {
        let sql = "UPDATE datasets.datasets SET archived_until = greatest(archived_until, $2),
             newest_archived = greatest(newest_archived, $3) WHERE id = $1";
        let noted = sqlx::query(sql).bind(dataset.get()).bind(Time(month.next().start()));
        noted.bind(Time(last)).execute(&mut *c).await?;
    }
    let (first, last) = bounds(month.span());
    let sql = "DELETE FROM datasets.rows WHERE dataset = $1 AND ts BETWEEN $2 AND $3 AND id <= $4";
    let moved = sqlx::query(sql).bind(dataset.get()).bind(first).bind(last).bind(last_row);
    moved.execute(c).await?;
    Ok(true)
}

/// Returns the dataset with the lowest id above `after`.
pub(super) async fn next_entry(
    c: &mut PgConnection,
    after: Option<DatasetId>,
) -> Result<Option<CatalogEntry>> {
    let found: Option<(i64, Option<i64>, Option<Time>)> = sqlx::query_as(
        "SELECT id, owner, kept_from FROM datasets.datasets WHERE id > $1 ORDER BY id LIMIT 1",
    )
    .bind(after.map_or(0, DatasetId::get))
    .fetch_optional(&mut *c)
    .await?;
    let Some((id, owner, kept_from)) = found else { return Ok(None) };
    let id = catalog::dataset_id(id)?;
    let sight = catalog::sight(c, None, DatasetRef::Id(id)).await?;
    let Some(Sight { dataset, columns, newest, .. }) = sight else { return Ok(None) };
    Ok(Some(CatalogEntry {
        dataset,
        owner: owner.map(KeyId::new),
        columns,
        tags: tags::list(c, TagFilter::OfDataset(id)).await?,
        newest,
        kept_from: kept_from.map(|Time(at)| at),
    }))
}

/// Creates a dataset with the id of a catalog entry. Ids of new datasets continue above it.
async fn create(c: &mut PgConnection, entry: CatalogEntry) -> Result<()> {
    let CatalogEntry { dataset, columns, .. } = &entry;
    catalog::insert(c, &NewDataset::from(&entry), Some(dataset.id), dataset.created_at).await?;
    let sql = "UPDATE datasets.datasets SET updated_at = $2 WHERE id = $1";
    sqlx::query(sql).bind(dataset.id.get()).bind(Time(dataset.updated_at)).execute(&mut *c).await?;
    let sql = "SELECT setval(sequence, $1)
         FROM (SELECT pg_get_serial_sequence('datasets.datasets', 'id')::regclass AS sequence) AS s
         WHERE $1 > coalesce(pg_sequence_last_value(sequence), 0)";
    sqlx::query(sql).bind(dataset.id.get()).execute(&mut *c).await?;
    sqlx::query(
        "UPDATE datasets.columns c SET created_at = n.created_at
         FROM unnest($2::text[], $3::timestamptz[]) AS n (name, created_at)
         WHERE c.dataset = $1 AND c.name = n.name",
    )
    .bind(dataset.id.get())
    .bind(columns.iter().map(|column| column.name.as_str()).collect::<Vec<_>>())
    .bind(columns.iter().map(|column| Time(column.created_at)).collect::<Vec<_>>())
    .execute(c)
    .await?;
    Ok(())
}
