//! `triptych datasets retention`: how many rows of a dataset are kept, by age and by size.

use std::collections::BTreeMap;

use anyhow::Context as _;
use clap::Args;
use model::escape::escape_line;
use serde_json::json;

use super::connection::DatasetFlags;
use crate::cli::{
    output::{print, print_body},
    parse::parse_bytes,
};

/// The metadata field with the number of days that rows are kept.
const KEEP_DAYS: &str = "keep_days";

/// The metadata field with the number of bytes of rows that are kept.
const KEEP_BYTES: &str = "keep_bytes";

/// The flags of `datasets retention`.
#[derive(Debug, Args)]
pub(crate) struct RetentionCommand {
    /// Delete rows that are older than this many days
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    keep_days: Option<u32>,
    /// Delete the oldest rows where all of them take more than this, such as 500MB or 2GB
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    keep_bytes: Option<u64>,
    /// Keep all rows: removes a limit that no other flag sets
    #[arg(long)]
    keep_all: bool,
    /// Print it as JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Sets what the flags name, and prints what is kept then.
///
/// # Errors
/// If the key does not own the dataset, or the service refuses a limit.
pub(super) async fn run(command: RetentionCommand) -> anyhow::Result<()> {
    let (service, mut dataset) = command.dataset.find().await?;
    let limits = [
        (KEEP_DAYS, command.keep_days.map(|days| days.to_string())),
        (KEEP_BYTES, command.keep_bytes.map(|bytes| bytes.to_string())),
    ];
    let is_changed = |limit: &(_, Option<_>)| limit.1.is_some() || command.keep_all;
    let changes: BTreeMap<_, _> = limits.into_iter().filter(is_changed).collect();
    let id = dataset.id;
    if !changes.is_empty() {
        let setting = || format!("set what dataset {id} keeps");
        dataset = service.set_metadata(id, &changes).await.with_context(setting)?;
    }
    let [days, bytes] = [KEEP_DAYS, KEEP_BYTES].map(|field| dataset.metadata.get(field));
    if command.json {
        let number = |text: Option<&String>| text.and_then(|text| text.parse::<u64>().ok());
        let body = json!({"dataset": id.get(), KEEP_DAYS: number(days), KEEP_BYTES: number(bytes)});
        return print_body(&body);
    }
    let shown = |limit: Option<&String>| {
        limit.map_or_else(|| "no limit".to_owned(), |limit| escape_line(limit).into_owned())
    };
    print(&format!("days   {}\nbytes  {}", shown(days), shown(bytes)))
}
