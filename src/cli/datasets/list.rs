//! `triptych datasets list`: the datasets that a key sees.

use anyhow::Context as _;
use clap::Args;
use client::datasets::{Datasets, DatasetsQuery};
use model::dataset::Dataset;
use wire::datasets::DatasetBody;

use super::connection::DatasetServiceFlags;
use crate::cli::output::{print, print_json, table, tell};
use crate::cli::parse::parse_pair;

/// Datasets asked for in one page.
const PAGE_DATASETS: usize = 250;

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

/// A filter of datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum DatasetFilter {
    /// Those whose name or description contains the text; with none, all.
    Search(String),
    /// Those with a metadata field at a value.
    Field(String, String),
}

/// Lists.
///
/// # Errors
/// If the service cannot be asked.
pub(super) async fn run(command: ListCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    let wanted = match command.field {
        Some((name, value)) => DatasetFilter::Field(name, value),
        None => DatasetFilter::Search(command.search.unwrap_or_default()),
    };
    let (datasets, n_more) = list_datasets(&service, &wanted, command.limit).await?;
    if command.json {
        for dataset in datasets {
            print_json(&serde_json::to_string(&DatasetBody::from(dataset))?)?;
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

/// The first `limit` of the datasets that are wanted, and how many more there are.
///
/// # Errors
/// If the service cannot be asked.
pub(super) async fn list_datasets(
    service: &Datasets,
    wanted: &DatasetFilter,
    limit: usize,
) -> anyhow::Result<(Vec<Dataset>, u64)> {
    let listing = || format!("list the datasets of {}", service.address());
    let (mut datasets, mut n_all) = (Vec::new(), 0);
    loop {
        let n_wanted = PAGE_DATASETS.min(limit - datasets.len());
        let page = match wanted {
            DatasetFilter::Search(text) => {
                let query = DatasetsQuery {
                    search: text.clone(),
                    limit: Some(n_wanted),
                    offset: datasets.len(),
                };
                service.list(&query).await
            }
            DatasetFilter::Field(name, value) => service.search(name, value, datasets.len()).await,
        };
        let page = page.with_context(listing)?;
        let is_last = page.datasets.is_empty() || !page.has_more;
        datasets.extend(page.datasets);
        n_all = page.n_datasets.unwrap_or(0).max(n_all).max(datasets.len() as u64);
        datasets.truncate(limit);
        if is_last || datasets.len() >= limit {
            let n_more = n_all - datasets.len() as u64;
            return Ok((datasets, n_more));
        }
    }
}
