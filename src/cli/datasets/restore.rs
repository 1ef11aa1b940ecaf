//! `triptych datasets restore`: a copy of a store in the place of the store.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use model::count::{counted, counted_short};
use tokio::task::spawn_blocking;
use tsdb::admin;

use super::verify::StoreFlags;
use crate::cli::output::tell;

/// The flags of `datasets restore`.
#[derive(Debug, Args)]
pub(crate) struct RestoreCommand {
    /// The copy, which stays as it is
    from: PathBuf,
    /// Mean it: what is stored now is lost
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    store: StoreFlags,
}

/// Restores.
///
/// # Errors
/// If it is not meant, a service uses the store, or the copy is not sound.
pub(super) async fn run(command: RestoreCommand) -> anyhow::Result<()> {
    let (from, path) = (command.from, command.store.path()?);
    if path.exists() && !command.yes {
        bail!("replace {} unless it is meant: say so with --yes", path.display());
    }
    let done = format!("restored {} to {}", from.display(), path.display());
    let report = spawn_blocking(move || admin::restore(&from, &path)).await?;
    let report = report.context("restore")?;
    let datasets = counted(report.n_datasets, "dataset");
    tell(&format!("{done}: {datasets}, {}", counted_short(report.n_rows, "row")));
    Ok(())
}
