//! Sends the rows of a file: reads ahead, sends several batches concurrently, and records their progress
//! in order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::{Arc, mpsc as std_mpsc};
use std::{mem, thread, vec};

use anyhow::{Context as _, anyhow, bail};
use client::datasets::Datasets;
use client::datasets::insert::{InsertBody, InsertMode, MERGE_ROWS_MAX};
use client::error::ClientError;
use formats::read::column_mapping::ColumnMapping;
use formats::read::{BadRow, PlacedRow, ReadOptions, Rows, judge};
use futures::StreamExt as _;
use futures::stream::FuturesOrdered;
use model::count::counted;
use model::dataset::DatasetId;
use model::row::{Row, Value};
use model::timestamp::Timestamp;
use tokio::sync::mpsc;

use super::ImportOptions;
use super::checkpoint::{ImportCheckpoint, ResumePoint};
use super::files::ImportFile;
use super::report::{ImportReport, Origin, Repeats};
use super::stored::{FoundRows, StoredRows};
use crate::event::{Reporter, Work};
use crate::retry::retry_transient;

/// Number of batches that are read ahead.
const BATCHES_AHEAD: usize = 4;

/// Maximum number of values of a batch. This limits the number of rows if there are many columns.
const BATCH_VALUES_MAX: usize = 500_000;

/// Maximum number of skipped rows for which a message is shown.
const BAD_SHOWN_MAX: u64 = 20;

/// Advice in the error for an invalid row.
const SKIP_HINT: &str = "\nhint: correct the row, describe its values with --time-format, --type or \
                         --null, or skip invalid rows with --skip-bad";

/// Maximum size of rows that are sorted together: some million rows with a few numbers. In a longer
/// file, rows of a later part that precede rows of an earlier part are stored as late rows.
const SORT_BYTES: usize = 256 * 1024 * 1024;

/// Number of rows that are sorted while the next rows are read.
const RUN_ROWS: usize = 32 * 1024;

/// Consecutive rows of a file, or of the sorted rows.
struct Batch {
    rows: Vec<Row>,
    /// Origins of the rows.
    origins: Vec<Origin>,
    names: Arc<[String]>,
    /// `None` in a dry run.
    body: Option<InsertBody>,
    bad: Vec<BadRow>,
    /// Rows that the dataset already had at the same timestamps.
    found: FoundRows,
    /// First timestamp in the file, as written and as interpreted.
    example: Option<(String, Timestamp)>,
    /// True if the rows were sorted.
    is_sorted: bool,
    /// Point at which an import resumes after these rows.
    end: ResumePoint,
    /// Share of the file that was read.
    share: Option<f64>,
}

/// Dataset to which the rows of a file are sent, and the rows that it had before.
pub(super) struct ImportTarget<'a> {
    pub(super) service: &'a Datasets,
    /// `None` if the dataset does not exist in a dry run.
    pub(super) dataset: Option<DatasetId>,
    pub(super) file: &'a ImportFile,
    pub(super) options: &'a ImportOptions,
    /// Rows that the dataset had before, or `None` if it had no rows.
    pub(super) stored: Option<StoredRows<'a>>,
}

/// State of sending a file.
pub(super) struct SendState<'a> {
    pub(super) progress: Box<dyn Work>,
    pub(super) reporter: &'a dyn Reporter,
    pub(super) checkpoint: &'a mut ImportCheckpoint,
    pub(super) report: ImportReport,
    pub(super) repeats: &'a mut Repeats,
}

