//! Writes old months to files and deletes files that are no longer in effect.

use std::error::Error;
use std::fs::File;
use std::ops::ControlFlow;
use std::time::Duration;

use futures::executor::block_on;
use model::block::Rows;
use model::dataset::{Column, DatasetId};
use model::timestamp::Timestamp;
use sha2::{Digest as _, Sha256};
use tracing::warn;

use super::file::{check_month, read_owner};
use super::month::Month;
use super::months::{fails, is_damaged};
use super::objects::ObjectError;
use super::write::FileWriter;
use super::{Archive, ArchivedStore, random};
use crate::catalog::DatasetRef;
use crate::span::{Order, Span};
use crate::store::archived::{ArchiveCommit, ArchivedFile, ArchivedMonth};
use crate::store::{PageRead, Result, Sight};

/// Number of stored rows of an archived month at which the next run rewrites its file. Every page of the
/// month merges these rows with the file, which takes time. Rewriting a month of one-minute rows takes a
/// second.
const CORRECTIONS_MAX: u64 = 1_024;

/// Age of a file at which it is rewritten even for a single correction, so that other readers of the
/// archive see the correction within a day.
const REWRITE_AFTER: Duration = Duration::from_hours(24);

/// Duration of the lease, which is extended for each file and released after each run. If the holder of the
/// lease is killed, other processes cannot archive until it expires.
const LEASE: Duration = Duration::from_mins(30);

/// Result of a run of [`ArchivedStore::archive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveReport {
    /// Number of files that were written and are now in effect.
    pub n_files: u64,
    /// Number of rows in the files that were written.
    pub n_rows: u64,
    /// Number of archived months after the run.
    pub n_months: u64,
    /// Number of rows in the files of all archived months.
    pub n_archived_rows: u64,
    /// Number of files that were deleted, since they were no longer in effect.
    pub n_deleted: u64,
}

impl ArchivedStore {
    /// Archives the months that are old enough at `now`, rewrites months with corrections or deletions,
    /// and deletes files that are no longer in effect. Returns `None` if another process is archiving.
    /// Blocks.
    ///
    /// # Errors
    /// [`StoreError`](crate::store::StoreError) of the first month that failed. The other months were
    /// archived, and the next run tries again.
    pub fn archive(&self, now: Timestamp) -> Result<Option<ArchiveReport>> {
        let archive = &*self.archive;
        if !archive.extend_lease()? {
            return Ok(None);
        }
        let report = archive.archive_all(now);
        // Without the release, no process could archive for a while after this process has stopped.
        let released = block_on(archive.store.lease_archive(archive.holder, Duration::ZERO));
        report.and_then(|report| released.map(|_| Some(report)))
    }
}

impl Archive {
    fn archive_all(&self, now: Timestamp) -> Result<ArchiveReport> {
        let mut report = ArchiveReport::default();
        let (mut after, mut failure) = (None, None);
        while let Some(dataset) = self.store.next_dataset(after)? {
            after = Some(dataset);
            if let Err(error) = self.archive_dataset(dataset, now, &mut report) {
                failure.get_or_insert(error);
            }
        }
        while self.extend_lease()?
            && let Some((dataset, month, key)) = self.store.doomed_file(self.options.grace)?
        {
            self.objects.delete(&key).map_err(fails(dataset, month))?;
            block_on(self.store.forget_file(dataset, key))?;
            report.n_deleted += 1;
        }
        failure.map_or(Ok(report), Err)
    }

    pub(super) fn extend_lease(&self) -> Result<bool> {
        block_on(self.store.lease_archive(self.holder, LEASE))
    }

    fn archive_dataset(
        &self,
        dataset: DatasetId,
        now: Timestamp,
        report: &mut ArchiveReport,
    ) -> Result<()> {
        let Some(sight) = self.store.sight(None, &DatasetRef::Id(dataset))? else { return Ok(()) };
        let columns = digest_of(&sight.columns);
        let archived = self.store.archived(dataset, Span::ALL)?;
        let mut months = Vec::new();
        for ArchivedMonth { file, cuts, .. } in &archived {
            let is_outdated = file.columns != columns || !cuts.is_empty();
            let n_stored = self.store.count(dataset, file.month.span())?;
            let is_old = now.since(file.written) >= REWRITE_AFTER;
            if is_outdated || n_stored >= CORRECTIONS_MAX || (n_stored > 0 && is_old) {
                months.push(file.month);
            }
        }
        let mut from = Timestamp::MIN;
        while let Some(oldest) = self.oldest_stored(dataset, from)? {
            let month = Month::of(oldest);
            from = month.next().start();
            if from + self.options.after > now {
                break;
            }
            if archived.iter().all(|known| known.file.month != month) {
                months.push(month);
            }
        }
        let mut failure = None;
        for month in months {
            match self.write_month(dataset, month, now, report) {
                // A damaged file does not prevent the archiving of other months.
                Err(error) if is_damaged(&error) => {
                    let cause = &error as &dyn Error;
                    warn!(dataset.id = %dataset, %month, error = cause, "a month was not archived");
                    failure.get_or_insert(error);
                }
                written => written?,
            }
        }
        for month in self.store.archived(dataset, Span::ALL)? {
            report.n_months += 1;
            report.n_archived_rows += month.file.n_rows;
        }
        failure.map_or(Ok(()), Err)
    }

