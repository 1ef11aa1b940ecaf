//! `triptych datasets copy`: datasets of one store in another one, whatever engines keep them.

use std::{
    ops::ControlFlow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use anyhow::{Context as _, bail};
use clap::Args;
use model::{
    count::{counted, counted_short},
    dataset::Dataset,
    escape::escape_line,
};
use stack::data_dir::DataDir;
use tokio::{select, task::spawn_blocking};
use transfer::event::{Reporter as _, Work};
use tsdb::{
    admin::copy::{self, CopiedDataset, CopyOutcome, CopyProgress, FailedCopy},
    archive::{
        ArchiveOptions, ArchivedStore,
        objects::{ArchiveUrl, Objects},
    },
    store::{
        StoreError, archived::ArchiveRecords, copying::CopyStore, postgres::PostgresStore,
        sqlite::SqliteStore,
    },
};

use super::progress::Drawn;
use crate::cli::{
    output::{print, tell},
    stop::{self, StopEvents},
    store_place::{StorePlace, resolve_places},
};

/// Settings of an archive that is only read.
const READ_ONLY: ArchiveOptions = ArchiveOptions { after: Duration::MAX, grace: Duration::MAX };

/// The flags of `datasets copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyCommand {
    /// The store to copy from: a services' data folder, a store's file, or `postgres://user@host/name`
    from: StorePlace,
    /// The store to copy to, likewise; a file or the tables are made if they are missing
    to: StorePlace,
    /// Archive of the store to copy from, as `serve` has it. Archived rows are copied into the other store
    #[arg(long, value_name = "URL")]
    archive: Option<ArchiveUrl>,
    /// Copy this dataset, by number or name, not all; may be repeated
    #[arg(long = "dataset", value_name = "DATASET")]
    chosen: Vec<String>,
}

/// Copies.
///
/// # Errors
/// If a store cannot be opened, read or written, or a copy is not equal to its source; where that is so of
/// several datasets, the others were printed before.
pub(super) async fn run(command: CopyCommand) -> anyhow::Result<()> {
    let CopyCommand { from, to, archive, chosen } = command;
    let (from, to) = resolve_places(from, to, DataDir::datasets)?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let must_stop = Arc::clone(&is_stopped);
    let mut work = spawn_blocking(move || {
        let source =
            open_source(&from, archive.as_ref()).with_context(|| format!("open {from}"))?;
        copy_all((&*source, &from), &to, &chosen, &must_stop)
    });
    select! {
        done = &mut work => return done?,
        stopped = stop::wait_for_stop(StopEvents::Hangup) => stopped?,
    }
    is_stopped.store(true, Ordering::Relaxed);
    work.await?
}

/// Opens a store. Blocks.
fn open(place: &StorePlace) -> anyhow::Result<Arc<dyn ArchiveRecords>> {
    Ok(match place {
        StorePlace::Database(url) => Arc::new(PostgresStore::open(url)?),
        StorePlace::Path(path) => Arc::new(SqliteStore::open(path)?),
    })
}

/// Opens a store with its archive. Blocks.
fn open_source(
    place: &StorePlace,
    archive: Option<&ArchiveUrl>,
) -> anyhow::Result<Arc<dyn CopyStore>> {
    let store = open(place)?;
    match archive {
        Some(url) => Ok(Arc::new(ArchivedStore::new(store, Objects::open(url)?, READ_ONLY))),
        None if store.has_archive()? => Err(StoreError::NoArchive.into()),
        None => Ok(store),
    }
}

/// Copies the chosen datasets, or all, and prints a line for each. Blocks.
fn copy_all(
    (source, from): (&dyn CopyStore, &StorePlace),
    to: &StorePlace,
    chosen: &[String],
    must_stop: &AtomicBool,
) -> anyhow::Result<()> {
    let target = open(to).with_context(|| format!("open {to}"))?;
    let is_chosen = |dataset: &Dataset| {
        let is_it = |name: &String| *name == dataset.name || *name == dataset.id.to_string();
        chosen.is_empty() || chosen.iter().any(is_it)
    };
    let mut drawing = Drawing { work: None, is_comparing: false, name: String::new() };
    let mut printed = Ok(());
    let copied = copy::copy(source, &*target, &is_chosen, &mut |progress| {
        if let CopyProgress::Copied(dataset) = progress {
            drawing.work = None;
            printed = print(&line_of(dataset));
        } else {
            drawing.update(progress);
        }
        if printed.is_err() || must_stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    });
    drop(drawing);
    printed?;
    let CopyOutcome { n_copied, failed } =
        copied.with_context(|| format!("copy {from} to {to}"))?;
    let fail = |FailedCopy { id, name, error }| {
        anyhow::Error::new(error)
            .context(format!("copy dataset {id} ({}) to {to}", escape_line(&name)))
    };
    let mut failed: Vec<anyhow::Error> = failed.into_iter().map(fail).collect();
    let last = failed.pop();
    for error in failed {
        tell(&format!("cannot {error:#}"));
    }
    if n_copied == 0 && last.is_none() && !chosen.is_empty() {
        bail!("find {} in {from}: no dataset has such a number or name", chosen.join(", "));
    }
    tell(&format!("{} copied, each equal to its source", counted(n_copied, "dataset")));
    last.map_or(Ok(()), Err)
}

/// A copied dataset as a line for people: `2  btcusd  40.5 k rows  3.1 k buckets  equal  09c2…`.
fn line_of(dataset: &CopiedDataset) -> String {
    let CopiedDataset { id, name, n_rows, n_buckets, checksum } = dataset;
    let rows = format!("{n_rows} {}", if *n_rows == 1 { "row" } else { "rows" });
    let buckets = counted_short(*n_buckets, "bucket");
    format!("{id}  {}  {rows}  {buckets}  equal  {checksum:016x}", escape_line(name))
}

/// The progress of one dataset.
struct Drawing {
    work: Option<Box<dyn Work>>,
    is_comparing: bool,
    name: String,
}

impl Drawing {
    fn update(&mut self, progress: CopyProgress<'_>) {
        let (n_rows, n_all) = match progress {
            CopyProgress::Began { dataset, n_rows } => {
                self.name = escape_line(&dataset.name).into_owned();
                self.begin("copying", n_rows);
                self.is_comparing = false;
                return;
            }
            CopyProgress::Rows { n_rows, n_all } => (n_rows, n_all),
            CopyProgress::Compared { n_rows, n_all } => {
                if !self.is_comparing {
                    self.begin("comparing", 0);
                    self.is_comparing = true;
                }
                (n_rows, n_all)
            }
            _ => return,
        };
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let share = Some(n_rows as f64 / n_all.max(1) as f64);
        if let Some(work) = &mut self.work {
            work.update(n_rows, share);
        }
    }

    fn begin(&mut self, doing: &str, n_rows: u64) {
        // The line before is cleared first.
        self.work = None;
        self.work = Some(Drawn::alone().begin(format!("{doing} {}", self.name), n_rows));
    }
}