/// Sends the rows of a file that follow the point `resume`. The file is read according to `options` and
/// mapped by `plan`.
///
/// # Errors
/// An error if a row is invalid, the file is truncated, or the service refuses. The rows that were
/// stored before the error are recorded.
pub(super) async fn send(
    target: ImportTarget<'_>,
    options: ReadOptions,
    plan: ColumnMapping,
    resume: ResumePoint,
    mut state: SendState<'_>,
) -> anyhow::Result<ImportReport> {
    let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
    let ImportOptions { mode, batch_rows, skips_bad, is_dry_run, .. } = *target.options;
    let (path, dataset) = (target.file.path.clone(), target.dataset.filter(|_| !is_dry_run));
    // Standard input is not sorted, since it may be endless.
    let sorts = !target.file.is_stdin();
    let name = target.file.display_name();
    let reader = thread::spawn(move || {
        let names: Arc<[String]> = plan.names().into();
        let ended = sender.clone();
        let read = || {
            let first_bad = judge(&path, options, &plan, resume.place)?;
            if let Some(bad) = first_bad.filter(|_| !skips_bad) {
                return Err(bad_row_error(&name, &bad));
            }
            let rows = Rows::open(&path, options, plan, resume.place)?;
            let rows_max = if mode == InsertMode::Merge { MERGE_ROWS_MAX } else { usize::MAX };
            let rows_max = batch_rows.min(rows_max).min(BATCH_VALUES_MAX / names.len().max(1));
            let reader = Reader {
                rows,
                name,
                names,
                dataset,
                n_rows_max: rows_max.max(1),
                skips_bad,
                sorts,
                at: resume,
                n_rows: resume.n_rows,
                sent: (resume, resume.n_rows),
                last: None,
                pending: Pending::default(),
                is_sorted: false,
                sender,
            };
            reader.run()
        };
        if let Err(error) = read() {
            // Sending fails if the import was stopped.
            drop(ended.blocking_send(Err(error)));
        }
    });
    let sent = send_batches(&target, batches, &mut state).await;
    if !is_dry_run {
        state.checkpoint.write();
    }
    let n_rows = state.report.n_taken();
    // After a failure, the thread can still wait for standard input.
    sent.with_context(|| format!("import stopped after {}", counted(n_rows, "row")))?;
    reader.join().map_err(|_| anyhow!("reading panicked"))?;
    let n_stored = state.report.n_stored();
    let did = if is_dry_run { "checked" } else { "imported" };
    state.progress.finish(n_stored, &format!("{did} {}", target.file.title()));
    Ok(state.report)
}

/// Sends batches. A batch that begins after the end of all batches in flight is sent concurrently with
/// them. Any other batch waits for them: of two rows with the same timestamp, the later row must be
/// stored last, and a store is fastest with ordered rows.
async fn send_batches(
    target: &ImportTarget<'_>,
    mut batches: mpsc::Receiver<anyhow::Result<Box<Batch>>>,
    state: &mut SendState<'_>,
) -> anyhow::Result<()> {
    let mut in_flight = FuturesOrdered::new();
    // Latest timestamp of the batches in flight.
    let mut newest: Option<Timestamp> = None;
    let mut waiting: Option<Box<Batch>> = None;
    let (mut is_read, mut end) = (false, Ok(()));
    loop {
        let has_room = |batch: &mut Box<Batch>| {
            let follows = newest.is_none_or(|newest| batch.first().is_none_or(|at| at > newest));
            in_flight.is_empty() || (in_flight.len() < target.options.n_in_flight && follows)
        };
        if let Some(batch) = waiting.take_if(has_room) {
            let before = newest.filter(|_| !in_flight.is_empty());
            newest = before.max(batch.last());
            in_flight.push_back(store_batch(target, *batch));
        }
        tokio::select! {
            read = batches.recv(), if waiting.is_none() && !is_read => match read {
                Some(Ok(batch)) => waiting = Some(batch),
                Some(Err(error)) => end = Err(error),
                None => is_read = true,
            },
            Some(stored) = in_flight.next() => state.acknowledge(&stored?, target),
            else => return end,
        }
    }
}

