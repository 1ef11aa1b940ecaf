//! Implementation of [`Engine`], for the archive and for copies of datasets.

use std::sync::atomic::Ordering;
use std::time::Duration;

use futures::future::{BoxFuture, FutureExt as _};
use model::dataset::DatasetId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use sqlx::PgConnection;

use super::head::Head;
use super::maintenance::STEP_RECORDS;
use super::time::{Time, bounds};
use super::{PostgresStore, Result, StoreError, append};
use crate::archive::month::Month;
use crate::span::Span;
use crate::store::archived::{ArchiveCommit, ArchivedFile, ArchivedMonth};
use crate::store::engine::{CatalogEntry, Engine};
use crate::store::session::Session as _;
use crate::store::{datasets, records};

impl Engine for PostgresStore {
    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        self.write(None, move |c| datasets::create_copy(c, entry).boxed())
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

    fn archived(&self, dataset: DatasetId, span: Span) -> Result<Vec<ArchivedMonth>> {
        self.read_snapshot(move |c| records::months(c, dataset, span).boxed())
    }

    fn expect_archive(&self) {
        self.has_archive.store(true, Ordering::Relaxed);
    }

    fn has_archive(&self) -> Result<bool> {
        self.read(|c| records::has_any(c).boxed())
    }

    fn key_in_effect(&self) -> Result<Option<String>> {
        self.read(|c| records::key_in_effect(c).boxed())
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
        async move {
            let dataset = Some(commit.dataset);
            let put = self.write(dataset, move |c| put_into_effect(c, commit, holder).boxed());
            if !put.await? {
                return Ok(false);
            }
            // The remaining rows are equal to those of the file, which they replace.
            while self.write(dataset, move |c| delete_archived(c, commit).boxed()).await? {}
            Ok(true)
        }
        .boxed()
    }

    fn doomed_file(&self, grace: Duration) -> Result<Option<(DatasetId, Month, String)>> {
        self.read(move |c| records::doomed(c, grace).boxed())
    }

    fn forget_file(&self, dataset: DatasetId, key: String) -> BoxFuture<'_, Result<()>> {
        self.write(None, move |c| records::forget(c, dataset, key).boxed())
    }
}

/// Puts an announced file into effect.
async fn put_into_effect(c: &mut PgConnection, commit: ArchiveCommit, holder: i64) -> Result<bool> {
    let dataset = commit.dataset;
    let mut head = match Head::lock(c, dataset).await {
        Err(StoreError::NoDataset { .. }) => return Ok(false),
        head => head?,
    };
    if !records::put_into_effect(c, &commit, holder, &mut head.state).await? {
        return Ok(false);
    }
    let until = head.state.archived_until.map(Time);
    let newest = head.state.newest_archived.map(Time);
    let sql =
        "UPDATE datasets.datasets SET archived_until = ?2, newest_archived = ?3 WHERE id = ?1";
    c.run(sql, &[&dataset.get(), &until, &newest]).await?;
    Ok(true)
}

/// Removes some of the rows that a file in effect has from the store. Returns true if it removed any, so
/// there can be more.
async fn delete_archived(c: &mut PgConnection, commit: ArchiveCommit) -> Result<bool> {
    let ArchiveCommit { dataset, month, last_row, .. } = commit;
    let (first, last) = bounds(month.span());
    let sql = "DELETE FROM datasets.rows WHERE (dataset, ts) IN (
         SELECT dataset, ts FROM datasets.rows
         WHERE dataset = ?1 AND ts BETWEEN ?2 AND ?3 AND id <= ?4 LIMIT ?5)";
    let n_gone = c.run(sql, &[&dataset.get(), &first, &last, &last_row, &STEP_RECORDS]).await?;
    Ok(n_gone > 0)
}
