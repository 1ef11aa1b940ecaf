//! `triptych datasets copy`: copies datasets from one store to another. Each store can be a SQLite file
//! or a PostgreSQL database.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::Args;
use model::count::{counted, counted_short};
use model::dataset::{Dataset, DatasetId};
use model::escape::escape_line;
use stack::data_dir::DataDir;
use transfer::event::{Reporter as _, Work};
use tsdb::admin::copy::{self, CopiedDataset, CopyOutcome, CopyProgress, FailedCopy};
use tsdb::admin::remove_log;
use tsdb::archive::objects::{ArchiveUrl, Objects};
use tsdb::archive::{ArchiveOptions, ArchivedStore};
use tsdb::catalog::DatasetRef;
use tsdb::store::engine::Engine;
use tsdb::store::postgres::PostgresStore;
use tsdb::store::sqlite::SqliteStore;
use tsdb::store::{Store, StoreError};

use super::progress::{ProgressReporter, share};
use crate::cli::copy_tables::{StorePlace, copy_until_stopped, resolve_places};
use crate::cli::output::{print, report_error, tell};

/// Options of an archive that is only read: no month becomes old enough to be archived, and no file to
/// be deleted.
const READ_ONLY: ArchiveOptions = ArchiveOptions { after: Duration::MAX, grace: Duration::MAX };

/// The flags of `datasets copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyCommand {
    /// Store to copy from: a services' data directory, a store's file, or
    /// `postgres://user@host/name`
    from: StorePlace,
    /// Store to copy to, in the same form. A file or tables are created if missing
    to: StorePlace,
    /// Archive of the source, as for `serve`. Archived rows are copied into the target itself
    #[arg(long, value_name = "URL")]
    archive: Option<ArchiveUrl>,
    /// Copy this dataset, by number or name, instead of all. May be repeated
    #[arg(long = "dataset", value_name = "DATASET")]
    chosen: Vec<String>,
}

/// Copies datasets.
///
/// # Errors
/// If a store cannot be opened, read or written, or a copied dataset differs from its source. If several
/// datasets fail, the last error is returned, and the earlier errors are printed.
pub(super) async fn run(command: CopyCommand) -> anyhow::Result<()> {
    let CopyCommand { from, to, archive, chosen } = command;
    let (from, to) = resolve_places(from, to, DataDir::datasets)?;
    copy_until_stopped(move |must_stop| {
        let source =
            open_source(&from, archive.as_ref()).with_context(|| format!("cannot open {from}"))?;
        copy_all(&*source, &from, &to, &chosen, must_stop)
    })
    .await
}

/// Opens a store. Blocks.
fn open(place: &StorePlace) -> anyhow::Result<Arc<dyn Engine>> {
    Ok(match place {
        StorePlace::Database(url) => Arc::new(PostgresStore::open(url)?),
        StorePlace::Path(path) => Arc::new(SqliteStore::open(path)?),
    })
}

/// Opens a store to copy from, with its archive if there is an archive. Blocks.
fn open_source(place: &StorePlace, archive: Option<&ArchiveUrl>) -> anyhow::Result<Arc<dyn Store>> {
    let store = open(place)?;
    match archive {
        Some(url) => Ok(Arc::new(ArchivedStore::new(store, Objects::open(url)?, READ_ONLY))),
        None if store.has_archive()? => Err(StoreError::NoArchive.into()),
        None => Ok(store),
    }
}

/// Returns the ids of the datasets with a number or name in `chosen`. Blocks.
fn find_chosen(
    source: &dyn Store,
    from: &StorePlace,
    chosen: &[String],
) -> anyhow::Result<BTreeSet<DatasetId>> {
    let (mut found, mut missing, mut after) = (BTreeSet::new(), chosen.to_vec(), None);
    while let Some(id) = source.next_dataset(after)? {
        after = Some(id);
        let Some(sight) = source.sight(None, &DatasetRef::Id(id))? else { continue };
        let is_named = |name: &String| *name == sight.dataset.name || *name == id.to_string();
        if chosen.iter().any(is_named) {
            found.insert(id);
            missing.retain(|name| !is_named(name));
        }
    }
    if !missing.is_empty() {
        bail!("no dataset in {from} has number or name {}", missing.join(" or "));
    }
    Ok(found)
}

/// Copies the chosen datasets, or all datasets if none are chosen, and prints a line for each. Blocks.
fn copy_all(
    source: &dyn Store,
    from: &StorePlace,
    to: &StorePlace,
    chosen: &[String],
    must_stop: &AtomicBool,
) -> anyhow::Result<()> {
    let found = if chosen.is_empty() { None } else { Some(find_chosen(source, from, chosen)?) };
    let is_chosen =
        |dataset: &Dataset| found.as_ref().is_none_or(|found| found.contains(&dataset.id));
    let target = open(to).with_context(|| format!("cannot open {to}"))?;
    let mut drawing = CopyDrawing { work: None, is_comparing: false, name: String::new() };
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
    drop(target);
    let closed = match to {
        StorePlace::Path(path) => remove_log(path),
        StorePlace::Database(_) => Ok(()),
    };
    printed?;
    let CopyOutcome { n_copied, failed } =
        copied.with_context(|| format!("cannot copy {from} to {to}"))?;
    let fail = |FailedCopy { id, name, error }| {
        let name = escape_line(&name);
        anyhow::Error::new(error).context(format!("cannot copy dataset {id} ({name}) to {to}"))
    };
    let mut failed: Vec<anyhow::Error> = failed.into_iter().map(fail).collect();
    let last = failed.pop();
    failed.iter().for_each(report_error);
    if n_copied > 0 || last.is_none() {
        tell(&format!("copied {}, each equal to its source", counted(n_copied, "dataset")));
    }
    last.map_or(Ok(()), Err)?;
    closed.with_context(|| format!("all rows are copied, but keep {to}-wal with {to}"))
}

/// Formats a copied dataset as a line: `2  btcusd  40.5 k rows  3.1 k buckets  equal`.
fn line_of(dataset: &CopiedDataset) -> String {
    let CopiedDataset { id, name, n_rows, n_buckets } = dataset;
    let rows = format!("{n_rows} {}", if *n_rows == 1 { "row" } else { "rows" });
    let buckets = counted_short(*n_buckets, "bucket");
    format!("{id}  {}  {rows}  {buckets}  equal", escape_line(name))
}

/// Progress of copying one dataset.
struct CopyDrawing {
    work: Option<Box<dyn Work>>,
    is_comparing: bool,
    name: String,
}

impl CopyDrawing {
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
        if let Some(work) = &mut self.work {
            work.update(n_rows, Some(share(n_rows, n_all)));
        }
    }

    fn begin(&mut self, doing: &str, n_rows: u64) {
        // Dropping the progress of the previous dataset clears its line before the next line is drawn.
        self.work = None;
        self.work =
            Some(ProgressReporter::single().begin(format!("{doing} {}", self.name), n_rows));
    }
}

#[cfg(test)]
mod tests {
    use tempfile::tempdir;

    use super::*;

    #[test]
    fn unknown_dataset_is_reported_before_the_target_is_created() {
        let folder = tempdir().unwrap();
        let [from, to] = ["from", "to"].map(|name| StorePlace::Path(folder.path().join(name)));
        let source = open(&from).unwrap();
        let chosen = ["absent".to_owned()];
        let error = copy_all(&*source, &from, &to, &chosen, &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().ends_with("has number or name absent"), "{error}");
        assert!(!folder.path().join("to").exists());
    }
}
