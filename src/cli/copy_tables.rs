//! `triptych keys copy` and `triptych inference copy`: copy all tables of one store to another. Each
//! store can be a SQLite file or a PostgreSQL database. The arguments that name a store, and the
//! handling of signals during a copy, are shared with `triptych datasets copy`.

use std::convert::Infallible;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::{fmt, fs, io};

use anyhow::{Context as _, bail};
use clap::Args;
use db::copy::{CopiedTables, CopyPlace, CopyProgress, copy};
use db::postgres::DatabaseUrl;
use model::address::redact_address;
use model::count::counted;
use stack::data_dir::DataDir;
use tokio::runtime::Handle;
use tokio::select;
use tokio::task::spawn_blocking;

use crate::cli::output::{can_redraw, print, redraw, tell};
use crate::cli::stop::{self, StopEvents};

/// Function that returns the path of one crate's store in the services' data directory.
type FileIn = fn(&DataDir) -> PathBuf;

/// Location of a store.
#[derive(Debug, Clone)]
pub(crate) enum StorePlace {
    Database(DatabaseUrl),
    /// The store's file, or the data directory that contains it.
    Path(PathBuf),
}

impl FromStr for StorePlace {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.parse().map_or_else(|_| Self::Path(text.into()), Self::Database))
    }
}

impl fmt::Display for StorePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Database(url) => url.fmt(f),
            Self::Path(path) => redact_address(&path.to_string_lossy()).fmt(f),
        }
    }
}

impl StorePlace {
    /// Replaces the path of a data directory by the path of the store's file in it, which `file_in`
    /// returns. If the target of a copy does not exist, its path is taken as a file if it ends in `.db`,
    /// and otherwise as a directory, which is created.
    fn resolve(self, is_source: bool, file_in: FileIn) -> anyhow::Result<Self> {
        let Self::Path(path) = self else { return Ok(self) };
        if path.to_str().is_some_and(|text| text.contains("://")) {
            bail!(
                "invalid address of a store, expected a PostgreSQL database such as \
                 postgres://user@host/name"
            );
        }
        if path.is_file() || path.extension().is_some_and(|ending| ending == "db") {
            return Ok(Self::Path(path));
        }
        if is_source && !path.is_dir() {
            bail!("{} does not exist", redact_address(&path.to_string_lossy()));
        }
        Ok(Self::Path(file_in(&DataDir::of_services(Some(path))?)))
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Path(one), Self::Path(other)) => {
                let real = |path: &Path| path.canonicalize().ok();
                one == other || (real(one).is_some() && real(one) == real(other))
            }
            _ => self.to_string() == other.to_string(),
        }
    }
}

/// Returns the stores to copy from and to, with each data directory replaced by the store's file in it,
/// which `file_in` returns.
///
/// # Errors
/// If both are the same store, or the source does not exist.
pub(crate) fn resolve_places(
    from: StorePlace,
    to: StorePlace,
    file_in: FileIn,
) -> anyhow::Result<(StorePlace, StorePlace)> {
    let (from, to) = (from.resolve(true, file_in)?, to.resolve(false, file_in)?);
    if from.is_same(&to) {
        bail!("source and target of the copy are the same store: {from}");
    }
    if let StorePlace::Path(path) = &from {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_file() => {}
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(error).with_context(|| format!("cannot read {from}"));
            }
            _ => bail!("{from} does not exist"),
        }
    }
    Ok((from, to))
}

/// Runs `work` on a blocking thread and waits until it ends. A signal sets the flag that is passed to
/// `work`, which should then end early.
///
/// # Errors
/// If `work` fails, or signals cannot be received.
pub(crate) async fn copy_until_stopped(
    work: impl FnOnce(&AtomicBool) -> anyhow::Result<()> + Send + 'static,
) -> anyhow::Result<()> {
    let is_stopped = Arc::new(AtomicBool::new(false));
    let must_stop = Arc::clone(&is_stopped);
    let mut work = spawn_blocking(move || work(&must_stop));
    select! {
        done = &mut work => return done?,
        stopped = stop::wait_for_stop(StopEvents::Hangup) => stopped?,
    }
    is_stopped.store(true, Ordering::Relaxed);
    work.await?
}

/// The flags of `copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyFlags {
    /// Store to copy from: a services' data directory, a store's file, or
    /// `postgres://user@host/name`
    from: StorePlace,
    /// Store to copy to, in the same form. It must be empty; a file or tables are created if
    /// missing
    to: StorePlace,
}

/// Copies `tables`. For a data directory, `file_in` returns the path of the file with the tables.
///
/// # Errors
/// If a store cannot be opened, read or written, the target is not empty, or the copied tables differ
/// from the tables of the source.
pub(crate) async fn run(
    flags: CopyFlags,
    tables: CopiedTables,
    file_in: FileIn,
) -> anyhow::Result<()> {
    let (from, to) = resolve_places(flags.from, flags.to, file_in)?;
    let runtime = Handle::current();
    copy_until_stopped(move |must_stop| runtime.block_on(copy_all(&tables, from, to, must_stop)))
        .await
}

/// Copies the tables and prints a line for each.
async fn copy_all(
    tables: &CopiedTables,
    from: StorePlace,
    to: StorePlace,
    must_stop: &AtomicBool,
) -> anyhow::Result<()> {
    let what = format!("cannot copy {from} to {to}");
    let mut printed = Ok(());
    let mut on_progress = |progress: CopyProgress<'_>| {
        let CopyProgress { table, n_rows, is_done } = progress;
        if can_redraw() {
            let text = format!("copying {table}: {}", counted(n_rows, "row"));
            redraw(if is_done { "" } else { &text });
        }
        if is_done {
            printed = print(&format!("{table}  {}  equal", counted(n_rows, "row")));
        }
        if printed.is_err() || must_stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let copied = copy(tables, &from.into(), &to.into(), &mut on_progress).await;
    printed?;
    let n_rows = copied.context(what)?;
    tell(&format!("copied {}, each equal to its source", counted(n_rows, "row")));
    Ok(())
}

impl From<StorePlace> for CopyPlace {
    fn from(place: StorePlace) -> Self {
        match place {
            StorePlace::Database(url) => Self::Database(url),
            StorePlace::Path(path) => Self::File(path),
        }
    }
}
