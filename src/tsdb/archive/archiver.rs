//! Writes months that are old enough to files, and deletes files that have no effect any more.

use std::{ops::ControlFlow, time::Duration};

use futures::executor::block_on;
use model::{
    block::{Block, Rows, Series},
    dataset::{Column, DatasetId},
    resolution::Resolution,
    timestamp::Timestamp,
};
use sha2::{Digest as _, Sha256};

use super::{
    Archive, ArchivedStore,
    file::{FileFooter, FileReader, read_owner},
    month::Month,
    months::stamps,
    objects::ObjectError,
    random,
    write::{FileWriter, PAGE_ROWS, WrittenFile},
};
use crate::{
    catalog::DatasetRef,
    span::{Order, Span},
    store::{
        Cause, Count, PageRead, Result, StoreError,
        archived::{ArchiveCommit, ArchiveLease, ArchivedFile, ArchivedMonth},
        copying::CatalogEntry,
    },
};

/// Stored rows of an archived month from which on its file is rewritten at the next look. So many make
/// pages of the month slower, which merge them, and a file of a month of minutes takes a second.
const CORRECTIONS_MAX: u64 = 1_024;

/// Age of a file at which it is rewritten for a single correction, so that other readers of the archive
/// get it within a day.
const REWRITE_AFTER: Duration = Duration::from_hours(24);

/// Length of the lease. It is extended for each file, and a process that was killed keeps others waiting
/// for the rest of it.
const LEASE: Duration = Duration::from_mins(30);

/// Files that are deleted at one look.
const DELETIONS_MAX: usize = 1_000;

/// All of time.
const ALL: Span = Span { first: Timestamp::MIN, last: Timestamp::MAX };

/// Work of one look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ArchiveReport {
    /// Files that were written, and had their rows removed from the store.
    pub n_files: u64,
    /// Rows in these files.
    pub n_rows: u64,
    /// Files that were deleted.
    pub n_deleted: u64,
}

impl ArchivedStore {
    /// Archives the months that are old enough at `now`, rewrites those with corrections or deletions, and
    /// deletes files that have no effect any more. Does nothing while another process does it. Blocks.
    ///
    /// # Errors
    /// [`StoreError`] of the first dataset that failed. The others were archived, and it is tried again next
    /// time.
    pub fn archive(&self, now: Timestamp) -> Result<ArchiveReport> {
        let archive = &*self.archive;
        let mut report = ArchiveReport::default();
        if !archive.extend_lease(now)? {
            return Ok(report);
        }
        let (mut after, mut failure) = (None, None);
        while let Some(entry) = archive.store.next_entry(after)? {
            after = Some(entry.dataset.id);
            if let Err(error) = archive.archive_dataset(&entry, now, &mut report) {
                failure.get_or_insert(error);
            }
        }
        for (dataset, key) in
            archive.store.doomed_files(now - archive.options.grace, DELETIONS_MAX)?
        {
            let month = Month::of(now);
            let fail =
                |error: ObjectError| StoreError::Archive { dataset, month, source: error.into() };
            archive.objects.delete(&key).map_err(fail)?;
            block_on(archive.store.forget_file(dataset, key))?;
            report.n_deleted += 1;
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(report),
        }
    }
}

impl Archive {
    pub(super) fn extend_lease(&self, now: Timestamp) -> Result<bool> {
        let lease = ArchiveLease { holder: self.holder, now, until: now + LEASE };
        block_on(self.store.lease_archive(lease))
    }

    fn archive_dataset(
        &self,
        entry: &CatalogEntry,
        now: Timestamp,
        report: &mut ArchiveReport,
    ) -> Result<()> {
        let dataset = entry.dataset.id;
        let columns = digest_of(&entry.columns);
        let archived = self.store.archived(dataset, ALL)?;
        for month in &archived {
            let is_outdated = month.file.columns != columns || !month.cuts.is_empty();
            let n_stored = self.count_stored(dataset, month.file.month.span())?;
            let is_old = now.since(month.file.written) >= REWRITE_AFTER;
            if is_outdated || n_stored >= CORRECTIONS_MAX || (n_stored > 0 && is_old) {
                self.write_month(entry, month.file.month, now, report)?;
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
                self.write_month(entry, month, now, report)?;
            }
        }
        self.ends.lock().remove(&dataset);
        Ok(())
    }

    fn count_stored(&self, dataset: DatasetId, span: Span) -> Result<u64> {
        let read = PageRead {
            resolution: Resolution::Raw,
            span,
            order: Order::Ascending,
            skip: 0,
            limit: 0,
            count: Count::All,
        };
        Ok(self.store.page(dataset, &read)?.count.unwrap_or_default())
    }

