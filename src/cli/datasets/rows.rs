//! `triptych datasets rows`: a look at the rows or buckets of a dataset.

use anyhow::Context as _;
use clap::Args;
use client::datasets::{NamedRow, Order, Rows, RowsQuery, insert::FlatLines};
use model::{
    page::{Limit, ROWS_MAX},
    resolution::Resolution,
    row::{Row, Value},
    timestamp::Timestamp,
};
use serde_json::json;
use transfer::find::find_dataset;

use super::connection::DatasetServiceFlags;
use crate::cli::output::{print, print_json, table};
use crate::cli::parse::parse_timestamp;

/// The flags of `datasets rows`.
#[derive(Debug, Args)]
pub(crate) struct RowsCommand {
    /// The dataset's number or name
    dataset: String,
    /// Not before this time
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    start: Option<Timestamp>,
    /// Not after this time; buckets start before it
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    end: Option<Timestamp>,
    /// How coarse: raw, 5m, 1h, 1d, and others that the service keeps
    #[arg(long, default_value = "raw", value_name = "RESOLUTION")]
    resolution: Resolution,
    /// At most this many
    #[arg(long, default_value_t = 20, value_name = "N")]
    limit: usize,
    /// The oldest first
    #[arg(long)]
    ascending: bool,
    /// Print each as a line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Prints rows.
///
/// # Errors
/// If there is no such dataset, or the service refuses the range.
pub(super) async fn run(command: RowsCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    let dataset = find_dataset(&service, &command.dataset).await?.id;
    let names: Vec<String> = match command.resolution {
        Resolution::Raw => {
            let columns = service.columns(dataset).await.context("read the columns")?;
            columns.into_iter().map(|column| column.name).collect()
        }
        _ => ["open", "high", "low", "close", "volume", "count"].map(str::to_owned).to_vec(),
    };
    let mut query = RowsQuery {
        dataset,
        resolution: command.resolution,
        start: command.start,
        end: command.end,
        after: None,
        limit: Limit::clamp(command.limit.min(ROWS_MAX)),
        order: if command.ascending { Order::Ascending } else { Order::Descending },
    };
    let (mut n_left, mut cells) = (command.limit, Vec::new());
    while n_left > 0 {
        query.limit = Limit::clamp(n_left.min(ROWS_MAX));
        let page = service.rows(&query).await.context("read the rows")?;
        let lines = lines(page.rows, &names, command.json);
        n_left = n_left.saturating_sub(lines.len());
        for line in lines {
            match line {
                Line::Json(text) => print_json(&text)?,
                Line::Cells(line) => cells.push(line),
            }
        }
        let Some(next) = page.next else { break };
        query.after = Some(next);
    }
    if command.json {
        return Ok(());
    }
    let header: Vec<&str> =
        std::iter::once("timestamp").chain(names.iter().map(String::as_str)).collect();
    let right: Vec<usize> = (1..header.len()).collect();
    print(&table(&header, &cells, &right))
}

/// A row as it is printed.
enum Line {
    Json(String),
    Cells(Vec<String>),
}

fn lines(rows: Rows, names: &[String], is_json: bool) -> Vec<Line> {
    match rows {
        Rows::Raw(rows) => {
            let line = |row: NamedRow| {
                if is_json {
                    return Line::Json(json_of(&row));
                }
                let value = |name| row.values.get(name).map_or_else(String::new, value_text);
                let values = names.iter().map(value);
                Line::Cells(std::iter::once(row.timestamp.to_string()).chain(values).collect())
            };
            rows.into_iter().map(line).collect()
        }
        Rows::Buckets(buckets) => {
            let line = |bucket: model::row::Bucket| {
                let model::row::Bucket { timestamp, open, high, low, close, volume, count } =
                    bucket;
                if is_json {
                    let mut body = json!({"timestamp": timestamp.to_string()});
                    let numbers = [open, high, low, close, volume];
                    for (name, number) in names.iter().zip(numbers) {
                        body[name.as_str()] = json!(number);
                    }
                    body["count"] = json!(count);
                    return Line::Json(body.to_string());
                }
                let numbers = [open, high, low, close, volume].map(|number| number.to_string());
                let cells = std::iter::once(timestamp.to_string()).chain(numbers);
                Line::Cells(cells.chain([count.to_string()]).collect())
            };
            buckets.into_iter().map(line).collect()
        }
    }
}

/// Formats a row as a flat line of JSON, its members in alphabetical order, as services write them.
pub(super) fn json_of(row: &NamedRow) -> String {
    let names: Vec<String> = row.values.keys().cloned().collect();
    let values = row.values.values().cloned().map(Some).collect();
    let mut line = Vec::new();
    FlatLines::new(&names).push(&mut line, &Row { timestamp: row.timestamp, values });
    String::from_utf8_lossy(&line).trim_end().to_owned()
}

/// A value as text.
pub(super) fn value_text(value: &Value) -> String {
    match value {
        Value::Float(number) => number.to_string(),
        Value::Integer(number) => number.to_string(),
        Value::Boolean(truth) => truth.to_string(),
        Value::String(text) => text.clone(),
    }
}
