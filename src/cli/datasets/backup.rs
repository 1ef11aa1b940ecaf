//! `triptych datasets backup`: a consistent copy of a store.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use tokio::task::spawn_blocking;
use tsdb::admin;

use super::verify::StoreFlags;
use crate::cli::output::tell;

/// The flags of `datasets backup`.
#[derive(Debug, Args)]
pub(crate) struct BackupCommand {
    /// The file to make; one that is there is left as it is
    to: PathBuf,
    #[command(flatten)]
    store: StoreFlags,
}

/// Backs up.
///
/// # Errors
/// If there is a file already, or it cannot be written whole.
pub(super) async fn run(command: BackupCommand) -> anyhow::Result<()> {
    let (path, to) = (command.store.path_to_read()?, command.to);
    let done = format!("copied {} to {}", path.display(), to.display());
    let n_bytes = spawn_blocking(move || admin::backup(&path, &to)).await?;
    tell(&format!("{done}: {} bytes", n_bytes.context("back up")?));
    Ok(())
}
