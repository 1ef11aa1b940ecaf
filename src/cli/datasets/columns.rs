//! `triptych datasets columns`: the columns of a dataset, listed, added, renamed and deleted.

use anyhow::{Context as _, bail};
use clap::Args;
use model::escape::escape_line;
use wire::datasets::{ColumnBody, CreateColumn};

use super::{connection::DatasetFlags, create::parse_column};
use crate::cli::output::{print, print_body, table, tell};
use crate::cli::parse::parse_pair;

/// The flags of `datasets columns`.
#[derive(Debug, Args)]
pub(crate) struct ColumnsCommand {
    /// Add a column, such as `close` or `trades:integer`; types are float, integer, string, boolean.
    /// Rows that are stored have no value in it
    #[arg(long, value_name = "NAME[:TYPE]", value_parser = parse_column)]
    add: Vec<CreateColumn>,
    /// Rename a column; its values stay
    #[arg(long, value_name = "NAME=NEW_NAME", value_parser = parse_pair)]
    rename: Vec<(String, String)>,
    /// Delete a column with its values; takes --yes
    #[arg(long, value_name = "NAME")]
    delete: Vec<String>,
    /// Confirm --delete: there is no way back
    #[arg(long, requires = "delete")]
    yes: bool,
    /// Print each column as a line of JSON, as the service answers it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Changes columns in the order rename, delete, add, and lists those that there are then.
///
/// # Errors
/// If a delete is not confirmed, or the service refuses a change. Those before it are made.
pub(super) async fn run(command: ColumnsCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let id = dataset.id;
    if !command.delete.is_empty() && !command.yes {
        let names = command.delete.join(", ");
        let name = escape_line(&dataset.name);
        bail!("delete {names} of dataset {id}, {name}, without --yes: there is no way back");
    }
    for (name, new_name) in &command.rename {
        let renaming = || format!("rename column {name} of dataset {id} to {new_name}");
        service.rename_column(id, name, new_name).await.with_context(renaming)?;
        tell(&format!("renamed column {name} of dataset {id} to {new_name}"));
    }
    for name in &command.delete {
        let deleting = || format!("delete column {name} of dataset {id}");
        service.delete_column(id, name).await.with_context(deleting)?;
        tell(&format!("deleted column {name} of dataset {id}"));
    }
    for CreateColumn { name, dtype } in &command.add {
        let adding = || format!("add column {name} to dataset {id}");
        service.add_column(id, name, dtype.parse()?).await.with_context(adding)?;
        tell(&format!("added column {name} to dataset {id}"));
    }
    let columns = service.columns(id).await.with_context(|| format!("list columns of {id}"))?;
    if command.json {
        for column in columns {
            print_body(&ColumnBody::from(column))?;
        }
        return Ok(());
    }
    if columns.is_empty() {
        tell(&format!("dataset {id} has no columns; --add NAME adds one"));
        return Ok(());
    }
    let rows: Vec<_> =
        columns.into_iter().map(|column| vec![column.name, column.dtype.to_string()]).collect();
    print(&table(&["name", "type"], &rows, &[]))
}
