//! `triptych datasets list`: the datasets that a key sees.

use clap::Args;
use model::dataset::Dataset;
use transfer::find::{DatasetFilter, list_datasets};
use wire::datasets::DatasetBody;

use super::connection::DatasetServiceFlags;
use crate::cli::output::{print, print_body, table, tell};
use crate::cli::parse::parse_pair;

/// The most of a description that a line shows.
const DESCRIPTION_CHARS: usize = 60;

/// The flags of `datasets list`.
#[derive(Debug, Args)]
pub(crate) struct ListCommand {
    /// Only those whose name or description contains this
    #[arg(long, value_name = "TEXT", conflicts_with = "field")]
    search: Option<String>,
    /// Only those with this metadata field at this value, such as `ticker=btcusd`
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    field: Option<(String, String)>,
    /// At most this many
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Print each as a line of JSON, as the service answers it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Lists.
///
/// # Errors
/// If the service cannot be asked.
pub(super) async fn run(command: ListCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    let wanted = DatasetFilter::new(command.field, command.search);
    let (datasets, n_more) = list_datasets(&service, &wanted, command.limit).await?;
    if command.json {
        for dataset in datasets {
            print_body(&DatasetBody::from(dataset))?;
        }
        return Ok(());
    }
    if datasets.is_empty() {
        let is_all = wanted == DatasetFilter::Search(String::new());
        let what = if is_all { "this key sees no datasets" } else { "there are no such datasets" };
        let hint = if is_all {
            "; `triptych datasets tags --acquire public` shows it the public ones"
        } else {
            ""
        };
        tell(&format!("{what} at {}{hint}", service.address()));
        return Ok(());
    }
    let row = |dataset: &Dataset| {
        let text: String = dataset.description.chars().take(DESCRIPTION_CHARS).collect();
        vec![dataset.id.to_string(), dataset.name.clone(), text]
    };
    let rows: Vec<_> = datasets.iter().map(row).collect();
    print(&table(&["id", "name", "description"], &rows, &[0]))?;
    if n_more > 0 {
        tell(&format!("{n_more} more; ask for them with --limit, or for fewer with --search"));
    }
    Ok(())
}
