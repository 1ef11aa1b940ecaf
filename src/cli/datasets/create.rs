//! `triptych datasets create`: an empty dataset.

use std::collections::BTreeMap;

use anyhow::Context as _;
use clap::Args;
use model::dataset::Dtype;
use wire::datasets::{CreateColumn, CreateDataset, DatasetBody};

use super::connection::DatasetServiceFlags;
use crate::cli::output::{print, print_body};
use crate::cli::parse::parse_pair;

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

/// Creates.
///
/// # Errors
/// If the service refuses.
pub(super) async fn run(command: CreateCommand) -> anyhow::Result<()> {
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
