//! `triptych datasets delete`: deletes a dataset, or rows of it, permanently.

use anyhow::{Context as _, bail};
use clap::Args;
use model::count::counted;
use model::escape::escape_line;
use model::timestamp::Timestamp;

use super::connection::DatasetFlags;
use crate::cli::output::tell;
use crate::cli::parse::parse_timestamp;

/// The flags of `datasets delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteCommand {
    /// Only its rows from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, requires = "end")]
    start: Option<Timestamp>,
    /// Only its rows up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, requires = "start")]
    end: Option<Timestamp>,
    /// Mean it: there is no way back
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Deletes.
///
/// # Errors
/// Without the confirming flag, or if the key does not own the dataset.
pub(super) async fn run(command: DeleteCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let (id, name) = (dataset.id, escape_line(&dataset.name));
    if !command.yes {
        bail!("delete from dataset {id}, {name}, unless it is meant: say so with --yes");
    }
    if let (Some(start), Some(end)) = (command.start, command.end) {
        let deleting = || format!("delete rows of dataset {id}");
        let n_rows = service.delete_rows(id, start, end).await.with_context(deleting)?;
        tell(&format!("deleted {} of dataset {id}, {name}", counted(n_rows, "row")));
    } else {
        service.delete(id).await.with_context(|| format!("delete dataset {id}"))?;
        tell(&format!("deleted dataset {id}, {name}"));
    }
    Ok(())
}
