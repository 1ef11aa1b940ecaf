//! `triptych datasets mirror`: datasets of another service of this API, copied and kept up to date.
//!
//! `fetch` reads rows of a range from the source, `copy` brings a dataset up to the newest row,
//! `verify` compares it with the source, `live` keeps it up to date, `checkpoint` records the progress
//! of each. Timestamps are unique, so that a row that comes twice is stored once; a checkpoint only
//! says where to resume.

mod checkpoint;
mod copy;
mod fetch;
mod live;
mod verify;

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use clap::Args;
use client::datasets::{Acquired, Datasets};
use futures::{StreamExt as _, stream};
use model::escape::escape_line;
use model::{
    dataset::{Dataset, PUBLIC_TAG},
    timestamp::Timestamp,
};
use parking_lot::Mutex;
use task::group::Group;
use tokio::sync::{Semaphore, mpsc};

use self::{checkpoint::CheckpointFolder, copy::Copy, live::LiveCopy};
use super::{
    connection::{DatasetServiceFlags, connect, find_dataset},
    list::{DatasetFilter, list_datasets},
    progress::format_count,
};
use crate::cli::parse::{parse_pair, parse_timestamp};
use crate::cli::{
    output::{pluralize, tell},
    services, stop,
};

/// Shown below the help of `datasets mirror`.
pub(super) const EXAMPLES: &str = "\
Examples:
  export TRIPTYCH_SOURCE_API_KEY=UP-…                    the key of the service to copy from
  triptych datasets mirror https://example.com/api btcusd ethusd
  triptych datasets mirror https://example.com/api --search tiingo --prefix mine_ --once
  triptych datasets mirror https://example.com/api --field source=tiingo --start 2026-01-01

First the rows that there are, by bulk downloads of two weeks each, then each new row by the stream.
Killed at any time, the same command goes on where it was; with --once it then looks at the days
that it had already, and copies again what came late. With --once again, all rows are compared, and
those that came late or were corrected are copied. Rows deleted at the source stay.";

/// The environment variable with the key of the service to copy from. Never the key of the
/// target, which would be disclosed to the source.
const SOURCE_KEY_VARIABLE: &str = "TRIPTYCH_SOURCE_API_KEY";

/// The most datasets that are followed: each holds a connection on both sides.
const FOLLOWED_MAX: usize = 500;

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

/// What all copies share.
struct Mirror {
    source: Datasets,
    target: Datasets,
    downloads: Semaphore,
    folder: CheckpointFolder,
    prefix: String,
    give_tags: Vec<String>,
    start: Option<Timestamp>,
    /// Whether the copies are to be kept up to date.
    is_live: bool,
    n_parallel: usize,
}

/// Copies, and goes on copying.
///
/// # Errors
/// If there is nothing to copy, or some of it could not be copied.
pub(super) async fn run(command: MirrorCommand) -> anyhow::Result<()> {
    let target = command.connection.clone().connect().await?;
    let source = connect_source(&command)?;
    if source.address() == target.address() && command.prefix.is_empty() {
        bail!(
            "copy datasets of {} onto themselves: give the copies a --prefix, or name the service \
             to copy to with --datasets",
            source.address()
        );
    }
    let tag = command.tag.as_deref().unwrap_or(PUBLIC_TAG);
    let acquired = source.acquire_tag(tag).await;
    if acquired.with_context(|| format!("acquire tag {tag} at {}", source.address()))?
        == Acquired::Now
    {
        tell(&format!("the source's key holds tag {tag} now"));
    }
    let datasets = choose_datasets(&command, &source).await?;
    if datasets.is_empty() {
        bail!("find datasets to copy at {}: its key sees none such", source.address());
    }
    if !command.once && datasets.len() > FOLLOWED_MAX {
        bail!(
            "follow {} datasets, which is more than {FOLLOWED_MAX}: ask for fewer, or copy --once",
            datasets.len()
        );
    }
    let folder = CheckpointFolder::open(command.state_dir, source.address(), target.address())?;
    tell(&format!(
        "copying {} {} of {}",
        datasets.len(),
        pluralize(datasets.len(), "dataset"),
        source.address()
    ));
    let n_parallel = command.parallel.max(1);
    let mirror = Arc::new(Mirror {
        source,
        target,
        downloads: Semaphore::new(n_parallel),
        folder,
        prefix: command.prefix,
        give_tags: command.give_tags,
        start: command.start,
        is_live: !command.once,
        n_parallel,
    });
    let group = Group::default();
    let done = tokio::select! {
        done = mirror.run(datasets, &group) => done,
        stopped = stop::wait_for_stop(stop::Parent::None) => stopped,
    };
    group.shutdown().await;
    done
}

