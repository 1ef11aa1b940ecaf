//! `triptych datasets mirror`: datasets of another service of this API, copied and kept up to date.

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use clap::Args;
use client::datasets::Datasets;
use model::{address::redact_address, timestamp::Timestamp};
use stack::data_dir::project_dirs;
use task::group::Group;
use transfer::{
    find::DatasetFilter,
    mirror::{self, MirrorOptions},
};

use super::{connection::DatasetServiceFlags, progress::Drawn};
use crate::cli::{
    config::{Profile, variable},
    parse::{parse_pair, parse_timestamp},
    services::{self, Services},
    stop,
};

/// The environment variable with the key of the service to copy from. Never the key of the
/// target, which would be disclosed to the source.
const SOURCE_KEY_VARIABLE: &str = "TRIPTYCH_SOURCE_API_KEY";

/// The flags of `datasets mirror`.
#[derive(Debug, Args)]
pub(crate) struct MirrorCommand {
    /// The address of the service to copy from, ending in `/api`
    url: String,
    /// Copy these datasets, by number or name, not all that the key sees
    #[arg(value_name = "DATASET")]
    chosen: Vec<String>,
    /// Copy those whose name or description contains this
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["chosen", "field"])]
    search: Option<String>,
    /// Copy those with this metadata field at this value, such as `source=tiingo`
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair, conflicts_with = "chosen")]
    field: Option<(String, String)>,
    /// Of those copy the ones with this tag, which is acquired first
    #[arg(long, value_name = "TAG")]
    tag: Option<String>,
    /// At most this many
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// Put this before the names of the copies
    #[arg(long, value_name = "TEXT", default_value = "")]
    prefix: String,
    /// Give new copies this tag, whose holders may read them; `public` lets every key
    #[arg(long = "give-tag", value_name = "TAG")]
    give_tags: Vec<String>,
    /// Not the rows before this time
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    start: Option<Timestamp>,
    /// End when all rows that there are now are copied
    #[arg(long)]
    once: bool,
    /// Downloads at a time
    #[arg(long, default_value_t = 4, value_name = "N")]
    parallel: usize,
    /// Read the source's key from this file, not from `TRIPTYCH_SOURCE_API_KEY`
    #[arg(long, value_name = "FILE")]
    source_key_file: Option<PathBuf>,
    /// Keep how far each copy is in this folder [default: one of the platform's folder for data]
    #[arg(long, value_name = "DIR")]
    state_dir: Option<PathBuf>,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Copies, and goes on copying.
///
/// # Errors
/// If there is nothing to copy, or some of it could not be copied.
pub(super) async fn run(command: MirrorCommand) -> anyhow::Result<()> {
    let source = connect_source(&command)?;
    let target = command.connection.connect().await?;
    let checkpoints = match command.state_dir {
        Some(folder) => folder,
        None => project_dirs()?.data_local_dir().join("mirrors"),
    };
    let options = MirrorOptions {
        chosen: command.chosen,
        filter: DatasetFilter::new(command.field, command.search),
        tag: command.tag,
        limit: command.limit,
        prefix: command.prefix,
        give_tags: command.give_tags,
        start: command.start,
        is_live: !command.once,
        n_parallel: command.parallel.max(1),
        checkpoints,
    };
    let group = Group::default();
    let work = mirror::run(options, source, target, &group, Box::new(Drawn::shared()));
    stop::run_until_stopped(&group, work).await
}

/// Connects to the service to copy from.
fn connect_source(command: &MirrorCommand) -> anyhow::Result<Datasets> {
    let key = if let Some(path) = &command.source_key_file {
        services::key_of(path)?
    } else {
        let Some(text) = variable(SOURCE_KEY_VARIABLE)? else {
            bail!(
                "copy from {} without its key: set {SOURCE_KEY_VARIABLE}, or name \
                 --source-key-file",
                redact_address(&command.url)
            )
        };
        text.trim().parse().with_context(|| format!("use {SOURCE_KEY_VARIABLE}"))?
    };
    let profile = Profile { datasets: Some(command.url.clone()), ..Profile::default() };
    Services { profile, key: Some(key) }.datasets()
}
