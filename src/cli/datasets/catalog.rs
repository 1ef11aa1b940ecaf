//! `triptych datasets list`, `show`, `create`, `delete`, `columns`, `retention` and `tags`: datasets and
//! what belongs to them.

use std::collections::BTreeMap;

use anyhow::{Context as _, bail};
use clap::Args;
use client::datasets::{Acquired, NamedRow};
use model::{
    count::counted,
    dataset::{Column, Dataset, Dtype},
    escape::escape_line,
    page::Limit,
    timestamp::Timestamp,
};
use serde_json::json;
use transfer::find::{DatasetFilter, find_dataset, list_datasets};
use wire::datasets::{AccessBody, ColumnBody, CreateColumn, CreateDataset, DatasetBody, TagBody};

use super::connection::{DatasetFlags, DatasetServiceFlags};
use crate::cli::{
    output::{print, print_body, print_json, table, tell},
    parse::{parse_bytes, parse_pair, parse_timestamp},
};

/// The most of a description that a line shows.
const DESCRIPTION_CHARS: usize = 60;

/// The flags of `datasets list`.
#[derive(Debug, Args)]
pub(crate) struct ListCommand {
    /// Only those whose name or description contains this
    #[arg(long, value_name = "TEXT", conflicts_with = "field")]
    search: Option<String>,
    /// Only those with this metadata field at this value, such as `ticker=btcusd`
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_pair)]
    field: Option<(String, String)>,
    /// At most this many
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
    /// Print each as a line of JSON, as the service answers it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Lists the datasets that the key sees.
///
/// # Errors
/// If the service cannot be asked.
pub(super) async fn list(command: ListCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    let wanted = DatasetFilter::new(command.field, command.search);
    let (datasets, n_more) = list_datasets(&service, &wanted, command.limit).await?;
    if command.json {
        for dataset in datasets {
            print_body(&DatasetBody::from(dataset))?;
        }
        return Ok(());
    }
    if datasets.is_empty() {
        let is_all = wanted == DatasetFilter::Search(String::new());
        let what = if is_all { "this key sees no datasets" } else { "there are no such datasets" };
        let hint = if is_all {
            "; `triptych datasets tags --acquire public` shows it the public ones"
        } else {
            ""
        };
        tell(&format!("{what} at {}{hint}", service.address()));
        return Ok(());
    }
    let row = |dataset: &Dataset| {
        let text: String = dataset.description.chars().take(DESCRIPTION_CHARS).collect();
        vec![dataset.id.to_string(), dataset.name.clone(), text]
    };
    let rows: Vec<_> = datasets.iter().map(row).collect();
    print(&table(&["id", "name", "description"], &rows, &[0]))?;
    if n_more > 0 {
        tell(&format!("{n_more} more; ask for them with --limit, or for fewer with --search"));
    }
    Ok(())
}

/// The flags of `datasets show`.
#[derive(Debug, Args)]
pub(crate) struct ShowCommand {
    /// Print it as one line of JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// What is shown.
struct Shown {
    dataset: Dataset,
    columns: Vec<Column>,
    tags: Vec<TagBody>,
    access: AccessBody,
    newest: Option<NamedRow>,
}

/// Shows a dataset and what belongs to it.
///
/// # Errors
/// If there is no such dataset.
pub(super) async fn show(command: ShowCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let id = dataset.id;
    let reading = || format!("read what belongs to dataset {id}");
    let newest = service.newest(id, Limit::clamp(1)).await.with_context(reading)?;
    let newest = newest.into_iter().next();
    let shown = Shown {
        columns: service.columns(id).await.with_context(reading)?,
        tags: service.dataset_tags(id).await.with_context(reading)?,
        access: service.access(id, false).await.with_context(reading)?,
        dataset,
        newest,
    };
    if command.json { print_json(&shown.json()) } else { print(&shown.text()) }
}

impl Shown {
    fn json(self) -> String {
        let columns = self.columns.into_iter().map(ColumnBody::from).collect::<Vec<_>>();
        let tags: Vec<_> = self.tags.into_iter().map(|tag| tag.name).collect();
        let newest = self.newest.map(|row| row.timestamp.to_string());
        let mut body = json!(DatasetBody::from(self.dataset));
        body["columns"] = json!(columns);
        body["tags"] = json!(tags);
        body["is_owner"] = json!(self.access.is_owner);
        body["newest"] = json!(newest);
        body.to_string()
    }

