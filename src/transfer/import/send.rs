//! Sending the rows of one file: read ahead, several batches under way, acknowledged in order.

use std::sync::Arc;

use anyhow::{Context as _, anyhow, bail};
use client::{
    datasets::{
        Datasets,
        insert::{InsertBody, InsertMode, MERGE_ROWS_MAX},
    },
    error::ClientError,
};
use formats::read::{
    BadRow, FileError, PlacedRow, ReadOptions, Rows, column_mapping::ColumnMapping, judge,
};
use futures::{StreamExt as _, stream::FuturesOrdered};
use model::{count::counted, dataset::DatasetId, row::Row, timestamp::Timestamp};
use tokio::{sync::mpsc, task::spawn_blocking};

use super::{
    ImportOptions,
    checkpoint::{ImportCheckpoint, ResumePoint},
    files::ImportFile,
    report::{AcceptedRow, ImportReport, Repeats},
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

/// How a file is read.
pub(super) struct FileReading {
    pub(super) options: ReadOptions,
    pub(super) plan: ColumnMapping,
}

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

/// Where a row comes from.
#[derive(Debug, Clone, Copy)]
struct Origin {
    /// The line it begins on.
    line: u64,
    /// Whether its timestamp was cut to microseconds.
    is_cut: bool,
}

/// A result of reading the file.
enum ReadEvent {
    Batch(Box<Batch>),
    /// A row that is none ends it.
    Bad(BadRow),
    Failed(FileError),
}

/// A batch that is stored.
struct StoredBatch {
    rows: Vec<(Origin, Timestamp)>,
    bad: Vec<BadRow>,
    end: ResumePoint,
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

/// Sends the rows of a file that come after `resume`.
///
/// # Errors
/// If a row does not fit, the file breaks off, or the service refuses. What was stored by then is
/// noted.
pub(super) async fn send(
    target: ImportTarget<'_>,
    reading: FileReading,
    resume: ResumePoint,
    mut state: SendState<'_>,
) -> anyhow::Result<ImportReport> {
    let FileReading { options: reading_options, plan } = reading;
    let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
    let (path, dataset) = (target.file.path.clone(), target.dataset);
    let ImportOptions { mode, batch_rows, skips_bad, .. } = *target.options;
    let reader = spawn_blocking(move || {
        let names: Arc<[String]> = plan.names().into();
        let judged = judge(&path, reading_options, &plan, resume.place);
        let read = judged.and_then(|first_bad| {
            if let Some(bad) = first_bad.filter(|_| !skips_bad) {
                drop(sender.blocking_send(ReadEvent::Bad(bad)));
                return Ok(());
            }
            let rows = Rows::open(&path, reading_options, plan, resume.place)?;
            let rows_max = if mode == InsertMode::Merge { MERGE_ROWS_MAX } else { usize::MAX };
            let rows_max = batch_rows.min(rows_max).min(BATCH_VALUES_MAX / names.len().max(1));
            let (n_rows_max, sender) = (rows_max.max(1), sender.clone());
            Reader { rows, names, dataset, n_rows_max, skips_bad, at: resume, sender }.run()
        });
        if let Err(error) = read {
            // Where nobody listens the import has ended.
            drop(sender.blocking_send(ReadEvent::Failed(error)));
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
    mut batches: mpsc::Receiver<ReadEvent>,
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
                Some(ReadEvent::Batch(batch)) => waiting = Some(batch),
                Some(ReadEvent::Bad(BadRow { line, reason })) => {
                    end = Err(anyhow!("{}:{line}: {reason}{SKIP_HINT}", target.file.display_name()));
                }
                Some(ReadEvent::Failed(error)) => end = Err(error.into()),
                None => is_read = true,
            },
            Some(stored) = under_way.next() => state.acknowledge(stored?, target),
            else => return end,
        }
    }
}

/// Stores a batch, again and again if need be. Rows that the service refuses are left out if that is
/// wanted.
async fn store_batch(target: &ImportTarget<'_>, batch: Batch) -> anyhow::Result<StoredBatch> {
    let Batch { mut rows, mut origins, names, mut body, mut bad, end, share } = batch;
    while !rows.is_empty() {
        let insert = || target.service.insert_body(&body, target.options.mode);
        let Err(refused) = retry_transient(insert).await else { break };
        match refused {
            ClientError::Rows { refusals, .. } => {
                let refused = |idx: usize| refusals.iter().find(|(row_idx, _)| *row_idx == idx);
                let refused_rows = origins.iter().enumerate().filter_map(|(idx, origin)| {
                    let (_, reason) = refused(idx)?;
                    Some(BadRow { line: origin.line, reason: reason.clone() })
                });
                let refused_rows: Vec<_> = refused_rows.collect();
                let Some(BadRow { line, reason }) = refused_rows.first() else {
                    bail!("have rows taken that the service refuses without saying which");
                };
                if !target.options.skips_bad {
                    bail!("{}:{line}: {reason}{SKIP_HINT}", target.file.display_name());
                }
                bad.extend(refused_rows);
                let mut idx = 0..;
                rows.retain(|_| idx.next().is_some_and(|idx| refused(idx).is_none()));
                let mut idx = 0..;
                origins.retain(|_| idx.next().is_some_and(|idx| refused(idx).is_none()));
                body = InsertBody::new(target.dataset, &names, &rows);
            }
            error => return Err(error).context("store the rows"),
        }
    }
    let rows = origins.into_iter().zip(rows.iter().map(|row| row.timestamp)).collect();
    Ok(StoredBatch { rows, bad, end, share })
}

impl SendState<'_> {
    fn acknowledge(&mut self, stored: StoredBatch, target: &ImportTarget<'_>) {
        for (Origin { line, is_cut }, at) in stored.rows {
            let took = AcceptedRow { dataset: target.dataset, is_cut };
            self.report.record_accepted(line, at, self.repeats, took);
        }
        for BadRow { line, reason } in stored.bad {
            self.report.record_skipped(line, &reason);
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
    names: Arc<[String]>,
    dataset: DatasetId,
    /// The most rows of a batch, at least one.
    n_rows_max: usize,
    skips_bad: bool,
    at: ResumePoint,
    sender: mpsc::Sender<ReadEvent>,
}

impl Reader {
    fn run(mut self) -> Result<(), FileError> {
        loop {
            let (mut rows, mut origins, mut bad) = (Vec::new(), Vec::new(), Vec::new());
            let mut ends = None;
            while rows.len() < self.n_rows_max && bad.len() < self.n_rows_max {
                match self.rows.next_row() {
                    Ok(Some(Ok(PlacedRow { row, place, is_cut }))) => {
                        rows.push(row);
                        origins.push(Origin { line: place.line, is_cut });
                        self.at.n_rows += 1;
                        self.at.place = place;
                    }
                    Ok(Some(Err(row))) if self.skips_bad => bad.push(row),
                    Ok(Some(Err(row))) => ends = Some(Ok(Some(row))),
                    Ok(None) => ends = Some(Ok(None)),
                    // What came before it counts.
                    Err(error) => ends = Some(Err(error)),
                }
                if ends.is_some() {
                    break;
                }
            }
            if !self.send_batch(rows, origins, bad) {
                return Ok(());
            }
            match ends {
                None => {}
                Some(Ok(None)) => return Ok(()),
                Some(Ok(Some(row))) => {
                    drop(self.sender.blocking_send(ReadEvent::Bad(row)));
                    return Ok(());
                }
                Some(Err(error)) => return Err(error),
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
        self.sender.blocking_send(ReadEvent::Batch(Box::new(batch))).is_ok()
    }
}
