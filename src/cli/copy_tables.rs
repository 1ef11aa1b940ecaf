//! `triptych keys copy` and `triptych inference copy`: all that one store has in another one, whatever
//! engines keep them.

use std::{
    ops::ControlFlow,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use anyhow::Context as _;
use clap::Args;
use db::copy::{CopiedTables, CopyPlace, CopyProgress, copy};
use model::count::counted;
use stack::data_dir::DataDir;
use tokio::{runtime::Handle, select, task::spawn_blocking};

use crate::cli::{
    output::{can_redraw, print, redraw, tell},
    stop::{self, StopEvents},
    store_place::{StorePlace, resolve_places},
};

/// The flags of `copy`.
#[derive(Debug, Args)]
pub(crate) struct CopyFlags {
    /// The store to copy from: a services' data folder, a store's file, or `postgres://user@host/name`
    from: StorePlace,
    /// The store to copy to, likewise, which is empty; a file or the tables are made if they are missing
    to: StorePlace,
}

/// Copies `tables`, of which a data folder has `file_in`.
///
/// # Errors
/// If a store cannot be opened, read or written, the other one has something already, or the copy is not
/// equal to its source.
pub(crate) async fn run(
    flags: CopyFlags,
    tables: CopiedTables,
    file_in: fn(&DataDir) -> PathBuf,
) -> anyhow::Result<()> {
    let (from, to) = resolve_places(flags.from, flags.to, file_in)?;
    let is_stopped = Arc::new(AtomicBool::new(false));
    let must_stop = Arc::clone(&is_stopped);
    let runtime = Handle::current();
    let mut work =
        spawn_blocking(move || runtime.block_on(copy_all(&tables, from, to, &must_stop)));
    select! {
        done = &mut work => return done?,
        stopped = stop::wait_for_stop(StopEvents::Hangup) => stopped?,
    }
    is_stopped.store(true, Ordering::Relaxed);
    work.await?
}

/// Copies, and prints a line for each table.
async fn copy_all(
    tables: &CopiedTables,
    from: StorePlace,
    to: StorePlace,
    must_stop: &AtomicBool,
) -> anyhow::Result<()> {
    let what = format!("copy {from} to {to}");
    let mut printed = Ok(());
    let mut on_progress = |progress: CopyProgress<'_>| {
        match progress {
            CopyProgress::Copied { table, n_rows } => {
                if can_redraw() {
                    redraw("");
                }
                printed = print(&format!("{table}  {}  equal", counted(n_rows, "row")));
            }
            CopyProgress::Rows { table, n_rows } if can_redraw() => {
                redraw(&format!("copying {table}: {}", counted(n_rows, "row")));
            }
            _ => {}
        }
        if printed.is_err() || must_stop.load(Ordering::Relaxed) {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    };
    let copied = copy(tables, &from.into(), &to.into(), &mut on_progress).await;
    printed?;
    let n_rows = copied.context(what)?;
    tell(&format!("{} copied, each equal to its source", counted(n_rows, "row")));
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
