//! `triptych datasets list`, `show`, `coverage`, `create`, `delete`, `columns`, `retention` and `tags`: the
//! catalog.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use clap::Args;
use client::datasets::{Acquired, DatasetSearch, NamedRow};
use model::count::{counted, format_count, parse_bytes};
use model::dataset::{self, Column, Dataset};
use model::escape::escape_line;
use model::page::Limit;
use model::timestamp::Timestamp;
use serde_json::json;
use transfer::find::{find_dataset, list_datasets};
use wire::datasets::{
    AccessBody, ColumnBody, CreateColumn, CreateDataset, DatasetBody, DayBody, TagBody,
};

use super::connection::{DatasetFlags, DatasetServiceFlags};
use super::export::Format;
use crate::cli::output::{self, print, print_body, print_list, table_of, tell};
use crate::cli::parse::{parse_pair, parse_start, parse_timestamp};

/// Maximum length of a description in a list, in characters.
const DESCRIPTION_CHARS: usize = 60;

/// The flags of `datasets list`.
#[derive(Debug, Args)]
pub(crate) struct ListCommand {
    /// Only datasets whose name or description contains this text
    #[arg(long, value_name = "TEXT", conflicts_with = "field")]
    search: Option<String>,
    /// Only datasets with this metadata field at this value, such as `ticker=btcusd`
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    field: Option<(String, String)>,
    /// Maximum number of datasets
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Print each dataset as a line of JSON, as in the service's response
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Lists the datasets that the key can see.
///
/// # Errors
/// If the request fails.
pub(super) async fn list(command: ListCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    let filter = DatasetSearch::new(command.field, command.search);
    let (datasets, n_more) = list_datasets(&service, &filter, command.limit).await?;
    if command.json {
        return datasets
            .into_iter()
            .try_for_each(|dataset| print_body(&DatasetBody::from(dataset)));
    }
    if datasets.is_empty() {
        let address = service.address();
        tell(&if filter == DatasetSearch::ALL {
            format!(
                "this key can see no datasets at {address}; `triptych datasets tags --acquire public` \
                 adds the public datasets"
            )
        } else {
            format!("no matching datasets at {address}")
        });
        return Ok(());
    }
    let columns: [output::Column<'_, Dataset>; 3] = [
        (">id", &|dataset| dataset.id.to_string()),
        ("name", &|dataset| dataset.name.clone()),
        ("description", &|dataset| dataset.description.chars().take(DESCRIPTION_CHARS).collect()),
    ];
    print(&table_of(&datasets, &columns))?;
    if n_more > 0 {
        tell(&format!("{n_more} more; raise --limit, or narrow the list with --search"));
    }
    Ok(())
}

/// The flags of `datasets show`.
#[derive(Debug, Args)]
pub(crate) struct ShowCommand {
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// A dataset with its columns, tags, access and latest row: the content of the output of `show`.
struct DatasetSummary {
    dataset: Dataset,
    columns: Vec<Column>,
    tags: Vec<TagBody>,
    access: AccessBody,
    latest: Option<NamedRow>,
}

/// Shows a dataset with its columns, tags and latest row.
///
/// # Errors
/// If there is no such dataset.
pub(super) async fn show(command: ShowCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let id = dataset.id;
    let failed = || format!("cannot read dataset {id}");
    let summary = DatasetSummary {
        latest: service.newest(id, Limit::clamp(1)).await.with_context(failed)?.into_iter().next(),
        columns: service.columns(id).await.with_context(failed)?,
        tags: service.dataset_tags(id).await.with_context(failed)?,
        access: service.access(id, false).await.with_context(failed)?,
        dataset,
    };
    if command.json { print_body(&summary.json()) } else { print(&summary.text()) }
}

impl DatasetSummary {
    fn json(self) -> serde_json::Value {
        let columns: Vec<_> = self.columns.into_iter().map(ColumnBody::from).collect();
        let tags: Vec<_> = self.tags.into_iter().map(|tag| tag.name).collect();
        let mut body = json!(DatasetBody::from(self.dataset));
        body["columns"] = json!(columns);
        body["tags"] = json!(tags);
        body["is_owner"] = json!(self.access.is_owner);
        body["newest"] = json!(self.latest.map(|row| row.timestamp.to_string()));
        body
    }

