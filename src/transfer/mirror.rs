//! Mirror: datasets of another service of this API, copied and kept up to date.
//!
//! `fetch` reads rows of a range from the source, `copy` brings a dataset up to the newest row and
//! compares it with the source, `live` keeps it up to date. Timestamps are unique, so that a row
//! that comes twice is stored once.

mod copy;
mod fetch;
mod live;

use std::{path::PathBuf, sync::Arc};

use anyhow::{Context as _, bail};
use client::datasets::{Acquired, Datasets};
use futures::{StreamExt as _, stream};
use model::{
    count::{counted, counted_short},
    dataset::{Dataset, DatasetId, PUBLIC_TAG},
    escape::escape_line,
    timestamp::Timestamp,
};
use parking_lot::Mutex;
use task::group::Group;
use tokio::sync::{Semaphore, mpsc};

use self::{
    copy::{Comparison, Copy},
    live::LiveCopy,
};
use crate::{
    checkpoint,
    event::Reporter,
    find::{DatasetFilter, find_dataset, list_datasets},
};

/// Maximum number of datasets that are followed: each holds a connection on both sides.
const FOLLOWED_MAX: usize = 500;

/// Options of a mirror.
#[derive(Debug)]
pub struct MirrorOptions {
    /// Numbers or names of the datasets; empty for those of `filter`.
    pub chosen: Vec<String>,
    /// Filter of the datasets, if none are chosen.
    pub filter: DatasetFilter,
    /// Tag that the datasets must have, which is acquired first; `None` for all datasets, after the
    /// public tag is acquired.
    pub tag: Option<String>,
    /// Maximum number of datasets.
    pub limit: Option<usize>,
    /// Prefix of the names of the copies.
    pub prefix: String,
    /// Tags of new copies.
    pub give_tags: Vec<String>,
    /// Earliest timestamp that is copied.
    pub start: Option<Timestamp>,
    /// True if the copies are kept up to date.
    pub is_live: bool,
    /// Maximum number of concurrent downloads, at least one.
    pub n_parallel: usize,
    /// Directory of the checkpoints.
    pub checkpoints: PathBuf,
}

/// State that all copies share.
struct Mirror {
    source: Datasets,
    target: Datasets,
    reporter: Box<dyn Reporter>,
    downloads: Semaphore,
    /// Directory of the checkpoints from this source to this target.
    folder: PathBuf,
    options: MirrorOptions,
}

/// Copies datasets of `source` to `target`, and keeps them up to date by tasks of `group`.
///
/// # Errors
/// If there is nothing to copy, or a dataset could not be copied.
pub async fn run(
    options: MirrorOptions,
    source: Datasets,
    target: Datasets,
    group: &Group,
    reporter: Box<dyn Reporter>,
) -> anyhow::Result<()> {
    if source.address() == target.address() && options.prefix.is_empty() {
        bail!(
            "copy datasets of {} onto themselves: give the copies a --prefix, or name the service \
             to copy to with --datasets",
            source.address()
        );
    }
    let tag = options.tag.as_deref().unwrap_or(PUBLIC_TAG);
    let acquired = source.acquire_tag(tag).await;
    if acquired.with_context(|| format!("acquire tag {tag} at {}", source.address()))?
        == Acquired::Now
    {
        reporter.note(&format!("the source's key holds tag {tag} now"));
    }
    let datasets = choose_datasets(&options, &source).await?;
    if datasets.is_empty() {
        bail!("find datasets to copy at {}: its key sees none such", source.address());
    }
    if options.is_live && datasets.len() > FOLLOWED_MAX {
        bail!(
            "follow {} datasets, which is more than {FOLLOWED_MAX}: ask for fewer, or copy --once",
            datasets.len()
        );
    }
    let name = checkpoint::name((source.address(), target.address()));
    let folder = options.checkpoints.join(name);
    let datasets_text = counted(datasets.len(), "dataset");
    reporter.note(&format!("copying {datasets_text} of {}", source.address()));
    let downloads = Semaphore::new(options.n_parallel);
    let mirror = Arc::new(Mirror { source, target, reporter, downloads, folder, options });
    mirror.run(datasets, group).await
}

/// Returns the datasets to copy.
async fn choose_datasets(
    options: &MirrorOptions,
    source: &Datasets,
) -> anyhow::Result<Vec<Dataset>> {
    let limit = options.limit.unwrap_or(usize::MAX);
    let mut datasets = Vec::new();
    if options.chosen.is_empty() {
        datasets = list_datasets(source, &options.filter, limit).await?.0;
    }
    for name in options.chosen.iter().take(limit) {
        datasets.push(find_dataset(source, name).await?);
    }
    let Some(tag) = &options.tag else { return Ok(datasets) };
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
    fn checkpoint_path(&self, dataset: DatasetId) -> PathBuf {
        self.folder.join(format!("{dataset}.json"))
    }

    /// Copies `datasets`, and keeps them up to date if the options say so.
    async fn run(self: &Arc<Self>, datasets: Vec<Dataset>, group: &Group) -> anyhow::Result<()> {
        let failed = Mutex::new(Vec::new());
        let (alive, mut all_ended) = mpsc::channel::<()>(1);
        stream::iter(datasets)
            .for_each_concurrent(self.options.n_parallel, |dataset| async {
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
                        self.reporter.note(&format!("dataset {name} is not copied: {error:#}"));
                        failed.lock().push(name);
                    }
                }
            })
            .await;
        drop(alive);
        if self.options.is_live {
            self.reporter.note("all copies are up to date; new rows follow");
            // Nothing is ever sent: the channel closes when the last of them ends.
            while all_ended.recv().await.is_some() {}
        }
        let failed = failed.into_inner();
        if failed.is_empty() { Ok(()) } else { bail!("copy {}", failed.join(", ")) }
    }

    /// Copies a dataset, and returns its stream if the copy is kept up to date.
    async fn copy(
        self: &Arc<Self>,
        dataset: Dataset,
        group: &Group,
    ) -> anyhow::Result<Option<(LiveCopy, Copy)>> {
        let mut copy = Copy::open(Arc::clone(self), dataset).await?;
        let is_resumed = copy.checkpoint.is_whole && copy.checkpoint.last_event_id.is_some();
        let live = if self.options.is_live {
            Some(LiveCopy::begin(&mut copy, group).await?)
        } else {
            None
        };
        // A stream that resumes brings all that is missing.
        if live.is_none() || !is_resumed {
            // A copy without a stream gets corrections that days do not show by comparing rows.
            let is_compared_by_rows = copy.checkpoint.is_whole && live.is_none();
            let by = if is_compared_by_rows { Comparison::Rows } else { Comparison::Days };
            let n_rows = copy.backfill(by).await?;
            let (name, rows) = (copy.name(), counted_short(n_rows, "row"));
            self.reporter.note(&format!("{name} is copied: {rows} came"));
        }
        Ok(live.map(|live| (live, copy)))
    }
}