/// Stores a batch, with retries. If invalid rows are skipped, omits the rows that the service rejects.
async fn store_batch(target: &ImportTarget<'_>, mut batch: Batch) -> anyhow::Result<Batch> {
    if let Some(stored) = &target.stored {
        batch.found = stored.find(&batch.rows).await;
    }
    while let Some(body) = batch.body.take().filter(|_| !batch.rows.is_empty()) {
        let insert = || target.service.insert_body(&body, target.options.mode);
        let mut refusals: HashMap<usize, String> = match retry_transient(insert).await {
            Ok(_) => break,
            Err(ClientError::Rows { refusals, .. }) => refusals.into_iter().rev().collect(),
            Err(error) => return Err(error).context("cannot store rows"),
        };
        let n_bad = batch.bad.len();
        let rows = mem::take(&mut batch.rows).into_iter().zip(mem::take(&mut batch.origins));
        for (idx, (row, origin)) in rows.enumerate() {
            if let Some(reason) = refusals.remove(&idx) {
                batch.bad.push(BadRow { line: origin.line, reason });
            } else {
                batch.rows.push(row);
                batch.origins.push(origin);
            }
        }
        let Some(first) = batch.bad.get(n_bad) else {
            bail!("service rejected rows without listing them");
        };
        if !target.options.skips_bad {
            return Err(bad_row_error(&target.file.display_name(), first));
        }
        let body = |dataset| InsertBody::new(dataset, &batch.names, &batch.rows);
        batch.body = target.dataset.map(body);
    }
    Ok(batch)
}

/// Returns the error for an invalid row in the file called `name`.
pub(super) fn bad_row_error(name: &str, BadRow { line, reason }: &BadRow) -> anyhow::Error {
    anyhow!("{name}:{line}: {reason}{SKIP_HINT}")
}

fn pending_row(PlacedRow { row, place, is_cut, .. }: PlacedRow) -> PendingRow {
    (row, Origin { line: place.line, is_cut })
}

/// Returns the approximate size of a row in memory.
fn row_bytes(row: &Row) -> usize {
    let text_bytes = |value: &Option<Value>| match value {
        Some(Value::String(text)) => text.len(),
        _ => 0,
    };
    size_of::<(Row, Origin)>()
        + row.values.len() * size_of::<Option<Value>>()
        + row.values.iter().map(text_bytes).sum::<usize>()
}

impl SendState<'_> {
    fn acknowledge(&mut self, stored: &Batch, target: &ImportTarget<'_>) {
        for (origin, row) in stored.origins.iter().zip(&stored.rows) {
            self.report.record_accepted(*origin, row.timestamp, &stored.found, self.repeats);
        }
        self.report.is_sorted |= stored.is_sorted;
        if self.report.example.is_none() {
            self.report.example.clone_from(&stored.example);
        }
        for BadRow { line, reason } in &stored.bad {
            self.report.record_skipped(*line, reason);
            if self.report.skipped.n_rows > BAD_SHOWN_MAX {
                continue;
            }
            let name = target.file.display_name();
            self.reporter.note(&format!("skipped {name}:{line}: {reason}"));
            if self.report.skipped.n_rows == BAD_SHOWN_MAX {
                self.reporter.note("further skipped rows are only counted");
            }
        }
        if let Some(dataset) = target.dataset.filter(|_| !target.options.is_dry_run) {
            self.checkpoint.record(target.file, dataset, stored.end);
        }
        self.progress.update(self.report.n_taken(), stored.share);
    }
}

impl Batch {
    fn first(&self) -> Option<Timestamp> {
        self.rows.iter().map(|row| row.timestamp).min()
    }

    fn last(&self) -> Option<Timestamp> {
        self.rows.iter().map(|row| row.timestamp).max()
    }
}

/// A row that was read, and its origin.
type PendingRow = (Row, Origin);

/// Sorted rows of a part of a file.
struct SortedPart {
    rows: MergedRuns,
    /// True if the file ends with this part.
    is_last: bool,
}

/// Rows of several sorted runs in ascending order. Among rows with equal timestamps, the rows of an
/// earlier run are first.
struct MergedRuns {
    runs: Vec<vec::IntoIter<PendingRow>>,
    /// Next timestamp of each run that has rows left, with the index of the run.
    next: BinaryHeap<Reverse<(Timestamp, usize)>>,
}