    fn text(&self) -> String {
        let Self { dataset, columns, tags, access, latest } = self;
        let tags: Vec<_> = tags.iter().map(|tag| escape_line(&tag.name)).collect();
        let mut lines = vec![
            format!("id           {}", dataset.id),
            format!("name         {}", escape_line(&dataset.name)),
            format!("description  {}", escape_line(&dataset.description)),
            format!("created      {}", dataset.created_at),
            format!("updated      {}", dataset.updated_at),
            format!(
                "this key is  {}",
                if access.is_owner { "owner: read, write, tags" } else { "reader" }
            ),
            format!(
                "tags         {}",
                if tags.is_empty() { "none".to_owned() } else { tags.join(", ") }
            ),
        ];
        if !dataset.metadata.is_empty() {
            lines.push("metadata:".to_owned());
            lines.extend(
                dataset
                    .metadata
                    .iter()
                    .map(|(name, value)| format!("  {}={}", escape_line(name), escape_line(value))),
            );
        }
        let timestamp = latest.as_ref().map(|row| row.timestamp.to_string());
        lines.push(format!("latest row   {}", timestamp.as_deref().unwrap_or("none")));
        lines.push("columns:".to_owned());
        lines.extend(columns.iter().map(|column| {
            let value = latest.as_ref().and_then(|row| row.values.get(&column.name));
            let value = value.map(ToString::to_string).unwrap_or_default();
            let name = escape_line(&column.name);
            format!("  {:<8} {name}  {}", column.dtype, escape_line(&value)).trim_end().to_owned()
        }));
        lines.join("\n")
    }
}

/// The flags of `datasets coverage`.
#[derive(Debug, Args)]
pub(crate) struct CoverageCommand {
    /// Only rows from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    start: Option<Timestamp>,
    /// Only rows up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    end: Option<Timestamp>,
    /// Format of the export: csv, json, ndjson, parquet or arrow
    #[arg(long, value_name = "FORMAT", default_value = "csv")]
    format: Format,
    /// Print JSON, as in the service's response
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Prints the number of rows of each day with rows.
///
/// # Errors
/// If there is no such dataset, or the request fails.
pub(super) async fn coverage(command: CoverageCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let format: &str = command.format.into();
    let covered = service.coverage(dataset.id, command.start, command.end, format).await;
    let covered = covered.context("cannot read the coverage")?;
    if command.json {
        return print_body(&covered);
    }
    let columns: [output::Column<'_, DayBody>; 2] =
        [("day", &|day| day.day.clone()), (">rows", &|day| day.rows.to_string())];
    print_list(&covered.days, false, &columns)?;
    let (Some(first), Some(last)) = (&covered.first, &covered.last) else {
        tell("there are no rows");
        return Ok(());
    };
    let (n_rows, size) = (counted(covered.rows, "row"), format_count(covered.download_bytes));
    print(&format!("{n_rows} from {first} to {last}, about {size}B as {format}"))
}

/// The flags of `datasets create`.
#[derive(Debug, Args)]
pub(crate) struct CreateCommand {
    /// Name of the dataset
    name: String,
    /// Column, such as `close` or `trades:integer`; types are float, integer, string, boolean
    #[arg(long = "column", value_name = "NAME[:TYPE]", value_parser = parse_column)]
    columns: Vec<CreateColumn>,
    #[command(flatten)]
    about: AboutFlags,
    /// Print JSON, as in the service's response
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Description, metadata and tags of a new dataset.
#[derive(Debug, Clone, Args)]
pub(super) struct AboutFlags {
    /// Description of a new dataset
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) description: String,
    /// Metadata field of a new dataset, such as `ticker=btcusd`
    #[arg(long = "metadata", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(super) metadata: Vec<(String, String)>,
    /// Tag of a new dataset. Keys with this tag can read the dataset; `public` is for every key
    #[arg(long = "tag", value_name = "TAG")]
    pub(super) tags: Vec<String>,
}

impl AboutFlags {
    /// Returns the request that creates a dataset called `name`.
    pub(super) fn body(self, name: &str, columns: Vec<CreateColumn>) -> CreateDataset {
        CreateDataset {
            name: name.to_owned(),
            description: self.description,
            metadata: self.metadata.into_iter().collect::<BTreeMap<_, _>>(),
            columns,
            tags: self.tags,
        }
    }
}

/// Creates an empty dataset.
///
/// # Errors
/// If the request fails.
pub(super) async fn create(command: CreateCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    let body = command.about.body(&command.name, command.columns);
    let created = service.create(&body).await;
    let dataset = created.with_context(|| format!("cannot create dataset {}", command.name))?;
    output::show(command.json, &DatasetBody::from(dataset), |body| body.id.to_string())
}

/// Parses `NAME` or `NAME:TYPE`.
///
/// # Errors
/// If the name is empty or the type is unknown.
fn parse_column(text: &str) -> Result<CreateColumn, String> {
    dataset::parse_column(text).map(|(name, dtype)| CreateColumn::new(name, dtype))
}

/// The flags of `datasets delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteCommand {
    /// Only rows from this time on, up to --end
    #[arg(long, value_name = "TIME", value_parser = parse_start, requires = "end")]
    start: Option<Timestamp>,
    /// Only rows up to this time, from --start on
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, requires = "start")]
    end: Option<Timestamp>,
    /// Confirm: deleted data cannot be recovered
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Deletes a dataset, or a range of its rows.
///
/// # Errors
/// If the deletion is not confirmed, or the key does not own the dataset.
pub(super) async fn delete(command: DeleteCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let (id, name) = (dataset.id, escape_line(&dataset.name));
    if !command.yes {
        bail!("deleting from dataset {id}, {name}, was not confirmed\nhint: pass --yes");
    }
    if let (Some(start), Some(end)) = (command.start, command.end) {
        let deleted = service.delete_rows(id, start, end).await;
        let n_rows = deleted.with_context(|| format!("cannot delete rows of dataset {id}"))?;
        tell(&format!("deleted {} of dataset {id}, {name}", counted(n_rows, "row")));
    } else {
        service.delete(id).await.with_context(|| format!("cannot delete dataset {id}"))?;
        tell(&format!("deleted dataset {id}, {name}"));
    }
    Ok(())
}

/// The flags of `datasets columns`.
#[derive(Debug, Args)]
pub(crate) struct ColumnsCommand {
    /// Add a column, such as `close` or `trades:integer`; types are float, integer, string,
    /// boolean. Existing rows have no value in it
    #[arg(long, value_name = "NAME[:TYPE]", value_parser = parse_column)]
    add: Vec<CreateColumn>,
    /// Rename a column; its values stay. The columns of the buckets of stored rows cannot change, so a
    /// column can become `volume`, for example, only by an import with `--map` into a new dataset
    #[arg(long, value_name = "NAME=NEW_NAME", value_parser = parse_pair)]
    rename: Vec<(String, String)>,
    /// Delete a column with its values; requires --yes
    #[arg(long, value_name = "NAME")]
    delete: Vec<String>,
    /// Confirm --delete: deleted values cannot be recovered
    #[arg(long, requires = "delete")]
    yes: bool,
    /// Print each column as a line of JSON, as in the service's response
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Renames, deletes and adds columns, in this order, and then prints all columns of the dataset.
///
/// # Errors
/// If a deletion is not confirmed, or a request fails. Changes before a failed request are not
/// reverted.
pub(super) async fn columns(command: ColumnsCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let id = dataset.id;
    if !command.delete.is_empty() && !command.yes {
        bail!(
            "deleting {} of dataset {id}, {}, was not confirmed\nhint: pass --yes",
            command.delete.join(", "),
            escape_line(&dataset.name)
        );
    }
    for (name, new_name) in &command.rename {
        let renamed = service.rename_column(id, name, new_name).await;
        renamed.with_context(|| format!("cannot rename column {name} of dataset {id}"))?;
        tell(&format!("renamed column {name} of dataset {id} to {new_name}"));
    }
    for name in &command.delete {
        let deleted = service.delete_column(id, name).await;
        deleted.with_context(|| format!("cannot delete column {name} of dataset {id}"))?;
        tell(&format!("deleted column {name} of dataset {id}"));
    }
    for CreateColumn { name, dtype } in &command.add {
        let added = service.add_column(id, name, dtype.parse()?).await;
        added.with_context(|| format!("cannot add column {name} to dataset {id}"))?;
        tell(&format!("added column {name} to dataset {id}"));
    }
    let columns = service.columns(id).await;
    let columns = columns.with_context(|| format!("cannot list columns of dataset {id}"))?;
    if columns.is_empty() {
        tell(&format!("dataset {id} has no columns; --add NAME adds one"));
    }
    let columns: Vec<_> = columns.into_iter().map(ColumnBody::from).collect();
    let shown: [output::Column<'_, ColumnBody>; 2] =
        [("name", &|column| column.name.clone()), ("type", &|column| column.dtype.clone())];
    print_list(&columns, command.json, &shown)
}

/// Metadata field with the maximum age of stored rows, in days.
const KEEP_DAYS: &str = "keep_days";

/// Metadata field with the maximum size of stored rows, in bytes.
const KEEP_BYTES: &str = "keep_bytes";

/// The flags of `datasets retention`.
#[derive(Debug, Args)]
pub(crate) struct RetentionCommand {
    /// Delete rows older than this many days, at most 36525, from an hour after the service's start.
    /// Archived rows are deleted by whole months
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..))]
    keep_days: Option<u32>,
    /// Delete the oldest rows once all rows together exceed this size, such as 500MB or 2GB. Archived
    /// rows do not count and stay
    #[arg(long, value_name = "BYTES", value_parser = parse_bytes)]
    keep_bytes: Option<u64>,
    /// Remove all limits, except those that other flags set
    #[arg(long)]
    keep_all: bool,
    /// Print one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Sets the limits that the flags name, and then prints all limits of the dataset.
///
/// # Errors
/// If the key does not own the dataset, or the service rejects a limit.
pub(super) async fn retention(command: RetentionCommand) -> anyhow::Result<()> {
    let (service, mut dataset) = command.dataset.find().await?;
    let limits = [
        (KEEP_DAYS, command.keep_days.map(|days| days.to_string())),
        (KEEP_BYTES, command.keep_bytes.map(|bytes| bytes.to_string())),
    ];
    let is_changed = |limit: &(_, Option<_>)| limit.1.is_some() || command.keep_all;
    let changes: BTreeMap<_, _> = limits.into_iter().filter(is_changed).collect();
    let id = dataset.id;
    if !changes.is_empty() {
        let changed = service.set_metadata(id, &changes).await;
        dataset = changed.with_context(|| format!("cannot set the retention of dataset {id}"))?;
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

/// The flags of `datasets tags`.
#[derive(Debug, Args)]
pub(crate) struct TagsCommand {
    /// Number or name of the dataset whose tags are listed or changed [default: list all tags]
    dataset: Option<String>,
    /// Add this tag to the dataset. Keys with this tag can then read the dataset
    #[arg(long, value_name = "TAG", requires = "dataset")]
    add: Vec<String>,
    /// Remove this tag from the dataset
    #[arg(long, value_name = "TAG", requires = "dataset")]
    remove: Vec<String>,
    /// Acquire this tag for the key, such as `public`
    #[arg(long, value_name = "TAG", conflicts_with = "dataset")]
    acquire: Option<String>,
    /// Give up this tag, which the key acquired or the owner of the tag granted
    #[arg(long, value_name = "TAG", conflicts_with_all = ["dataset", "acquire"])]
    release: Option<String>,
    /// Print each tag as a line of JSON, as in the service's response
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Prints tags, acquires or gives up a tag of the key, or changes the tags of a dataset.
///
/// # Errors
/// If a request fails.
pub(super) async fn tags(command: TagsCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    if let Some(tag) = command.acquire {
        let acquired = service.acquire_tag(&tag).await;
        match acquired.with_context(|| format!("cannot acquire tag {tag}"))? {
            Acquired::Now => tell(&format!("the key now holds tag {tag}")),
            Acquired::Already => tell(&format!("the key already held tag {tag}")),
        }
        return Ok(());
    }
    if let Some(tag) = command.release {
        let released = service.release_tag(&tag).await;
        released.with_context(|| format!("cannot give up tag {tag}"))?;
        tell(&format!("the key no longer holds tag {tag}"));
        return Ok(());
    }
    let tags = match &command.dataset {
        None => service.tags().await.context("cannot list tags")?,
        Some(name) => {
            let id = find_dataset(&service, name).await?.id;
            for tag in &command.add {
                let added = service.add_tag(id, tag).await;
                added.with_context(|| format!("cannot add tag {tag} to dataset {id}"))?;
            }
            for tag in &command.remove {
                let removed = service.remove_tag(id, tag).await;
                removed.with_context(|| format!("cannot remove tag {tag} from dataset {id}"))?;
            }
            let tags = service.dataset_tags(id).await;
            tags.with_context(|| format!("cannot list tags of dataset {id}"))?
        }
    };
    if tags.is_empty() {
        tell(match command.dataset {
            Some(_) => {
                "the dataset has no tags, so only its owner can read it; --add public opens it to every key"
            }
            None => "there are no tags",
        });
    }
    for tag in tags {
        output::show(command.json, &tag, |tag| {
            let free = if tag.is_public { "  any key can acquire it" } else { "" };
            format!("{}{free}", escape_line(&tag.name))
        })?;
    }
    Ok(())
}
