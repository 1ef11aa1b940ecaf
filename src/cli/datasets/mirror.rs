//! `triptych datasets mirror`: copies datasets from another service with this API and keeps them up
//! to date.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use client::datasets::{DatasetSearch, Datasets};
use model::address::redact_address;
use model::timestamp::Timestamp;
use stack::data_dir::project_dirs;
use task::group::Group;
use transfer::mirror::{self, MirrorOptions};

use super::connection::DatasetServiceFlags;
use super::progress::ProgressReporter;
use crate::cli::config::{Profile, variable};
use crate::cli::parse::{parse_pair, parse_start};
use crate::cli::services::{self, Services};
use crate::cli::stop;

/// Environment variable with the key of the source. The key of the target is never sent to the source,
/// since that would disclose it to another operator.
const SOURCE_KEY_VARIABLE: &str = "TRIPTYCH_SOURCE_API_KEY";

/// The flags of `datasets mirror`.
#[derive(Debug, Args)]
pub(crate) struct MirrorCommand {
    /// Address of the source service, ending in `/api`
    url: String,
    /// Copy these datasets, by number or name, instead of all that the key can see
    #[arg(value_name = "DATASET")]
    chosen: Vec<String>,
    /// Copy the datasets whose name or description contains this text
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["chosen", "field"])]
    search: Option<String>,
    /// Copy the datasets with this metadata field at this value, such as `source=tiingo`
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with = "chosen")]
    field: Option<(String, String)>,
    /// Copy only datasets with this tag, which is acquired first
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// Maximum number of datasets
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Prefix of the names of copies
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Tag of new copies. Keys with this tag can read the copies; `public` is for every key
    #[arg(long = "give-tag", value_name = "TAG")]
    give_tags: Vec<String>,
    /// Skip rows before this time
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    start: Option<Timestamp>,
    /// Exit once all rows that exist now are copied
    #[arg(long)]
    once: bool,
    /// File with the source's key, instead of `TRIPTYCH_SOURCE_API_KEY`
    #[arg(long, value_name = "FILE")]
    source_key_file: Option<PathBuf>,
    /// Directory for the progress of each copy [default: one in the platform's data directory]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Copies datasets. Without `--once`, also keeps the copies up to date until a signal.
///
/// # Errors
/// If there is no dataset to copy, or a copy fails.
pub(super) async fn run(command: MirrorCommand) -> anyhow::Result<()> {
    let source = connect_source(&command)?;
    let target = command.connection.connect().await?;
    let checkpoints = match command.state_dir {
        Some(folder) => folder,
        None => project_dirs()?.data_local_dir().join("mirrors"),
    };
    let options = MirrorOptions {
        chosen: command.chosen,
        filter: DatasetSearch::new(command.field, command.search),
        tag: command.tag,
        limit: command.limit,
        prefix: command.prefix,
        give_tags: command.give_tags,
        start: command.start,
        is_live: !command.once,
        checkpoints,
    };
    let group = Group::default();
    let work = mirror::run(options, source, target, &group, Box::new(ProgressReporter::shared()));
    stop::run_until_stopped(&group, work).await
}

/// Connects to the source service.
fn connect_source(command: &MirrorCommand) -> anyhow::Result<Datasets> {
    let key = if let Some(path) = &command.source_key_file {
        services::read_key_file(path)?
    } else {
        let text = variable(SOURCE_KEY_VARIABLE)?.with_context(|| {
            let url = redact_address(&command.url);
            format!(
                "no API key for {url}\nhint: set {SOURCE_KEY_VARIABLE}, or pass --source-key-file"
            )
        })?;
        text.trim().parse().with_context(|| format!("invalid {SOURCE_KEY_VARIABLE}"))?
    };
    let profile = Profile { datasets: Some(command.url.clone()), ..Profile::default() };
    Services { profile, key: Some(key), stack: None }.datasets()
}