impl MergedRuns {
    fn new(runs: Vec<Vec<PendingRow>>) -> Self {
        let runs: Vec<_> = runs.into_iter().map(Vec::into_iter).collect();
        let mut merged = Self { next: BinaryHeap::with_capacity(runs.len()), runs };
        for run_idx in 0..merged.runs.len() {
            merged.push_next(run_idx);
        }
        merged
    }

    fn push_next(&mut self, run_idx: usize) {
        if let Some((row, _)) = self.runs[run_idx].as_slice().first() {
            self.next.push(Reverse((row.timestamp, run_idx)));
        }
    }
}

impl Iterator for MergedRuns {
    type Item = PendingRow;

    fn next(&mut self) -> Option<PendingRow> {
        let Reverse((_, run_idx)) = self.next.pop()?;
        let row = self.runs[run_idx].next();
        self.push_next(run_idx);
        row
    }
}

/// Rows that were not sent yet.
#[derive(Default)]
struct Pending {
    rows: Vec<Row>,
    origins: Vec<Origin>,
    bad: Vec<BadRow>,
}

/// Reads batches on a separate thread.
struct Reader {
    rows: Rows,
    /// Name of the file in messages.
    name: String,
    names: Arc<[String]>,
    /// `None` in a dry run.
    dataset: Option<DatasetId>,
    /// Maximum number of rows of a batch. At least 1.
    n_rows_max: usize,
    skips_bad: bool,
    /// True to sort rows if they are not in order.
    sorts: bool,
    at: ResumePoint,
    /// Number of rows read so far, including rows after `at`.
    n_rows: u64,
    /// Values of `at` and `n_rows` after the latest batch that was sent.
    sent: (ResumePoint, u64),
    /// Timestamp of the previous row.
    last: Option<Timestamp>,
    pending: Pending,
    /// True once rows are being sorted.
    is_sorted: bool,
    sender: mpsc::Sender<anyhow::Result<Box<Batch>>>,
}

impl Reader {
    /// Sends the rows in the order of the file. Once a row is out of order, sorts the remaining rows.
    fn run(mut self) -> anyhow::Result<()> {
        if self.at.n_sorted > 0 {
            return self.send_sorted(None);
        }
        let end = loop {
            if self.is_full() && !self.send_batch() {
                return Ok(());
            }
            match self.rows.next_row() {
                Ok(Some(Ok(row))) if self.is_late(&row) => return self.send_sorted(Some(row)),
                Ok(Some(Ok(row))) => self.take(row),
                Ok(Some(Err(row))) if self.skips_bad => self.pending.bad.push(row),
                Ok(Some(Err(row))) => break Err(bad_row_error(&self.name, &row)),
                Ok(None) => break Ok(()),
                // The rows before the error are valid, so they are sent.
                Err(error) => break Err(error.into()),
            }
        };
        self.send_batch();
        end
    }

    fn is_late(&self, row: &PlacedRow) -> bool {
        self.sorts && self.last.is_some_and(|last| row.row.timestamp < last)
    }

    fn is_full(&self) -> bool {
        self.pending.rows.len().max(self.pending.bad.len()) >= self.n_rows_max
    }

    fn take(&mut self, PlacedRow { row, place, is_resumable, is_cut }: PlacedRow) {
        self.last = Some(row.timestamp);
        self.pending.rows.push(row);
        self.pending.origins.push(Origin { line: place.line, is_cut });
        self.n_rows += 1;
        if is_resumable {
            (self.at.n_rows, self.at.place) = (self.n_rows, place);
        }
    }