    fn text(&self) -> String {
        let Self { dataset, columns, tags, access, newest } = self;
        let owner = if access.is_owner { "owner: read, write, tags" } else { "reader" };
        let mut lines = vec![
            format!("id           {}", dataset.id),
            format!("name         {}", escape_line(&dataset.name)),
            format!("description  {}", escape_line(&dataset.description)),
            format!("created      {}", dataset.created_at),
            format!("updated      {}", dataset.updated_at),
            format!("this key is  {owner}"),
        ];
        let names: Vec<_> = tags.iter().map(|tag| escape_line(&tag.name)).collect();
        lines.push(format!(
            "tags         {}",
            if names.is_empty() { "none".to_owned() } else { names.join(", ") }
        ));
        if !dataset.metadata.is_empty() {
            lines.push("metadata:".to_owned());
            let fields = dataset.metadata.iter();
            lines
                .extend(fields.map(|(name, value)| {
                    format!("  {}={}", escape_line(name), escape_line(value))
                }));
        }
        match newest {
            None => lines.push("newest row   none".to_owned()),
            Some(row) => lines.push(format!("newest row   {}", row.timestamp)),
        }
        lines.push("columns:".to_owned());
        lines.extend(columns.iter().map(|column| {
            let newest = newest.as_ref().and_then(|row| row.values.get(&column.name));
            let newest =
                newest.map_or_else(String::new, |value| escape_line(&value.to_string()).into());
            let (dtype, name) = (column.dtype, escape_line(&column.name));
            format!("  {dtype:<8} {name}  {newest}").trim_end().to_owned()
        }));
        lines.join("\n")
    }
}

/// The flags of `datasets create`.
#[derive(Debug, Args)]
pub(crate) struct CreateCommand {
    /// The name of the dataset
    name: String,
    /// A column, such as `close` or `trades:integer`; types are float, integer, string, boolean
    #[arg(long = "column", value_name = "NAME[:TYPE]", value_parser = parse_column)]
    columns: Vec<CreateColumn>,
    #[command(flatten)]
    about: AboutFlags,
    /// Print it as JSON, as the service answers it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// What a new dataset is about, and who may read it.
#[derive(Debug, Clone, Args)]
pub(super) struct AboutFlags {
    /// What a new dataset is, for people
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub(super) description: String,
    /// A metadata field of a new dataset, such as `ticker=btcusd`
    #[arg(long = "metadata", value_name = "NAME=VALUE", value_parser = parse_pair)]
    pub(super) metadata: Vec<(String, String)>,
    /// A tag of a new dataset, whose holders may read it; `public` lets every key
    #[arg(long = "tag", value_name = "TAG")]
    pub(super) tags: Vec<String>,
}

impl AboutFlags {
    /// The body that creates a dataset called `name`.
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
/// If the service refuses.
pub(super) async fn create(command: CreateCommand) -> anyhow::Result<()> {
    let service = command.connection.connect().await?;
    let body = command.about.body(&command.name, command.columns);
    let creating = || format!("create dataset {}", command.name);
    let dataset = service.create(&body).await.with_context(creating)?;
    if command.json {
        return print_body(&DatasetBody::from(dataset));
    }
    print(&dataset.id.to_string())
}

/// Reads `NAME` or `NAME:TYPE`.
///
/// # Errors
/// If it is neither.
pub(super) fn parse_column(text: &str) -> Result<CreateColumn, String> {
    let (name, dtype) = text.rsplit_once(':').unwrap_or((text, "float"));
    let dtype: Dtype = dtype.parse().map_err(|error| format!("{error}"))?;
    if name.is_empty() {
        return Err("a column has a name".to_owned());
    }
    Ok(CreateColumn::new(name, dtype))
}

/// The flags of `datasets delete`.
#[derive(Debug, Args)]
pub(crate) struct DeleteCommand {
    /// Only its rows from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, requires = "end")]
    start: Option<Timestamp>,
    /// Only its rows up to this time
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp, requires = "start")]
    end: Option<Timestamp>,
    /// Mean it: there is no way back
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Deletes a dataset, or a range of its rows.
///
/// # Errors
/// Without the confirming flag, or if the key does not own the dataset.
pub(super) async fn delete(command: DeleteCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let (id, name) = (dataset.id, escape_line(&dataset.name));
    if !command.yes {
        bail!("delete from dataset {id}, {name}, unless it is meant: say so with --yes");
    }
    if let (Some(start), Some(end)) = (command.start, command.end) {
        let deleting = || format!("delete rows of dataset {id}");
        let n_rows = service.delete_rows(id, start, end).await.with_context(deleting)?;
        tell(&format!("deleted {} of dataset {id}, {name}", counted(n_rows, "row")));
    } else {
        service.delete(id).await.with_context(|| format!("delete dataset {id}"))?;
        tell(&format!("deleted dataset {id}, {name}"));
    }
    Ok(())
}

/// The flags of `datasets columns`.
#[derive(Debug, Args)]
pub(crate) struct ColumnsCommand {
    /// Add a column, such as `close` or `trades:integer`; types are float, integer, string, boolean.
    /// Rows that are stored have no value in it
    #[arg(long, value_name = "NAME[:TYPE]", value_parser = parse_column)]
    add: Vec<CreateColumn>,
    /// Rename a column; its values stay
    #[arg(long, value_name = "NAME=NEW_NAME", value_parser = parse_pair)]
    rename: Vec<(String, String)>,
    /// Delete a column with its values; takes --yes
    #[arg(long, value_name = "NAME")]
    delete: Vec<String>,
    /// Confirm --delete: there is no way back
    #[arg(long, requires = "delete")]
    yes: bool,
    /// Print each column as a line of JSON, as the service answers it
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    dataset: DatasetFlags,
}

/// Changes columns in the order rename, delete, add, and lists those that there are then.
///
/// # Errors
/// If a delete is not confirmed, or the service refuses a change. Those before it are made.
pub(super) async fn columns(command: ColumnsCommand) -> anyhow::Result<()> {
    let (service, dataset) = command.dataset.find().await?;
    let id = dataset.id;
    if !command.delete.is_empty() && !command.yes {
        let names = command.delete.join(", ");
        let name = escape_line(&dataset.name);
        bail!("delete {names} of dataset {id}, {name}, without --yes: there is no way back");
    }
    for (name, new_name) in &command.rename {
        let renaming = || format!("rename column {name} of dataset {id} to {new_name}");
        service.rename_column(id, name, new_name).await.with_context(renaming)?;
        tell(&format!("renamed column {name} of dataset {id} to {new_name}"));
    }
    for name in &command.delete {
        let deleting = || format!("delete column {name} of dataset {id}");
        service.delete_column(id, name).await.with_context(deleting)?;
        tell(&format!("deleted column {name} of dataset {id}"));
    }
    for CreateColumn { name, dtype } in &command.add {
        let adding = || format!("add column {name} to dataset {id}");
        service.add_column(id, name, dtype.parse()?).await.with_context(adding)?;
        tell(&format!("added column {name} to dataset {id}"));
    }
    let columns = service.columns(id).await.with_context(|| format!("list columns of {id}"))?;
    if command.json {
        for column in columns {
            print_body(&ColumnBody::from(column))?;
        }
        return Ok(());
    }
    if columns.is_empty() {
        tell(&format!("dataset {id} has no columns; --add NAME adds one"));
        return Ok(());
    }
    let rows: Vec<_> =
        columns.into_iter().map(|column| vec![column.name, column.dtype.to_string()]).collect();
    print(&table(&["name", "type"], &rows, &[]))
}

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
pub(super) async fn tags(command: TagsCommand) -> anyhow::Result<()> {
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
