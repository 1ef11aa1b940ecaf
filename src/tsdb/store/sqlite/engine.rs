//! Implementation of [`Engine`], for the archive and for copies of datasets.

use std::time::Duration;

use futures::future::BoxFuture;
use model::dataset::DatasetId;
use model::row::Bucket;
use model::timestamp::Timestamp;
use rusqlite::Connection;

use super::progress::Progress;
use super::scan::Scan;
use super::series::SeriesId;
use super::{Result, SqliteStore, StoreError, append, buckets, chunks, scan, singles};
use crate::archive::month::Month;
use crate::span::Span;
use crate::store::archived::{ArchiveCommit, ArchivedFile, ArchivedMonth};
use crate::store::engine::{CatalogEntry, Engine};
use crate::store::session::ready;
use crate::store::{datasets, records};

impl Engine for SqliteStore {
    fn create_copy(&self, entry: CatalogEntry) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| ready(datasets::create_copy(&mut &*connection, entry)))
    }

    fn copy_buckets(
        &self,
        dataset: DatasetId,
        buckets: Vec<Bucket>,
        kept_from: Timestamp,
    ) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| put_buckets(connection, dataset, buckets, kept_from))
    }

    fn archived(&self, dataset: DatasetId, span: Span) -> Result<Vec<ArchivedMonth>> {
        self.readers.read(|connection| ready(records::months(&mut &*connection, dataset, span)))
    }

    fn has_archive(&self) -> Result<bool> {
        self.readers.read(|connection| ready(records::has_any(&mut &*connection)))
    }

    fn key_in_effect(&self) -> Result<Option<String>> {
        self.readers.read(|connection| ready(records::key_in_effect(&mut &*connection)))
    }

    fn lease_archive(&self, holder: i64, length: Duration) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| ready(records::lease(&mut &*connection, holder, length)))
    }

    fn announce_file(
        &self,
        dataset: DatasetId,
        file: ArchivedFile,
        holder: i64,
    ) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| {
            ready(records::announce(&mut &*connection, dataset, file, holder))
        })
    }

    fn commit_file(&self, commit: ArchiveCommit, holder: i64) -> BoxFuture<'_, Result<bool>> {
        self.write(move |connection| put_into_effect(connection, &commit, holder))
    }

    fn doomed_file(&self, grace: Duration) -> Result<Option<(DatasetId, Month, String)>> {
        self.readers.read(|connection| ready(records::doomed(&mut &*connection, grace)))
    }

    fn forget_file(&self, dataset: DatasetId, key: String) -> BoxFuture<'_, Result<()>> {
        self.write(move |connection| ready(records::forget(&mut &*connection, dataset, key)))
    }
}

/// Puts an announced file into effect and removes its rows from the store.
fn put_into_effect(connection: &Connection, commit: &ArchiveCommit, holder: i64) -> Result<bool> {
    let ArchiveCommit { dataset, month, last_row, .. } = *commit;
    let mut progress = match Progress::read(connection, dataset) {
        Err(StoreError::NoDataset { .. }) => return Ok(false),
        progress => progress?,
    };
    let state = &mut progress.state;
    if !ready(records::put_into_effect(&mut &*connection, commit, holder, state))? {
        return Ok(false);
    }
    remove_rows(connection, dataset, month.span(), last_row, &mut progress)?;
    progress.save(connection, dataset)?;
    Ok(true)
}

/// Removes the stored rows of a span with row numbers up to `last_row`.
fn remove_rows(
    connection: &Connection,
    dataset: DatasetId,
    span: Span,
    last_row: i64,
    progress: &mut Progress,
) -> Result<()> {
    let series = SeriesId::rows(dataset);
    let empty = scan::empty(connection, series)?;
    let mut newer = empty.clone();
    if singles::count(connection, series, span)? > 0
        || !chunks::with_rows_after(connection, dataset, last_row, 1)?.is_empty()
    {
        Scan::all(series, span, empty.clone()).blocks(connection, &mut |block| {
            for (row_idx, id) in block.ids.iter().enumerate() {
                if *id > last_row {
                    newer.extend_from(&block, row_idx..row_idx + 1);
                }
            }
        })?;
    }
    singles::remove(connection, series, span)?;
    chunks::cut(connection, series, span, &empty)?;
    progress.recount(connection, dataset)?;
    if newer.is_empty() { Ok(()) } else { append::put(connection, dataset, &newer, &[], progress) }
}

/// Stores copied buckets of rows that were pruned in the source.
fn put_buckets(
    connection: &Connection,
    dataset: DatasetId,
    new: Vec<Bucket>,
    kept_from: Timestamp,
) -> Result<()> {
    let mut progress = Progress::read(connection, dataset)?;
    if progress.state.newest.is_some() {
        return Err(StoreError::failed(format!("dataset {dataset} has rows and is not a copy")));
    }
    buckets::extend_finest(connection, dataset, new)?;
    progress.state.kept_from = progress.state.kept_from.max(Some(kept_from));
    progress.state.revision += 1;
    progress.save(connection, dataset)
}
