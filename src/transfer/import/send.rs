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

/// Rows that follow one another in a file.
struct Batch {
    rows: Vec<Row>,
    /// Where each comes from.
    origins: Vec<Origin>,
    names: Arc<[String]>,
    body: InsertBody,
    bad: Vec<BadRow>,
    /// The last of them.
    end: ResumePoint,
    /// How much of the file is read.
    share: Option<f64>,
}

/// The dataset that the rows of a file go to.
pub(super) struct ImportTarget<'a> {
    pub(super) service: &'a Datasets,
    pub(super) dataset: DatasetId,
    pub(super) file: &'a ImportFile,
    pub(super) options: &'a ImportOptions,
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
    let (path, dataset) = (target.file.path.clone(), target.dataset);
    let ImportOptions { mode, batch_rows, skips_bad, .. } = *target.options;
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
            let n_rows_max = rows_max.max(1);
            Reader { rows, name, names, dataset, n_rows_max, skips_bad, at: resume, sender }.run()
        };
        if let Err(error) = read() {
            // Where nobody listens the import has ended.
            drop(ended.blocking_send(Err(error)));
        }
    });
    let sent = send_batches(&target, batches, &mut state).await;
    state.checkpoint.write();
    reader.await?;
    let n_rows = state.report.n_taken();
    sent.with_context(|| format!("go on after {}", counted(n_rows, "row")))?;
    let n_stored = state.report.n_stored();
    state.progress.finish(n_stored, &format!("imported {}", target.file.display_name()));
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
    while !batch.rows.is_empty() {
        let insert = || target.service.insert_body(&batch.body, target.options.mode);
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
        batch.body = InsertBody::new(target.dataset, &batch.names, &batch.rows);
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
            self.report.record_accepted(*origin, row.timestamp, target.dataset, self.repeats);
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
        self.checkpoint.record(target.file, target.dataset, stored.end);
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

/// Reads batches on a thread of its own.
struct Reader {
    rows: Rows,
    /// The file, for people.
    name: String,
    names: Arc<[String]>,
    dataset: DatasetId,
    /// The most rows of a batch, at least one.
    n_rows_max: usize,
    skips_bad: bool,
    at: ResumePoint,
    sender: mpsc::Sender<anyhow::Result<Box<Batch>>>,
}

impl Reader {
    fn run(mut self) -> anyhow::Result<()> {
        loop {
            let (mut rows, mut origins, mut bad) = (Vec::new(), Vec::new(), Vec::new());
            let mut end = None;
            while end.is_none() && rows.len() < self.n_rows_max && bad.len() < self.n_rows_max {
                match self.rows.next_row() {
                    Ok(Some(Ok(PlacedRow { row, place, is_cut }))) => {
                        rows.push(row);
                        origins.push(Origin { line: place.line, is_cut });
                        self.at.n_rows += 1;
                        self.at.place = place;
                    }
                    Ok(Some(Err(row))) if self.skips_bad => bad.push(row),
                    Ok(Some(Err(row))) => end = Some(Err(bad_row_error(&self.name, &row))),
                    Ok(None) => end = Some(Ok(())),
                    // What came before it counts.
                    Err(error) => end = Some(Err(error.into())),
                }
            }
            if !self.send_batch(rows, origins, bad) {
                return Ok(());
            }
            if let Some(end) = end {
                return end;
            }
        }
    }

    /// Sends a batch; returns whether it was received.
    fn send_batch(&self, rows: Vec<Row>, origins: Vec<Origin>, bad: Vec<BadRow>) -> bool {
        let (n_read, n_all) = self.rows.progress_bytes();
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let share = n_all.map(|n_all| n_read as f64 / n_all.max(1) as f64);
        let batch = Batch {
            body: InsertBody::new(self.dataset, &self.names, &rows),
            names: Arc::clone(&self.names),
            rows,
            origins,
            bad,
            end: self.at,
            share,
        };
        self.sender.blocking_send(Ok(Box::new(batch))).is_ok()
    }
}
