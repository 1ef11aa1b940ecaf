//! Mirror: copies datasets from another service with the same API and keeps the copies up to date.
//!
//! A row that is received twice is stored once, since timestamps are unique.

mod copy;

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use client::datasets::{Acquired, DatasetSearch, Datasets};
use futures::{StreamExt as _, stream};
use model::count::counted;
use model::dataset::{Dataset, DatasetId, PUBLIC_TAG};
use model::escape::escape_line;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use task::group::Group;
use tokio::sync::{Semaphore, mpsc};

use self::copy::Copy;
use crate::checkpoint;
use crate::event::Reporter;
use crate::find::{find_dataset, list_datasets};

/// Maximum number of datasets that are kept up to date. Each dataset needs connections to both services.
const FOLLOWED_MAX: usize = 500;

/// Maximum number of datasets that are downloaded concurrently.
const DOWNLOADS_MAX: usize = 4;

/// Options of a mirror.
#[derive(Debug)]
pub struct MirrorOptions {
    /// Ids or names of the datasets to copy. If empty, `filter` selects them.
    pub chosen: Vec<String>,
    /// Criterion that selects the datasets if `chosen` is empty.
    pub filter: DatasetSearch,
    /// Tag that the key of the source acquires. Only datasets with this tag are copied. With `None`, the
    /// key acquires the public tag, and datasets are copied regardless of their tags.
    pub tag: Option<String>,
    /// Maximum number of datasets to copy.
    pub limit: Option<usize>,
    /// Prefix of the names of the copies.
    pub prefix: String,
    /// Tags to give to each copy when it is created.
    pub give_tags: Vec<String>,
    /// Earliest timestamp to copy. `None` copies all rows.
    pub start: Option<Timestamp>,
    /// True to keep the copies up to date after they are complete.
    pub is_live: bool,
    /// Directory of the checkpoint files.
    pub checkpoints: PathBuf,
}

/// Services and options of a mirror, which all its copies share.
struct Mirror {
    source: Datasets,
    target: Datasets,
    reporter: Box<dyn Reporter>,
    /// Directory of the checkpoints for this source and this target.
    folder: PathBuf,
    options: MirrorOptions,
    /// Permits for downloads of copies that were complete before.
    downloads: Semaphore,
}

/// Copies datasets from `source` to `target`. Tasks of `group` keep the copies up to date if requested.
///
/// # Errors
/// An error if there are no datasets to copy, or if a dataset could not be copied.
pub async fn run(
    options: MirrorOptions,
    source: Datasets,
    target: Datasets,
    group: &Group,
    reporter: Box<dyn Reporter>,
) -> anyhow::Result<()> {
    if source.address() == target.address() && options.prefix.is_empty() {
        bail!(
            "datasets of {} would be copied to themselves\nhint: pass a --prefix for the copies, or name the \
             target service with --datasets",
            source.address()
        );
    }
    let tag = options.tag.as_deref().unwrap_or(PUBLIC_TAG);
    let acquired = source.acquire_tag(tag).await;
    if acquired.with_context(|| format!("cannot acquire tag {tag} at {}", source.address()))?
        == Acquired::Now
    {
        reporter.note(&format!("the key of the source holds tag {tag} now"));
    }
    let datasets = choose_datasets(&options, &source).await?;
    if datasets.is_empty() {
        bail!("no matching datasets at {} are visible to its key", source.address());
    }
    if options.is_live && datasets.len() > FOLLOWED_MAX {
        bail!(
            "{} datasets exceed the maximum of {FOLLOWED_MAX} that are kept up to date\nhint: select fewer, or \
             copy --once",
            datasets.len()
        );
    }
    let name = checkpoint::name((source.address(), target.address()));
    let folder = options.checkpoints.join(name);
    let datasets_text = counted(datasets.len(), "dataset");
    reporter.note(&format!("copying {datasets_text} of {}", source.address()));
    let downloads = Semaphore::new(DOWNLOADS_MAX);
    let mirror = Arc::new(Mirror { source, target, reporter, folder, options, downloads });
    mirror.run(datasets, group).await
}

/// Returns the datasets of the source that the options select.
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
        let tags = source.dataset_tags(dataset.id).await;
        let tags = tags.context("cannot list the tags of a dataset")?;
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

    /// Copies `datasets` and keeps them up to date if requested.
    async fn run(self: &Arc<Self>, datasets: Vec<Dataset>, group: &Group) -> anyhow::Result<()> {
        let failed = Mutex::new(Vec::new());
        let (alive, mut all_ended) = mpsc::channel::<()>(1);
        stream::iter(datasets)
            .for_each_concurrent(DOWNLOADS_MAX, |dataset| async {
                let name = escape_line(&dataset.name).into_owned();
                match self.copy(dataset, group).await {
                    Ok(copy) if self.options.is_live => {
                        let (alive, following) = (alive.clone(), group.clone());
                        group.spawn("mirror a dataset", async move {
                            copy.run(following).await;
                            drop(alive);
                        });
                    }
                    Ok(_) => {}
                    Err(error) => {
                        self.reporter.note(&format!("dataset {name} was not copied: {error:#}"));
                        failed.lock().push(name);
                    }
                }
            })
            .await;
        drop(alive);
        if self.options.is_live {
            let copies = if failed.lock().is_empty() { "all" } else { "the other" };
            self.reporter.note(&format!("{copies} copies are up to date; new rows follow"));
            // Waits for all copies to end. The copies send no message, but each copy holds a sender, so
            // the channel is closed when the last copy ends.
            while all_ended.recv().await.is_some() {}
        }
        let failed = failed.into_inner();
        if failed.is_empty() { Ok(()) } else { bail!("cannot copy {}", failed.join(", ")) }
    }

    /// Finds or creates the copy of a dataset, and downloads the rows that the copy lacks.
    async fn copy(self: &Arc<Self>, dataset: Dataset, group: &Group) -> anyhow::Result<Copy> {
        let mut copy = Copy::open(Arc::clone(self), dataset).await?;
        copy.download_and_note(group).await?;
        Ok(copy)
    }
}