    fn oldest_stored(&self, dataset: DatasetId, from: Timestamp) -> Result<Option<Timestamp>> {
        let read = PageRead {
            resolution: Resolution::Raw,
            span: Span { first: from, ..ALL },
            order: Order::Ascending,
            skip: 0,
            limit: 1,
            count: Count::Nothing,
        };
        Ok(self.store.page(dataset, &read)?.rows.timestamp(0))
    }

    /// Writes a month to a file, reads it back, and has it replace the stored rows.
    fn write_month(
        &self,
        entry: &CatalogEntry,
        month: Month,
        now: Timestamp,
        report: &mut ArchiveReport,
    ) -> Result<()> {
        let dataset = entry.dataset.id;
        let fail = |source: Cause| StoreError::Archive { dataset, month, source };
        let revision = self.revision(dataset)?;
        let before = self.store.archived(dataset, month.span())?;
        let last_row = self.last_stored_row(dataset, month)?;
        let Some((written, draft)) = self.write_draft(entry, month, &before)? else {
            let commit =
                ArchiveCommit { dataset, month, stamp: None, revision, last_row: i64::MIN };
            block_on(self.store.commit_file(commit, self.holder))?;
            return Ok(());
        };
        let file = ArchivedFile { written: now, ..draft.file };
        if before.is_empty() {
            self.check_owner(entry, &file)?;
        }
        if !self.extend_lease(now)?
            || !block_on(self.store.announce_file(dataset, file.clone(), self.holder))?
        {
            return Ok(());
        }
        self.objects.write(&file.key, written.file, file.n_bytes).map_err(|e| fail(e.into()))?;
        self.verify(&file, draft.rows, &draft.empty).map_err(|e| fail(e.into()))?;
        let stamp = Some(file.stamp);
        let commit = ArchiveCommit { dataset, month, stamp, revision, last_row };
        if block_on(self.store.commit_file(commit, self.holder))? {
            report.n_files += 1;
            report.n_rows += file.n_rows;
        }
        Ok(())
    }

