//! `triptych datasets rows`: prints rows or buckets of a dataset.

use anyhow::Context as _;
use clap::Args;
use client::datasets::insert::FlatLines;
use client::datasets::{NamedRow, RowsQuery};
use model::dataset::BAR_COLUMNS;
use model::page::{Limit, ROWS_MAX};
use model::resolution::Resolution;
use model::row::{BucketExtras, COMPLETE, EARLIEST, Row, Value};

use super::connection::{ColumnsFlag, DatasetFlags, ExtrasFlags, RangeFlags};
use crate::cli::output::{print, print_json, table};

/// Name of the column with the number of rows in a bucket, in addition to prices and volume.
const COUNT: &str = "count";

/// The flags of `datasets rows`.
#[derive(Debug, Args)]
pub(crate) struct RowsCommand {
    #[command(flatten)]
    range: RangeFlags,
    #[command(flatten)]
    extras: ExtrasFlags,
    #[command(flatten)]
    columns: ColumnsFlag,
    /// Maximum number of rows
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    /// Print the oldest rows first
    #[arg(long)]
    ascending: bool,
    /// Print each row or bucket as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Prints rows or buckets.
///
/// # Errors
/// If there is no such dataset, or the request fails.
pub(super) async fn run(command: RowsCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let ColumnsFlag { columns: selected } = command.columns;
    let extras = BucketExtras::from(command.extras);
    let mut names: Vec<String> = match command.range.resolution {
        _ if !selected.is_empty() => selected.clone(),
        Resolution::Raw => {
            let columns = service.columns(dataset.id).await.context("cannot read the columns")?;
            columns.into_iter().map(|column| column.name).collect()
        }
        _ => BAR_COLUMNS.into_iter().chain([COUNT]).map(str::to_owned).collect(),
    };
    names.extend(extras.complete.then(|| COMPLETE.to_owned()));
    let limit = Limit::clamp(command.limit.min(ROWS_MAX));
    let first = if command.ascending { RowsQuery::oldest } else { RowsQuery::newest };
    let RangeFlags { start, end, .. } = command.range;
    let mut query = RowsQuery {
        // Without bounds, a service only returns the last day of raw rows.
        start: start.or(end.is_none().then_some(EARLIEST)),
        end,
        extras,
        ..first(dataset.id, command.range.resolution, limit)
    };
    let (mut n_left, mut cells) = (command.limit, Vec::new());
    while n_left > 0 {
        query.limit = Limit::clamp(n_left.min(ROWS_MAX));
        let page = service.rows_of(&query, &selected).await.context("cannot read the rows")?;
        let rows = page.rows.into_rows();
        n_left = n_left.saturating_sub(rows.len());
        for row in rows {
            if command.json {
                print_json(&json_of(&row))?;
                continue;
            }
            let value = |name| row.values.get(name).map_or_else(String::new, Value::to_string);
            let values = names.iter().map(value);
            cells.push(std::iter::once(row.timestamp.to_string()).chain(values).collect());
        }
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    if command.json {
        return Ok(());
    }
    let names: Vec<String> = names.iter().map(|name| format!(">{name}")).collect();
    let header: Vec<&str> =
        std::iter::once("timestamp").chain(names.iter().map(String::as_str)).collect();
    print(&table(&header, &cells))
}

/// Formats a row as a flat line of JSON with its members in alphabetical order, as services do.
pub(super) fn json_of(row: &NamedRow) -> String {
    let names: Vec<String> = row.values.keys().cloned().collect();
    let values = row.values.values().cloned().map(Some).collect();
    let mut line = Vec::new();
    FlatLines::new(&names).push(&mut line, &Row { timestamp: row.timestamp, values });
    String::from_utf8_lossy(&line).trim_end().to_owned()
}
