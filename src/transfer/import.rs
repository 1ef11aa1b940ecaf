//! Import: the rows of files, sent to datasets.

mod checkpoint;
mod columns;
mod files;
mod report;
mod send;
mod sort;
mod stored;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use client::datasets::{Datasets, insert::InsertMode};
use formats::read::{
    FileError, Format, number_text::Decimal, time_text::TimeTexts, timestamps::TimeUnit,
};
use model::{
    count::counted_short,
    dataset::{DatasetId, Dtype},
};
use wire::datasets::CreateDataset;

pub use self::report::ImportReport;
use self::{
    checkpoint::{ImportCheckpoint, ResumePoint},
    files::{ImportFile, find_files},
    report::Repeats,
    send::{ImportTarget, SendState, send},
    stored::StoredRows,
};
use crate::event::Reporter;

/// What is imported, and how.
#[derive(Debug)]
pub struct ImportOptions {
    /// Files, or folders of them; `-` is standard input, whose columns `columns` names.
    pub paths: Vec<PathBuf>,
    /// The dataset's number or name, or a template of it; `None` for the name that the path gives.
    pub dataset: Option<String>,
    /// The format of all files; `None` for that of each one's ending.
    pub format: Option<Format>,
    /// What separates the fields of CSV; `None` for whichever the header has most of.
    pub delimiter: Option<u8>,
    /// Whether the first line of CSV has names; `None` to see by its texts.
    pub has_header: Option<bool>,
    /// Lines of CSV before the header, or before the data.
    pub skip_lines: u64,
    /// How fields become columns.
    pub columns: ColumnOptions,
    /// What a row does to the stored row of its timestamp.
    pub mode: InsertMode,
    /// Whether rows that do not fit are left out; else the first one stops the import.
    pub skips_bad: bool,
    /// Rows sent at a time.
    pub batch_rows: usize,
    /// Batches that may be under way at once.
    pub n_in_flight: usize,
    /// Whether nothing is sent.
    pub is_dry_run: bool,
    /// Whether checkpoints of earlier imports are ignored.
    pub is_again: bool,
    /// Description, metadata and tags of a new dataset.
    pub template: CreateDataset,
    /// The folder of checkpoints; `None` where there is none to write to.
    pub checkpoints: Option<PathBuf>,
}

/// How the fields of a file become columns.
#[derive(Debug, Clone)]
pub struct ColumnOptions {
    /// The field with the timestamp; `None` for the one that looks like it.
    pub time: Option<String>,
    /// What a number there counts; `None` to see by its size.
    pub time_unit: Option<TimeUnit>,
    /// Number of the first hour of a day, in a field of hours; `None` to see by the numbers.
    pub first_hour: Option<i8>,
    /// How texts are read as timestamps.
    pub time_texts: TimeTexts,
    /// The column of a field, where it is not called as the field.
    pub names: Vec<(String, String)>,
    /// The types of columns.
    pub types: Vec<(String, Dtype)>,
    /// The decimal mark of numbers in texts; `None` to see.
    pub decimal: Option<Decimal>,
    /// Texts that are no value.
    pub nulls: Vec<String>,
    /// Fields that are left out.
    pub leave_out: Vec<String>,
}

/// A file that was imported.
#[derive(Debug)]
pub struct Imported {
    /// The file, for people.
    pub file: String,
    /// Where its rows are; `None` if nothing was sent and there is no such dataset.
    pub dataset: Option<DatasetId>,
    /// What was done with them.
    pub report: ImportReport,
}

/// An import of several files, one after another.
#[derive(Debug)]
pub struct Import<'a> {
    options: &'a ImportOptions,
    service: &'a Datasets,
    reporter: &'a dyn Reporter,
    files: std::vec::IntoIter<ImportFile>,
    n_files: usize,
    checkpoint: ImportCheckpoint,
    repeats: Repeats,
    n_imported: usize,
    n_stored: u64,
    n_skipped: u64,
}

impl<'a> Import<'a> {
    /// Finds the files, and the checkpoint of an earlier import of them.
    ///
    /// # Errors
    /// If a file is not there, or it is not to be seen how it is written or where it belongs.
    pub fn open(
        options: &'a ImportOptions,
        service: &'a Datasets,
        reporter: &'a dyn Reporter,
    ) -> anyhow::Result<Self> {
        let files = find_files(&options.paths, options.dataset.as_deref(), options.format)?;
        let ImportOptions { columns, delimiter, has_header, skip_lines, mode, .. } = options;
        let reading = format!("{columns:?} {delimiter:?} {has_header:?} {skip_lines} {mode:?}");
        let checkpoint = ImportCheckpoint::open(
            options.checkpoints.as_deref(),
            (service.address(), &reading),
            &files,
            options.is_again,
        );
        Ok(Self {
            options,
            service,
            reporter,
            n_files: files.len(),
            files: files.into_iter(),
            checkpoint,
            repeats: Repeats::default(),
            n_imported: 0,
            n_stored: 0,
            n_skipped: 0,
        })
    }

