//! Import of the rows of files into datasets.

mod checkpoint;
mod columns;
mod files;
mod report;
mod send;
mod stored;

use std::collections::{HashMap, VecDeque};
use std::iter::once;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use client::datasets::Datasets;
use client::datasets::insert::InsertMode;
use formats::read::column_mapping::ColumnMapping;
use formats::read::loaded::{LoadedRecords, load_selections};
use formats::read::number_text::Decimal;
use formats::read::selection::find_selections;
use formats::read::time_text::TimeTexts;
use formats::read::timestamps::TimeUnit;
use formats::read::{FileError, Format, ReadOptions};
use model::count::counted_short;
use model::dataset::{DatasetId, Dtype};
use model::page::Limit;
use tokio::task::spawn_blocking;
use wire::datasets::CreateDataset;

use self::checkpoint::{ImportCheckpoint, ResumePoint};
use self::files::{ImportFile, find_files, split_file};
pub use self::report::ImportReport;
use self::report::Repeats;
use self::send::{ImportTarget, SendState, bad_row_error, send};
use self::stored::StoredRows;
use crate::event::Reporter;

/// Maximum size of the records that are read in one pass for several parts of a file.
const LOADED_BYTES_MAX: usize = 256 * 1024 * 1024;

/// Options of an import.
#[derive(Debug)]
pub struct ImportOptions {
    /// Files or directories of files. The path `-` is standard input, which requires `columns`.
    pub paths: Vec<PathBuf>,
    /// Id or name of the dataset, or a template for its name. `None` derives the name from the path.
    pub dataset: Option<String>,
    /// Field by which each file is split into datasets, one for each value.
    pub split_by: Option<String>,
    /// Format of all files. `None` determines it by the extension of each file.
    pub format: Option<Format>,
    /// Delimiter of CSV fields. `None` detects it from the header.
    pub delimiter: Option<u8>,
    /// True if the first line of a CSV file has the column names. `None` detects this from the data.
    pub has_header: Option<bool>,
    /// Number of lines of a CSV file to skip before the header or the data.
    pub skip_lines: u64,
    /// Options that determine the columns of a file and the interpretation of their values.
    pub columns: ColumnOptions,
    /// Effect of a row on the stored row with the same timestamp.
    pub mode: InsertMode,
    /// True to skip invalid rows. Otherwise the first invalid row ends the import with an error.
    pub skips_bad: bool,
    /// Number of rows that one request inserts.
    pub batch_rows: usize,
    /// Maximum number of concurrent requests.
    pub n_in_flight: usize,
    /// True to only read the files, without storing rows.
    pub is_dry_run: bool,
    /// True to ignore checkpoints of earlier imports.
    pub is_again: bool,
    /// Description, metadata and tags of datasets that the import creates.
    pub template: CreateDataset,
    /// Directory of the checkpoints. `None` disables them.
    pub checkpoints: Option<PathBuf>,
}

impl ImportOptions {
    /// Returns options that import the file at `path` and decide everything from its data.
    /// `checkpoints` is the directory of checkpoints.
    #[must_use]
    pub fn of_file(path: PathBuf, checkpoints: Option<PathBuf>) -> Self {
        Self {
            paths: vec![path],
            dataset: None,
            split_by: None,
            format: None,
            delimiter: None,
            has_header: None,
            skip_lines: 0,
            columns: ColumnOptions::default(),
            mode: InsertMode::Replace,
            skips_bad: false,
            batch_rows: 5_000,
            n_in_flight: 2,
            is_dry_run: false,
            is_again: false,
            template: CreateDataset::default(),
            checkpoints,
        }
    }
}

/// Options that determine the columns of a file and the interpretation of their values. Without an
/// option, the import decides from the data.
#[derive(Debug, Clone, Default)]
pub struct ColumnOptions {
    /// Name of the field with the timestamp. `None` detects the field.
    pub time: Option<String>,
    /// Unit of numeric timestamps. `None` detects it from their magnitude.
    pub time_unit: Option<TimeUnit>,
    /// Number of the first hour of a day, 0 or 1, in a field of hours. `None` detects it.
    pub first_hour: Option<i8>,
    /// Interpretation of texts as timestamps.
    pub time_texts: TimeTexts,
    /// Pairs of a field and its column, for fields that get a different name.
    pub names: Vec<(String, String)>,
    /// Pairs of the name of a column and its type, which is detected for other columns.
    pub types: Vec<(String, Dtype)>,
    /// Decimal mark of numbers in texts. `None` detects it.
    pub decimal: Option<Decimal>,
    /// Texts that represent a missing value.
    pub nulls: Vec<String>,
    /// Names of the fields that are not imported.
    pub leave_out: Vec<String>,
}