/// Connects to the service to copy from.
fn connect_source(command: &MirrorCommand) -> anyhow::Result<Datasets> {
    let key = if let Some(path) = &command.source_key_file {
        services::key_of(path)?
    } else {
        let text = std::env::var(SOURCE_KEY_VARIABLE).ok().filter(|text| !text.is_empty());
        let Some(text) = text else {
            bail!(
                "copy from {} without its key: set {SOURCE_KEY_VARIABLE}, or name \
                 --source-key-file",
                command.url
            )
        };
        text.trim().parse().with_context(|| format!("use {SOURCE_KEY_VARIABLE}"))?
    };
    connect(&command.url, key)
}

/// The datasets to copy.
async fn choose_datasets(
    command: &MirrorCommand,
    source: &Datasets,
) -> anyhow::Result<Vec<Dataset>> {
    let limit = command.limit.unwrap_or(usize::MAX);
    let mut datasets = Vec::new();
    if command.chosen.is_empty() {
        let wanted = match (&command.field, &command.search) {
            (Some((name, value)), _) => DatasetFilter::Field(name.clone(), value.clone()),
            (None, text) => DatasetFilter::Search(text.clone().unwrap_or_default()),
        };
        datasets = list_datasets(source, &wanted, limit).await?.0;
    }
    for name in command.chosen.iter().take(limit) {
        datasets.push(find_dataset(source, name).await?);
    }
    let Some(tag) = &command.tag else { return Ok(datasets) };
    let mut tagged = Vec::new();
    for dataset in datasets {
        let tags = source.dataset_tags(dataset.id).await.context("list the tags of a dataset")?;
        if tags.iter().any(|of| of.name == *tag) {
            tagged.push(dataset);
        }
    }
    Ok(tagged)
}

impl Mirror {
    /// Copies `datasets`, and keeps them up to date if that is wanted.
    async fn run(self: &Arc<Self>, datasets: Vec<Dataset>, group: &Group) -> anyhow::Result<()> {
        let failed = Mutex::new(Vec::new());
        let (alive, mut all_ended) = mpsc::channel::<()>(1);
        stream::iter(datasets)
            .for_each_concurrent(self.n_parallel, |dataset| async {
                let name = escape_line(&dataset.name).into_owned();
                match self.copy(dataset, group).await {
                    Ok(Some((following, copy))) => {
                        let alive = alive.clone();
                        group.spawn("mirror a dataset", async move {
                            following.run(copy).await;
                            drop(alive);
                        });
                    }
                    Ok(None) => {}
                    Err(error) => {
                        tell(&format!("dataset {name} is not copied: {error:#}"));
                        failed.lock().push(name);
                    }
                }
            })
            .await;
        drop(alive);
        if self.is_live {
            tell("all copies are up to date; new rows follow");
            // Nothing is ever sent: it ends when the last of them does.
            while all_ended.recv().await.is_some() {}
        }
        let failed = failed.into_inner();
        if failed.is_empty() { Ok(()) } else { bail!("copy {}", failed.join(", ")) }
    }

    /// Copies a dataset; returns what keeps it up to date.
    async fn copy(
        self: &Arc<Self>,
        dataset: Dataset,
        group: &Group,
    ) -> anyhow::Result<Option<(LiveCopy, Copy)>> {
        let mut copy = Copy::open(Arc::clone(self), dataset).await?;
        let following = LiveCopy::begin(&mut copy, group).await?;
        // A stream that goes on where an earlier one ended brings all that is missing.
        let is_resumed = copy.checkpoint.is_whole && copy.checkpoint.last_event_id.is_some();
        if !(self.is_live && is_resumed && following.is_some()) {
            let n_rows = copy.backfill().await?;
            let (name, n) = (copy.name(), format_count(n_rows));
            tell(&format!("{name} is copied: {n} {} came", pluralize(n_rows, "row")));
        }
        Ok(following.filter(|_| self.is_live).map(|following| (following, copy)))
    }
}