    /// Imports files up to the next one that has rows to send; `None` after the last one.
    ///
    /// # Errors
    /// If a file is not to be read, a row does not fit, or the service refuses. What was stored is
    /// kept, and the same import goes on after it.
    pub async fn next_file(&mut self) -> anyhow::Result<Option<Imported>> {
        while let Some(file) = self.files.next() {
            let one = self.import(&file).await;
            // One of many that is empty is no reason to leave out those after it.
            if self.n_files > 1 && one.as_ref().is_err_and(is_empty) {
                let name = file.display_name();
                self.reporter.note(&format!("{name} has no rows, and is left out"));
                continue;
            }
            let one = one.with_context(|| format!("import {}", file.display_name()))?;
            self.n_imported += 1;
            if let Some(imported) = one {
                self.n_stored += imported.report.n_stored();
                self.n_skipped += imported.report.skipped.n_rows;
                return Ok(Some(imported));
            }
        }
        Ok(None)
    }

    /// Reports the sum of all files, and removes the checkpoint.
    ///
    /// # Errors
    /// If no file had a row.
    pub fn finish(self) -> anyhow::Result<()> {
        if self.options.is_dry_run {
            return Ok(());
        }
        self.checkpoint.remove();
        match (self.n_imported, self.n_files) {
            (0, 1) => bail!("find a row in the file"),
            (0, n_files) => bail!("find a row in any of {n_files} files"),
            (1, _) => {}
            (n_imported, _) => {
                let rows = counted_short(self.n_stored, "row");
                self.reporter.note(&format!("imported {n_imported} files: {rows}"));
            }
        }
        if self.n_skipped > 0 {
            let rows = if self.n_skipped == 1 { "row that does" } else { "rows that do" };
            self.reporter.note(&format!("left out {} {rows} not fit", self.n_skipped));
        }
        Ok(())
    }

    /// Imports a file, or reads it in a dry run; `None` if all of it is stored already.
    async fn import(&mut self, file: &ImportFile) -> anyhow::Result<Option<Imported>> {
        let Self { options, service, reporter, .. } = *self;
        let checkpoint = &mut self.checkpoint;
        let name = file.display_name();
        let reading = file.read_options(options);
        let plan = columns::plan_import(service, &options.columns, file, reading).await?;
        reporter.note(&plan.preview(file));
        if options.is_dry_run && file.is_stdin() {
            return Ok(None);
        }
        let mut resume = ResumePoint::default();
        let mut dataset = plan.dataset();
        if !options.is_dry_run {
            let prepared = plan.prepare_dataset(service, &options.template, file).await?;
            // A dataset that was created just now has nothing of an earlier one with its number.
            if dataset.is_none() {
                checkpoint.forget(prepared);
            }
            if checkpoint.is_done(file, prepared) {
                reporter.note(&format!("{name} is stored already"));
                return Ok(None);
            }
            resume = checkpoint.resume_point(file, prepared);
            if resume.n_rows > 0 {
                reporter.note(&format!("{name} goes on after row {}", resume.n_rows));
            }
            dataset = Some(prepared);
        }
        let stored = match plan.dataset() {
            Some(dataset) => StoredRows::open(service, dataset).await,
            None => None,
        };
        let doing = if options.is_dry_run { "checking" } else { "importing" };
        let target = ImportTarget { service, dataset, file, options, stored };
        let state = SendState {
            progress: reporter.begin(format!("{doing} {name}"), resume.n_rows),
            reporter,
            checkpoint: &mut *checkpoint,
            report: ImportReport::new(plan.time_column(), resume.n_rows, options.is_dry_run),
            repeats: self.repeats.of_dataset(&file.dataset),
        };
        let report = send(target, reading, plan.plan, resume, state).await?;
        if let Some(dataset) = dataset.filter(|_| !options.is_dry_run) {
            checkpoint.mark_done(file, dataset);
        }
        Ok(Some(Imported { file: name, dataset, report }))
    }
}

fn is_empty(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(FileError::Empty))
}
