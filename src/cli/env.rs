//! `triptych env`: where the local stack answers, and its key, as variables of a shell.

use anyhow::Context as _;
use stack::{local::Addresses, running::find_running};

use crate::cli::output;

/// Prints where the running stack answers, and its key, as assignments that a shell reads.
///
/// # Errors
/// If none runs.
pub(crate) fn print() -> anyhow::Result<()> {
    let Addresses { heads, datasets, inference, api_key, .. } = find_running()
        .context("find a local stack that runs: start one with `triptych up` or `triptych`")?;
    let key = api_key.map(|key| key.reveal().to_owned());
    let head = heads.into_iter().next();
    let variables =
        [("HEAD", head), ("DATASETS", datasets), ("INFERENCE", inference), ("KEY", key)];
    // No value has a quote: addresses are of this program's own making.
    let lines = variables.map(|(name, value)| format!("{name}='{}'", value.unwrap_or_default()));
    output::print(&lines.join("\n"))
}
