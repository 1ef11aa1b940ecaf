//! `triptych datasets move`: datasets from one PostgreSQL server of a store to another.

use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::Args;
use model::{count::counted, dataset::DatasetId};
use parking_lot::Mutex;
use tokio::{select, task::spawn_blocking};
use transfer::event::{Reporter as _, Work};
use tsdb::{
    catalog::DatasetRef,
    store::postgres::{
        PostgresStore,
        moves::{MoveProgress, OnProgress, cancel::CancelledMove},
    },
};

use super::{progress::Drawn, stores::CatalogFlags};
use crate::cli::{
    output::{print, tell},
    stop::{self, StopEvents},
};

/// The flags of `datasets move`.
#[derive(Debug, Args)]
pub(crate) struct MoveCommand {
    /// The dataset to move, by number or name, and the name of the server to move it to; with --all-from
    /// that server alone, with --cancel the dataset alone
    #[arg(required = true, num_args = 1..=2, value_names = ["DATASET", "STORE"])]
    what: Vec<String>,
    /// Move all datasets away from this server, one after another
    #[arg(long, value_name = "STORE")]
    all_from: Option<String>,
    /// Cancel the move of the dataset, which stays where it is
    #[arg(long, conflicts_with = "all_from")]
    cancel: bool,
    #[command(flatten)]
    catalog: CatalogFlags,
}

/// Moves.
///
/// # Errors
/// If the store cannot be opened, or a dataset not be moved.
pub(super) async fn run(command: MoveCommand) -> anyhow::Result<()> {
    let plan = spawn_blocking(move || Plan::open(&command)).await??;
    select! {
        done = plan.run() => done,
        stopped = stop::wait_for_stop(StopEvents::Hangup) => {
            tell("stopped; the same command goes on, as does a service of the store in a minute");
            stopped
        }
    }
}

/// What is to be done with which datasets.
#[derive(Debug)]
struct Plan {
    store: PostgresStore,
    datasets: Vec<DatasetId>,
    deed: Deed,
}

/// What is to be done with each dataset.
#[derive(Debug)]
enum Deed {
    /// It is moved to the server of this name.
    Move(String),
    /// Its move is cancelled.
    Cancel,
}

impl Plan {
    /// Opens the store and finds the datasets. Blocks.
    fn open(command: &MoveCommand) -> anyhow::Result<Self> {
        let store = command.catalog.open()?;
        let MoveCommand { what, all_from, cancel, .. } = command;
        let (datasets, deed) = match (all_from, what.as_slice()) {
            (None, [dataset]) if *cancel => (vec![find(&store, dataset)?], Deed::Cancel),
            _ if *cancel => bail!("cancel a move: name its dataset alone"),
            (Some(from), [to]) if from == to => bail!("move datasets from {from} to itself"),
            (Some(from), [to]) => (store.datasets_on(from)?, Deed::Move(to.clone())),
            (None, [dataset, to]) => (vec![find(&store, dataset)?], Deed::Move(to.clone())),
            _ => bail!("move what to where: name a dataset and a store, or --all-from and a store"),
        };
        Ok(Self { store, datasets, deed })
    }

    async fn run(&self) -> anyhow::Result<()> {
        match &self.deed {
            Deed::Move(to) => self.move_all(to).await,
            Deed::Cancel => self.cancel_all().await,
        }
    }

    /// Cancels moves, and prints a line for each.
    async fn cancel_all(&self) -> anyhow::Result<()> {
        for dataset in &self.datasets {
            let cancelled = self.store.cancel_move(*dataset).await?;
            print(&format!("{dataset}  cancelled"))?;
            if cancelled == CancelledMove::Removing {
                tell(
                    "a server cannot be reached; a service removes what was copied once it can be",
                );
            }
        }
        Ok(())
    }

    /// Moves one dataset after another, and prints a line for each. One that fails keeps no others back.
    async fn move_all(&self, to: &str) -> anyhow::Result<()> {
        let Self { store, datasets, .. } = self;
        let (mut n_moved, mut failed) = (0_u64, None);
        for dataset in datasets {
            let drawn = Drawn::alone().begin(format!("moving dataset {dataset}"), 0);
            let drawn = Arc::new(Mutex::new(Some(drawn)));
            let moved = store.move_dataset(*dataset, to, drawing(&drawn)).await;
            // The line is cleared before another one is printed.
            drop(drawn.lock().take());
            match moved.with_context(|| format!("move dataset {dataset} to {to}")) {
                Ok(true) => {
                    print(&format!("{dataset}  {to}"))?;
                    n_moved += 1;
                }
                Ok(false) => {}
                Err(error) => {
                    if let Some(error) = failed.replace(error) {
                        tell(&format!("failed to {error:#}"));
                    }
                }
            }
        }
        tell(&format!("{} moved to {to}", counted(n_moved, "dataset")));
        failed.map_or(Ok(()), Err)
    }
}

/// The number of a dataset that the service sees under a number or name.
fn find(store: &PostgresStore, name: &str) -> anyhow::Result<DatasetId> {
    let id = name.parse().ok().and_then(DatasetId::new);
    let which = id.map_or_else(|| DatasetRef::Name(name.to_owned()), DatasetRef::Id);
    let found = store.find_dataset(&which)?;
    found.with_context(|| format!("find the dataset {name}: there is none"))
}

/// Draws the progress of a move.
fn drawing(drawn: &Arc<Mutex<Option<Box<dyn Work>>>>) -> OnProgress {
    let drawn = Arc::clone(drawn);
    Arc::new(move |MoveProgress { n_chunks, n_all }| {
        #[expect(clippy::cast_precision_loss, reason = "a share for people")]
        let share = Some(n_chunks as f64 / n_all.max(1) as f64);
        if let Some(work) = drawn.lock().as_mut() {
            // A chunk has about a thousand rows.
            work.update(n_chunks.saturating_mul(1024), share);
        }
    })
}