    /// Returns the highest number of the stored rows of a month. A later scan shows every row up to it, also
    /// if its batches are of different snapshots, since numbers are in the order of commits.
    fn last_stored_row(&self, dataset: DatasetId, month: Month) -> Result<i64> {
        let mut last_row = i64::MIN;
        self.store.scan(dataset, Resolution::Raw, month.span(), &mut |batch| {
            if let Rows::Raw(block) = batch.rows()? {
                last_row = block.ids.iter().copied().fold(last_row, i64::max);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(last_row)
    }

    /// Writes the stored and archived rows of a month to a temporary file; `None` if there are none.
    pub(super) fn write_draft(
        &self,
        entry: &CatalogEntry,
        month: Month,
        before: &[ArchivedMonth],
    ) -> Result<Option<(WrittenFile, Draft)>> {
        let dataset = entry.dataset.id;
        let fail = |source: Cause| StoreError::Archive { dataset, month, source };
        let draft = tempfile::tempfile().map_err(|error| fail(error.into()))?;
        let identity = identity(entry);
        let writer = FileWriter::begin(draft, &entry.columns, identity);
        let mut writer = writer.map_err(|error| fail(error.into()))?;
        let mut rows = RowsDigest::new(&entry.columns);
        let empty = self.empty(dataset)?;
        let (mut ends, mut last_row) = (None, i64::MIN);
        self.scan(dataset, month.span(), &mut |batch| {
            let Rows::Raw(block) = batch.rows()? else { return Ok(ControlFlow::Continue(())) };
            if let (Some(first), Some(last)) = (block.times.first(), block.times.last()) {
                let start = ends.map_or(*first, |ends: Span| ends.first);
                ends = Some(Span { first: start, last: *last });
            }
            last_row = block.ids.iter().copied().fold(last_row, i64::max);
            rows.add(&block);
            writer.add(&block).map_err(|error| fail(error.into()))?;
            Ok(ControlFlow::Continue(()))
        })?;
        let Some(ends) = ends else { return Ok(None) };
        // What was merged is what the record of that time says.
        if stamps(&self.store.archived(dataset, month.span())?) != stamps(before) {
            return Err(StoreError::ArchiveChanged { dataset });
        }
        // The file would lack the values of a column that was added in the meantime.
        let sight = self.store.sight(None, &DatasetRef::Id(dataset))?;
        if sight.is_none_or(|sight| digest_of(&sight.columns) != digest_of(&entry.columns)) {
            return Err(StoreError::ArchiveChanged { dataset });
        }
        let written = writer.finish().map_err(|error| fail(error.into()))?;
        let file = ArchivedFile {
            month,
            stamp: random(),
            key: format!("dataset={dataset}/month={month}/part-0.parquet"),
            n_rows: rows.n_rows,
            n_bytes: written.n_bytes,
            sha256: written.sha256,
            tail_bytes: written.tail_bytes,
            tail_crc: written.tail_crc,
            rows: ends,
            last_row,
            columns: digest_of(&entry.columns),
            written: Timestamp::default(),
        };
        Ok(Some((written, Draft { file, rows, empty })))
    }

    /// Checks that no other store has a file in the place of one that was never recorded here.
    fn check_owner(&self, entry: &CatalogEntry, file: &ArchivedFile) -> Result<()> {
        let (dataset, month) = (entry.dataset.id, file.month);
        let fail =
            |error: ObjectError| StoreError::Archive { dataset, month, source: error.into() };
        let Some(n_bytes) = self.objects.length(&file.key).map_err(fail)? else { return Ok(()) };
        let owner = read_owner(&self.objects, &file.key, n_bytes).map_err(fail)?;
        if owner.as_deref() == Some(&identity(entry)) {
            return Ok(());
        }
        let what = "it is there already, and of another store".to_owned();
        Err(fail(ObjectError::Damaged { key: file.key.clone(), what }))
    }

    /// Reads a file that was written, and compares it with what was to be written.
    fn verify(
        &self,
        file: &ArchivedFile,
        want: RowsDigest,
        empty: &Block,
    ) -> Result<(), ObjectError> {
        let footer = FileFooter::read(&self.objects, file)?;
        let reader =
            FileReader { objects: &self.objects, file: file.clone(), footer: footer.into() };
        let mut found = RowsDigest { shown: want.shown.clone(), ..RowsDigest::default() };
        let mut from = 0;
        while from < reader.n_rows() {
            let until = reader.n_rows().min(from + 16 * PAGE_ROWS as u64);
            found.add(&reader.rows(from..until, empty)?);
            from = until;
        }
        if found.n_rows == want.n_rows && found.sha256.finalize() == want.sha256.finalize() {
            return Ok(());
        }
        let what = "it does not hold the rows that were written".to_owned();
        Err(ObjectError::Damaged { key: file.key.clone(), what })
    }
}

/// A file that is not written to its place yet.
pub(super) struct Draft {
    pub(super) file: ArchivedFile,
    rows: RowsDigest,
    /// A block without rows, of the dataset.
    empty: Block,
}

/// Digest of rows, however they are divided into blocks.
#[derive(Default)]
struct RowsDigest {
    /// Places of the columns in the file.
    shown: Vec<usize>,
    n_rows: u64,
    sha256: Sha256,
}

impl RowsDigest {
    fn new(columns: &[Column]) -> Self {
        let shown = columns.iter().enumerate().filter(|(_, column)| !column.is_deleted());
        Self { shown: shown.map(|(place, _)| place).collect(), ..Self::default() }
    }

    fn add(&mut self, block: &Block) {
        self.n_rows += block.len() as u64;
        let number = |number: Option<i64>| number.unwrap_or_default().to_le_bytes();
        for row_idx in 0..block.len() {
            let time = |times: &[Timestamp]| times.get(row_idx).map(|time| time.micros());
            self.sha256.update(number(time(&block.times)));
            self.sha256.update(number(block.ids.get(row_idx).copied()));
            self.sha256.update(number(time(&block.created)));
            for series in self.shown.iter().filter_map(|place| block.columns.get(*place)) {
                add_value(&mut self.sha256, series, row_idx);
            }
        }
    }
}

fn add_value(sha256: &mut Sha256, series: &Series, row_idx: usize) {
    let bits = match series {
        Series::Float(values) => values.get(row_idx).copied().flatten().map(f64::to_bits),
        Series::Integer(values) => values.get(row_idx).copied().flatten().map(i64::cast_unsigned),
        Series::Boolean(values) => values.get(row_idx).copied().flatten().map(u64::from),
        Series::String(values) => {
            let text = values.get(row_idx).and_then(Option::as_deref);
            sha256.update(text.unwrap_or_default());
            text.map(|text| text.len() as u64)
        }
    };
    sha256.update([u8::from(bits.is_some())]);
    sha256.update(bits.unwrap_or_default().to_le_bytes());
}

/// The name of a dataset in its files, which tells it from one of the same number in another store.
pub(super) fn identity(entry: &CatalogEntry) -> String {
    format!("{} created at {}", entry.dataset.id, entry.dataset.created_at)
}

/// Digest of the names and types of the columns that files of a dataset have.
fn digest_of(columns: &[Column]) -> i64 {
    let mut digest = Sha256::new();
    for (place, column) in columns.iter().enumerate().filter(|(_, column)| !column.is_deleted()) {
        digest.update(format!("{place} {} {:?}\n", column.name, column.dtype));
    }
    let digest: [u8; 32] = digest.finalize().into();
    digest.first_chunk().copied().map_or(0, i64::from_le_bytes)
}
