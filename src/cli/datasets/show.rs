//! `triptych datasets show`: a dataset with what belongs to it.

use anyhow::Context as _;
use clap::Args;
use client::datasets::NamedRow;
use model::{
    dataset::{Column, Dataset},
    escape::escape_line,
    page::Limit,
};
use serde_json::json;
use wire::datasets::{AccessBody, ColumnBody, DatasetBody, TagBody};

use super::connection::DatasetFlags;
use crate::cli::output::{print, print_json};

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

/// Shows.
///
/// # Errors
/// If there is no such dataset.
pub(super) async fn run(command: ShowCommand) -> anyhow::Result<()> {
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