/// An imported file, or one part of a file that is split.
#[derive(Debug)]
pub struct Imported {
    /// Display name of the file.
    pub file: String,
    /// Display name of the file, with the value of the part if the file is split.
    pub title: String,
    /// Name of the dataset that has the imported rows.
    pub dataset_name: String,
    /// Dataset of the rows. `None` in a dry run if the dataset does not exist.
    pub dataset: Option<DatasetId>,
    /// Numbers and examples of rows that were imported, replaced, skipped or truncated.
    pub report: ImportReport,
}

/// Import of several files, one after another.
#[derive(Debug)]
pub struct Import<'a> {
    options: &'a ImportOptions,
    service: &'a Datasets,
    reporter: &'a dyn Reporter,
    files: VecDeque<ImportFile>,
    n_files: usize,
    /// Records of parts of the file that is being split, by their values.
    loaded: HashMap<String, Arc<LoadedRecords>>,
    checkpoint: ImportCheckpoint,
    repeats: Repeats,
    n_imported: usize,
    n_stored: u64,
    n_skipped: u64,
}

impl<'a> Import<'a> {
    /// Finds the files, and the checkpoint of an earlier import of the same files.
    ///
    /// # Errors
    /// An error if a file does not exist, or if its format or dataset cannot be determined.
    pub fn open(
        options: &'a ImportOptions,
        service: &'a Datasets,
        reporter: &'a dyn Reporter,
    ) -> anyhow::Result<Self> {
        let ImportOptions { columns, delimiter, has_header, skip_lines, mode, .. } = options;
        let split_by = options.split_by.as_deref();
        let files =
            find_files(&options.paths, options.dataset.as_deref(), options.format, split_by)?;
        let split = split_by.map(|field| format!(" {field:?}")).unwrap_or_default();
        let reading =
            format!("{columns:?} {delimiter:?} {has_header:?} {skip_lines} {mode:?}{split}");
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
            files: files.into(),
            loaded: HashMap::new(),
            checkpoint,
            repeats: Repeats::default(),
            n_imported: 0,
            n_stored: 0,
            n_skipped: 0,
        })
    }

    /// Imports the next file that has rows which are not stored yet. Returns `None` after the last file.
    ///
    /// # Errors
    /// An error if a file cannot be read, a row is invalid, or the service refuses. Rows that were
    /// already stored remain. A repeated import continues after them.
    pub async fn next_file(&mut self) -> anyhow::Result<Option<Imported>> {
        while let Some(file) = self.files.pop_front() {
            let is_whole = self.options.split_by.is_some() && file.split.is_none();
            let one = if is_whole {
                self.split(&file).await.map(|()| None)
            } else {
                self.import(&file).await
            };
            // Skips an empty file, unless it is the only file.
            if self.n_files > 1 && one.as_ref().is_err_and(is_empty) {
                let name = file.display_name();
                self.reporter.note(&format!("{name} has no rows, and is skipped"));
                continue;
            }
            let one = one.with_context(|| format!("cannot import {}", file.title()))?;
            self.n_imported += usize::from(!is_whole);
            if let Some(imported) = one {
                self.n_stored += imported.report.n_stored();
                self.n_skipped += imported.report.skipped.n_rows;
                return Ok(Some(imported));
            }
        }
        Ok(None)
    }

    /// Reports the total of all files and removes the checkpoint.
    ///
    /// # Errors
    /// An error if no file had rows.
    pub fn finish(self) -> anyhow::Result<()> {
        if self.options.is_dry_run {
            return Ok(());
        }
        self.checkpoint.remove();
        match (self.n_imported, self.n_files) {
            (0, 1) => bail!("file has no rows"),
            (0, n_files) => bail!("none of {n_files} files has rows"),
            (1, _) => {}
            (n_imported, _) => {
                let rows = counted_short(self.n_stored, "row");
                let what = if self.options.split_by.is_some() { "datasets" } else { "files" };
                self.reporter.note(&format!("imported {n_imported} {what}: {rows}"));
            }
        }
        if self.n_skipped > 0 {
            self.reporter
                .note(&format!("skipped {}", counted_short(self.n_skipped, "invalid row")));
        }
        Ok(())
    }

    /// Reads a file to find the values of the field by which it is split, and adds its parts to the
    /// front of the queue.
    async fn split(&mut self, file: &ImportFile) -> anyhow::Result<()> {
        let Self { options, reporter, .. } = *self;
        self.loaded.clear();
        let field = options.split_by.clone().unwrap_or_default();
        if file.is_stdin() {
            bail!("standard input cannot be split, since a split reads the file twice");
        }
        let reading = file.read_options(options);
        let surveyed = Arc::new(columns::survey_file(&options.columns, file, reading).await?);
        columns::check_field(&field, &surveyed)?;
        let path = file.path.clone();
        let found = spawn_blocking(move || find_selections(&path, reading, &field)).await??;
        let name = file.display_name();
        if let Some(bad) = &found.first_bad {
            if !options.skips_bad {
                return Err(bad_row_error(&name, bad));
            }
            let n_bad = counted_short(found.n_bad, "invalid row");
            let (line, reason) = (bad.line, &bad.reason);
            reporter.note(&format!("skipped {n_bad}, the first is {name}:{line}: {reason}"));
        }
        if found.selections.is_empty() {
            return Err(FileError::Empty.into());
        }
        let files = split_file(file, options.dataset.as_deref(), found.selections, &surveyed)?;
        self.n_skipped += found.n_bad;
        self.n_files = self.n_files - 1 + files.len();
        for file in files.into_iter().rev() {
            self.files.push_front(file);
        }
        Ok(())
    }

    /// Returns the records of `file`, which is a part of a file. Returns `None` to read them from the
    /// file. If the parts are interleaved in the file, also reads as many following parts as fit into
    /// memory.
    async fn load(
        &mut self,
        file: &ImportFile,
        reading: ReadOptions,
        mapping: &ColumnMapping,
    ) -> anyhow::Result<Option<Arc<LoadedRecords>>> {
        let Some((selection, _)) = &file.split else { return Ok(None) };
        if let Some(loaded) = self.loaded.remove(&selection.value) {
            return Ok(Some(loaded));
        }
        let following = self.files.iter().take_while(|other| other.path == file.path);
        let following = following.map_while(|other| Some(other.split.as_ref()?.0.clone()));
        let selections: Vec<_> = once(selection.clone()).chain(following).collect();
        if selections.get(1).is_none_or(|next| next.begin.line >= selection.last_line) {
            return Ok(None);
        }
        let (path, mapping) = (file.path.clone(), mapping.clone());
        let loading = move || {
            let wanted = |field: &str| mapping.is_read(field);
            load_selections(&path, reading, &wanted, &selections, LOADED_BYTES_MAX)
        };
        self.loaded = spawn_blocking(loading).await??;
        Ok(self.loaded.remove(&selection.value))
    }

    /// Imports a file, or only reads it in a dry run. Returns `None` if all of its rows are already
    /// stored.
    async fn import(&mut self, file: &ImportFile) -> anyhow::Result<Option<Imported>> {
        let Self { options, service, reporter, .. } = *self;
        let name = file.title();
        let reading = file.read_options(options);
        let mut plan = columns::plan_import(service, &options.columns, file, reading).await?;
        let is_chosen = options.columns.time.is_some() || options.mode == InsertMode::Merge;
        if !is_chosen && !file.is_stdin() && file.split.is_none() {
            columns::check_repeats(&plan, file, reading).await?;
        }
        reporter.note(&plan.preview(file));
        if options.is_dry_run && file.is_stdin() {
            return Ok(None);
        }
        let mut resume = ResumePoint { place: file.begin(), ..ResumePoint::default() };
        let mut dataset = plan.dataset();
        if !options.is_dry_run {
            let checkpoint = &mut self.checkpoint;
            let prepared = plan.prepare_dataset(service, &options.template, file).await?;
            // The new dataset can have the id of a deleted dataset, to which the checkpoint belongs.
            if dataset.is_none() {
                checkpoint.forget(prepared);
            }
            if checkpoint.is_done(file, prepared) {
                reporter.note(&format!("{name} is stored already"));
                return Ok(None);
            }
            resume = checkpoint.resume_point(file, prepared);
            if resume.n_rows > 0 {
                reporter.note(&format!("{name} resumes after row {}", resume.n_rows));
            }
            dataset = Some(prepared);
        }
        if let Some(loaded) = self.load(file, reading, &plan.plan).await? {
            plan.plan.load(loaded);
        }
        let checkpoint = &mut self.checkpoint;
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
        let dataset_name = plan.dataset_name(file);
        let created = dataset.filter(|_| plan.dataset().is_none());
        let sent = send(target, reading, plan.plan, resume, state).await;
        if let Some(created) = created.filter(|_| sent.is_err()) {
            delete_if_empty(service, created).await;
        }
        let report = sent?;
        if let Some(dataset) = dataset.filter(|_| !options.is_dry_run) {
            checkpoint.mark_done(file, dataset);
        }
        let file = file.display_name();
        Ok(Some(Imported { file, title: name, dataset_name, dataset, report }))
    }
}

/// Deletes a dataset that a failed import created if it has no rows, so that the import can be repeated
/// with other types. Ignores errors, since the error of the import is reported.
async fn delete_if_empty(service: &Datasets, dataset: DatasetId) {
    if service.newest(dataset, Limit::clamp(1)).await.is_ok_and(|rows| rows.is_empty()) {
        drop(service.delete(dataset).await);
    }
}

fn is_empty(error: &anyhow::Error) -> bool {
    matches!(error.downcast_ref(), Some(FileError::Empty))
}
