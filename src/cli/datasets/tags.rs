//! `triptych datasets tags`: who may read what.

use anyhow::Context as _;
use clap::Args;
use client::datasets::Acquired;
use model::escape::escape_line;
use transfer::find::find_dataset;
use wire::datasets::TagBody;

use super::connection::DatasetServiceFlags;
use crate::cli::output::{print, print_body, tell};

/// The flags of `datasets tags`.
#[derive(Debug, Args)]
pub(crate) struct TagsCommand {
    /// List the tags of this dataset, by its number or name, not all there are
    dataset: Option<String>,
    /// Give the dataset this tag, whose holders may read it from then on
    #[arg(long, value_name = "TAG", requires = "dataset")]
    add: Vec<String>,
    /// Take this tag from the dataset
    #[arg(long, value_name = "TAG", requires = "dataset")]
    remove: Vec<String>,
    /// Acquire this tag for the key, such as `public`
    #[arg(long, value_name = "TAG", conflicts_with = "dataset")]
    acquire: Option<String>,
    /// Print each as a line of JSON, as the service answers it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Lists tags, or changes who has which.
///
/// # Errors
/// If the service refuses.
pub(super) async fn run(command: TagsCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    if let Some(tag) = command.acquire {
        let acquired = service.acquire_tag(&tag).await;
        match acquired.with_context(|| format!("acquire tag {tag}"))? {
            Acquired::Now => tell(&format!("the key holds tag {tag} now")),
            Acquired::Already => tell(&format!("the key held tag {tag} already")),
        }
        return Ok(());
    }
    let tags = match &command.dataset {
        None => service.tags().await.context("list the tags")?,
        Some(name) => {
            let id = find_dataset(&service, name).await?.id;
            for tag in &command.add {
                let adding = || format!("give dataset {id} tag {tag}");
                service.add_tag(id, tag).await.with_context(adding)?;
            }
            for tag in &command.remove {
                let removing = || format!("take tag {tag} from dataset {id}");
                service.remove_tag(id, tag).await.with_context(removing)?;
            }
            service.dataset_tags(id).await.with_context(|| format!("list the tags of {id}"))?
        }
    };
    if tags.is_empty() {
        tell(match command.dataset {
            Some(_) => "it has no tags: its owner alone reads it; --add public lets every key",
            None => "there are no tags",
        });
    }
    for TagBody { name, is_public } in tags {
        if command.json {
            print_body(&TagBody { name, is_public })?;
        } else {
            let free = if is_public { "  any key may acquire it" } else { "" };
            print(&format!("{}{free}", escape_line(&name)))?;
        }
    }
    Ok(())
}