    fn oldest_stored(&self, dataset: DatasetId, from: Timestamp) -> Result<Option<Timestamp>> {
        let span = Span { first: from, ..Span::ALL };
        let read = PageRead::raw(span, Order::Ascending, 1);
        Ok(self.store.page(dataset, &read)?.rows.timestamp(0))
    }

    /// Writes a month to a file, verifies it, and replaces the stored rows with it.
    fn write_month(
        &self,
        dataset: DatasetId,
        month: Month,
        now: Timestamp,
        report: &mut ArchiveReport,
    ) -> Result<()> {
        // The commit removes rows up to this number from the store. It is read before the columns, so
        // that the file has all columns of the removed rows.
        let last_row = self.store.last_row(dataset)?;
        let Some(sight) = self.store.sight(None, &DatasetRef::Id(dataset))? else { return Ok(()) };
        let mut commit =
            ArchiveCommit { dataset, month, stamp: None, revision: sight.revision, last_row };
        let key = format!("dataset={dataset}/month={month}/part-0.parquet");
        let replaced = self.objects.find(&key).map_err(fails(dataset, month))?;
        if let Some(found) = &replaced
            && self.store.archived(dataset, month.span())?.is_empty()
        {
            self.check_owner(&key, found.size, &sight).map_err(fails(dataset, month))?;
        }
        let Some((written, file)) = self.write_draft(&sight, month, key, now)? else {
            block_on(self.store.commit_file(commit, self.holder))?;
            return Ok(());
        };
        if !self.extend_lease()?
            || !block_on(self.store.announce_file(dataset, file.clone(), self.holder))?
        {
            return Ok(());
        }
        let ((empty, _), n_bytes) = (self.empty(dataset)?, file.n_bytes);
        let new = ArchivedMonth { file: file.clone(), next: Vec::new(), cuts: Vec::new() };
        self.objects
            .replace(&file.key, replaced, written, n_bytes)
            .and_then(|()| check_month(&self.objects, &new, &empty))
            .map_err(fails(dataset, month))?;
        commit.stamp = Some(file.stamp);
        if block_on(self.store.commit_file(commit, self.holder))? {
            report.n_files += 1;
            report.n_rows += file.n_rows;
        }
        Ok(())
    }

    /// Writes the stored and archived rows of a month to a temporary file. Returns the file and its
    /// record, or `None` if there are no rows.
    pub(super) fn write_draft(
        &self,
        sight: &Sight,
        month: Month,
        key: String,
        now: Timestamp,
    ) -> Result<Option<(File, ArchivedFile)>> {
        let (dataset, columns) = (sight.dataset.id, &sight.columns);
        let draft = tempfile::tempfile().map_err(fails(dataset, month))?;
        let writer = FileWriter::begin(draft, columns, identity(sight), self.group_rows);
        let mut writer = writer.map_err(fails(dataset, month))?;
        let (mut n_rows, mut ends, mut last_row) = (0, None, i64::MIN);
        self.scan(dataset, month.span(), &mut |batch| {
            let Rows::Raw(block) = batch.rows()? else { return Ok(ControlFlow::Continue(())) };
            if let (Some(first), Some(last)) = (block.times.first(), block.times.last()) {
                let start = ends.map_or(*first, |ends: Span| ends.first);
                ends = Some(Span { first: start, last: *last });
            }
            last_row = block.ids.iter().copied().fold(last_row, i64::max);
            n_rows += block.len() as u64;
            writer.add(&block).map_err(fails(dataset, month))?;
            Ok(ControlFlow::Continue(()))
        })?;
        let Some(ends) = ends else { return Ok(None) };
        let record = ArchivedFile {
            month,
            stamp: random(),
            key,
            n_rows,
            n_bytes: 0,
            sha256: [0; 32],
            tail_bytes: 0,
            tail_crc: 0,
            rows: ends,
            last_row,
            columns: digest_of(columns),
            written: now,
        };
        writer.finish(record).map(Some).map_err(fails(dataset, month))
    }

    /// Checks that a file without a record does not belong to another store.
    fn check_owner(&self, key: &str, n_bytes: u64, sight: &Sight) -> Result<(), ObjectError> {
        if read_owner(&self.objects, key, n_bytes)? == Some(identity(sight)) {
            return Ok(());
        }
        Err(ObjectError::damaged(key, "it belongs to another store"))
    }
}

/// Returns the text that identifies a dataset in its files. The creation time distinguishes datasets of
/// different stores with equal ids.
fn identity(sight: &Sight) -> String {
    format!("{} created at {}", sight.dataset.id, sight.dataset.created_at)
}

/// Returns a digest of the names and types of the columns in the files of a dataset.
fn digest_of(columns: &[Column]) -> i64 {
    let mut digest = Sha256::new();
    for (place, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_deleted()) {
        digest.update(format!("{place} {} {:?}\n", column.name, column.dtype));
    }
    let digest: [u8; 32] = digest.finalize().into();
    digest.first_chunk().copied().map_or(0, i64::from_le_bytes)
}