    /// Sends the remaining rows, beginning with `first`, in parts of up to [`SORT_BYTES`], each of which
    /// is sorted. Omits rows that an earlier, stopped import has stored.
    fn send_sorted(mut self, first: Option<PlacedRow>) -> anyhow::Result<()> {
        // The pending rows are sorted, too. If the pending rows were stored first, the latest of these
        // could make all other rows late.
        let Pending { rows, origins, .. } = &mut self.pending;
        let mut run: Vec<PendingRow> =
            mem::take(rows).into_iter().zip(mem::take(origins)).collect();
        run.extend(first.map(pending_row));
        let n_sent_rows;
        (self.at, n_sent_rows) = self.sent;
        // If reading can only resume at a row before the last row that was sent, no progress is
        // recorded: a resumed import would sort the rows between them, too, so `n_sorted` would count
        // other rows.
        let is_resumable = self.at.n_rows == n_sent_rows;
        let (mut n_sorted, n_stored) = (0, self.at.n_sorted);
        self.is_sorted = true;
        loop {
            let Some(SortedPart { rows, is_last }) = self.read_sorted(mem::take(&mut run))? else {
                return Ok(());
            };
            for (row, origin) in rows {
                n_sorted += 1;
                if n_sorted <= n_stored {
                    continue;
                }
                self.pending.rows.push(row);
                self.pending.origins.push(origin);
                if is_resumable {
                    self.at.n_rows += 1;
                    self.at.n_sorted = n_sorted;
                }
                if self.is_full() && !self.send_batch() {
                    return Ok(());
                }
            }
            if !self.send_batch() || is_last {
                return Ok(());
            }
        }
    }

    /// Reads and sorts rows of up to [`SORT_BYTES`] that begin with the rows of `run`. Another thread
    /// sorts runs of rows while this thread reads the next run. Returns `None` if the import was
    /// stopped.
    fn read_sorted(&mut self, mut run: Vec<PendingRow>) -> anyhow::Result<Option<SortedPart>> {
        let (to_sorter, runs) = std_mpsc::channel::<Vec<PendingRow>>();
        // The sorts are stable, since of two rows with the same timestamp the later row must be stored.
        let sorter = thread::spawn(move || {
            let sorted = runs.into_iter().map(|mut run| {
                run.sort_by_key(|(row, _)| row.timestamp);
                // Sorting does not move the values of the rows. Their copies are next to each other in
                // memory, in the order in which they are sent.
                run.clone()
            });
            sorted.collect::<Vec<_>>()
        });
        let mut n_bytes: usize = run.iter().map(|(row, _)| row_bytes(row)).sum();
        let mut is_last = false;
        while n_bytes < SORT_BYTES && !is_last {
            match self.rows.next_row()? {
                Some(Ok(row)) => {
                    n_bytes += row_bytes(&row.row);
                    run.push(pending_row(row));
                }
                Some(Err(row)) if self.skips_bad => {
                    self.pending.bad.push(row);
                    if self.is_full() && !self.send_batch() {
                        return Ok(None);
                    }
                }
                Some(Err(row)) => return Err(bad_row_error(&self.name, &row)),
                None => is_last = true,
            }
            if run.len() >= RUN_ROWS {
                to_sorter.send(mem::take(&mut run))?;
            }
        }
        to_sorter.send(run)?;
        drop(to_sorter);
        let runs = sorter.join().map_err(|_| anyhow!("sorting panicked"))?;
        let rows = MergedRuns::new(runs);
        Ok(Some(SortedPart { rows, is_last }))
    }

    /// Sends the pending rows. Returns false if the import was stopped.
    fn send_batch(&mut self) -> bool {
        let Pending { rows, origins, bad } = mem::take(&mut self.pending);
        let (n_read, n_all) = self.rows.progress_bytes();
        #[expect(clippy::cast_precision_loss, reason = "an approximate share")]
        let share = n_all.map(|n_all| n_read as f64 / n_all.max(1) as f64);
        let batch = Batch {
            body: self.dataset.map(|dataset| InsertBody::new(dataset, &self.names, &rows)),
            names: Arc::clone(&self.names),
            rows,
            origins,
            bad,
            found: FoundRows::default(),
            example: self.rows.time_example().cloned(),
            is_sorted: self.is_sorted,
            end: self.at,
            share,
        };
        self.sent = (self.at, self.n_rows);
        self.sender.blocking_send(Ok(Box::new(batch))).is_ok()
    }
}
