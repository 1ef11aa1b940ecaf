//! Sending the rows of one file: read ahead, several batches under way, acknowledged in order.

use std::{collections::HashMap, mem, sync::Arc};

use anyhow::{Context as _, anyhow, bail};
use client::{
    datasets::{
        Datasets,
        insert::{InsertBody, InsertMode, MERGE_ROWS_MAX},
    },
    error::ClientError,
};
use formats::read::{BadRow, PlacedRow, ReadOptions, Rows, column_mapping::ColumnMapping, judge};
use futures::{StreamExt as _, stream::FuturesOrdered};
use model::{count::counted, dataset::DatasetId, row::Row, timestamp::Timestamp};
use tokio::{sync::mpsc, task::spawn_blocking};

use super::{
    ImportOptions,
    checkpoint::{ImportCheckpoint, ResumePoint},
    files::ImportFile,
    report::{ImportReport, Origin, Repeats},
    sort::{SORT_BYTES, Sorter},
    stored::{FoundRows, StoredRows},
};
use crate::{
    event::{Reporter, Work},
    retry::retry_transient,
};

/// Batches read ahead. Then reading waits for the service.
const BATCHES_AHEAD: usize = 4;

/// The most values of a batch: one of many columns has fewer rows.
const BATCH_VALUES_MAX: usize = 500_000;

/// Rows left out that are reported one by one.
const BAD_SHOWN_MAX: u64 = 20;

/// Said after the first row that does not fit.
const SKIP_HINT: &str = " (correct it; say with --type or --null how to read it; or leave \
                         such rows out with --skip-bad)";

/// What fails if the temporary file does.
const SORTING: &str = "cannot sort the rows in a temporary file";

/// Rows that follow one another in a file, or in the order of their timestamps.
struct Batch {
    rows: Vec<Row>,
    /// Where each comes from.
    origins: Vec<Origin>,
    names: Arc<[String]>,
    /// `None` if nothing is sent.
    body: Option<InsertBody>,
    bad: Vec<BadRow>,
    /// Rows at the same timestamps that the dataset had before.
    found: FoundRows,
    /// The first timestamp of the file as it stands there, and as it was read.
    example: Option<(String, Timestamp)>,
    /// True if the rows were sorted.
    is_sorted: bool,
    /// Where an import resumes after them.
    end: ResumePoint,
    /// How much of the file is read.
    share: Option<f64>,
}

/// The dataset that the rows of a file go to.
pub(super) struct ImportTarget<'a> {
    pub(super) service: &'a Datasets,
    /// `None` if nothing is sent and there is no such dataset.
    pub(super) dataset: Option<DatasetId>,
    pub(super) file: &'a ImportFile,
    pub(super) options: &'a ImportOptions,
    /// Rows that the dataset had before; `None` if it had none.
    pub(super) stored: Option<StoredRows<'a>>,
}

/// The progress of sending a file.
pub(super) struct SendState<'a> {
    pub(super) progress: Box<dyn Work>,
    pub(super) reporter: &'a dyn Reporter,
    pub(super) checkpoint: &'a mut ImportCheckpoint,
    pub(super) report: ImportReport,
    pub(super) repeats: &'a mut Repeats,
}

/// Sends the rows of a file that come after `resume`, read by `options` and mapped by `plan`.
///
/// # Errors
/// If a row does not fit, the file breaks off, or the service refuses. What was stored by then is
/// noted.
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
    // Standard input may never end.
    let sorts = !target.file.is_stdin();
    let name = target.file.display_name();
    let reader = spawn_blocking(move || {
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
                sorted: None,
                sender,
            };
            reader.run()
        };
        if let Err(error) = read() {
            // Where nobody listens the import has ended.
            drop(ended.blocking_send(Err(error)));
        }
    });
    let sent = send_batches(&target, batches, &mut state).await;
    if !is_dry_run {
        state.checkpoint.write();
    }
    reader.await?;
    let n_rows = state.report.n_taken();
    sent.with_context(|| format!("go on after {}", counted(n_rows, "row")))?;
    let n_stored = state.report.n_stored();
    let did = if is_dry_run { "checked" } else { "imported" };
    state.progress.finish(n_stored, &format!("{did} {}", target.file.display_name()));
    Ok(state.report)
}

/// Sends batches, several at once where their rows follow one another: of two rows with one timestamp
/// the later one replaces the other, and rows in their order are what a store likes best.
async fn send_batches(
    target: &ImportTarget<'_>,
    mut batches: mpsc::Receiver<anyhow::Result<Box<Batch>>>,
    state: &mut SendState<'_>,
) -> anyhow::Result<()> {
    let mut under_way = FuturesOrdered::new();
    // The newest timestamp that is under way.
    let mut newest: Option<Timestamp> = None;
    let mut waiting: Option<Box<Batch>> = None;
    let (mut is_read, mut end) = (false, Ok(()));
    loop {
        let has_room = |batch: &mut Box<Batch>| {
            let follows = newest.is_none_or(|newest| batch.first().is_none_or(|at| at > newest));
            under_way.is_empty() || (under_way.len() < target.options.n_in_flight && follows)
        };
        if let Some(batch) = waiting.take_if(has_room) {
            let before = newest.filter(|_| !under_way.is_empty());
            newest = before.max(batch.last());
            under_way.push_back(store_batch(target, *batch));
        }
        tokio::select! {
            read = batches.recv(), if waiting.is_none() && !is_read => match read {
                Some(Ok(batch)) => waiting = Some(batch),
                Some(Err(error)) => end = Err(error),
                None => is_read = true,
            },
            Some(stored) = under_way.next() => state.acknowledge(&stored?, target),
            else => return end,
        }
    }
}

/// Stores a batch, again and again if need be. Rows that the service refuses are left out if that is
/// wanted.
async fn store_batch(target: &ImportTarget<'_>, mut batch: Batch) -> anyhow::Result<Batch> {
    if let Some(stored) = &target.stored {
        batch.found = stored.find(&batch.rows).await;
    }
    while let Some(body) = batch.body.take().filter(|_| !batch.rows.is_empty()) {
        let insert = || target.service.insert_body(&body, target.options.mode);
        let mut refusals: HashMap<usize, String> = match retry_transient(insert).await {
            Ok(_) => break,
            Err(ClientError::Rows { refusals, .. }) => refusals.into_iter().rev().collect(),
            Err(error) => return Err(error).context("store the rows"),
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
            bail!("have rows taken that the service refuses without saying which");
        };
        if !target.options.skips_bad {
            return Err(bad_row_error(&target.file.display_name(), first));
        }
        let body = |dataset| InsertBody::new(dataset, &batch.names, &batch.rows);
        batch.body = target.dataset.map(body);
    }
    Ok(batch)
}

/// Says what is wrong with a row of the file called `name`, and what to do.
fn bad_row_error(name: &str, BadRow { line, reason }: &BadRow) -> anyhow::Error {
    anyhow!("{name}:{line}: {reason}{SKIP_HINT}")
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
            self.reporter.note(&format!("left out {name}:{line}: {reason}"));
            if self.report.skipped.n_rows == BAD_SHOWN_MAX {
                self.reporter.note("further rows that are left out are only counted");
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

/// Rows that are not sent yet.
#[derive(Default)]
struct Pending {
    rows: Vec<Row>,
    origins: Vec<Origin>,
    bad: Vec<BadRow>,
}

/// Reads batches on a thread of its own.
struct Reader {
    rows: Rows,
    /// The file, for people.
    name: String,
    names: Arc<[String]>,
    /// `None` if nothing is sent.
    dataset: Option<DatasetId>,
    /// The most rows of a batch, at least one.
    n_rows_max: usize,
    skips_bad: bool,
    /// True if rows that are out of order are sorted.
    sorts: bool,
    at: ResumePoint,
    /// Rows read, those after `at` included.
    n_rows: u64,
    /// `at` and `n_rows` after the last batch that was sent.
    sent: (ResumePoint, u64),
    /// The timestamp of the row before.
    last: Option<Timestamp>,
    pending: Pending,
    /// Rows to be sent in their order: how many of how many were.
    sorted: Option<(u64, u64)>,
    sender: mpsc::Sender<anyhow::Result<Box<Batch>>>,
}

impl Reader {
    /// Sends the rows as they come, from the first one that is out of order on sorted.
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
                // What came before it counts.
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

    /// Sorts all rows that are not sent yet, of which `first` is the next one, and sends them. Where
    /// the import of sorted rows was stopped, those that were stored are not sent again.
    fn send_sorted(mut self, first: Option<PlacedRow>) -> anyhow::Result<()> {
        let mut sorter = Sorter::new(SORT_BYTES);
        // The newest row may be the first one: stored before the others, it makes all of them late.
        let rows = mem::take(&mut self.pending.rows).into_iter();
        for (row, origin) in rows.zip(mem::take(&mut self.pending.origins)) {
            sorter.push(row, origin).context(SORTING)?;
        }
        let n_sent_rows;
        (self.at, n_sent_rows) = self.sent;
        // An import that resumes before some rows that were sent sorts these, too.
        let is_resumable = self.at.n_rows == n_sent_rows;
        let mut next = first.map(Ok);
        loop {
            match next {
                Some(Ok(PlacedRow { row, place, is_cut, .. })) => {
                    let origin = Origin { line: place.line, is_cut };
                    sorter.push(row, origin).context(SORTING)?;
                }
                Some(Err(row)) if self.skips_bad => {
                    self.pending.bad.push(row);
                    if self.is_full() && !self.send_batch() {
                        return Ok(());
                    }
                }
                Some(Err(row)) => return Err(bad_row_error(&self.name, &row)),
                None => {}
            }
            next = self.rows.next_row()?;
            if next.is_none() {
                break;
            }
        }
        let mut sorted = sorter.finish().context(SORTING)?;
        let (n_stored, n_all) = (self.at.n_sorted, sorted.n_rows());
        for n_sent in 1..=n_all {
            let row = sorted.next().context("read the sorted rows")?;
            let Some((row, origin)) = row.filter(|_| n_sent > n_stored) else { continue };
            self.pending.rows.push(row);
            self.pending.origins.push(origin);
            self.sorted = Some((n_sent, n_all));
            if is_resumable {
                self.at.n_rows += 1;
                self.at.n_sorted = n_sent;
            }
            if self.is_full() && !self.send_batch() {
                return Ok(());
            }
        }
        self.send_batch();
        Ok(())
    }

    /// Sends the pending rows; returns whether they were received.
    fn send_batch(&mut self) -> bool {
        let Pending { rows, origins, bad } = mem::take(&mut self.pending);
        let (n_read, n_all) = match self.sorted {
            Some((n_sent, n_all)) => (n_sent, Some(n_all)),
            None => self.rows.progress_bytes(),
        };
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let share = n_all.map(|n_all| n_read as f64 / n_all.max(1) as f64);
        let batch = Batch {
            body: self.dataset.map(|dataset| InsertBody::new(dataset, &self.names, &rows)),
            names: Arc::clone(&self.names),
            rows,
            origins,
            bad,
            found: FoundRows::default(),
            example: self.rows.time_example().cloned(),
            is_sorted: self.sorted.is_some(),
            end: self.at,
            share,
        };
        self.sent = (self.at, self.n_rows);
        self.sender.blocking_send(Ok(Box::new(batch))).is_ok()
    }
}
