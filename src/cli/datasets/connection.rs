//! Flags that name a dataset service and its key.

use anyhow::bail;
use clap::Args;
use client::datasets::Datasets;
use formats::read::time_text::{NO_ZONES, has_zones};
use model::dataset::Dataset;
use model::parse::ParseError;
use model::resolution::{Resolution, Zone};
use model::row::{BucketExtras, Fill};
use model::timestamp::Timestamp;
use stack::start::KEY_VARIABLE;
use transfer::find::find_dataset;
use wire::datasets::unescape_name;

use crate::cli::config::AddressFlags;
use crate::cli::parse::{parse_start, parse_timestamp};
use crate::cli::services::{KeyFlag, Services};

/// Flags that name a dataset service.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Which service")]
pub(crate) struct DatasetServiceFlags {
    /// Address of the dataset service, ending in `/api` [default: the address in the profile. Without
    /// one and without an API key, the service of the running local stack, or else `datasets serve`
    /// on this machine]
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    datasets: Option<String>,
    /// Profile in the configuration file that supplies the address
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME")]
    profile: Option<String>,
    #[command(flatten)]
    key: KeyFlag,
}

/// Flags that name a dataset and its service.
#[derive(Debug, Clone, Args)]
pub(super) struct DatasetFlags {
    /// Number or name of the dataset
    dataset: String,
    #[command(flatten)]
    connection: DatasetServiceFlags,
}

/// Flags that name rows or buckets of a dataset.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct RangeFlags {
    /// Only rows and buckets from this time on
    #[arg(long, value_name = "TIME", value_parser = parse_start)]
    pub(super) start: Option<Timestamp>,
    /// Only rows up to this time, and buckets that start before it
    #[arg(long, value_name = "TIME", value_parser = parse_timestamp)]
    pub(super) end: Option<Timestamp>,
    /// Resolution: raw, or the length of buckets, such as 5m, 1h or 1d. Services of this program
    /// also compute other lengths, such as 45s, 7m or 3h
    #[arg(long, default_value = "raw", value_name = "RESOLUTION")]
    pub(super) resolution: Resolution,
}

/// Flags that ask for additions to buckets.
#[derive(Debug, Clone, Copy, Args)]
pub(super) struct ExtrasFlags {
    /// Insert buckets into gaps between the first and the last bucket, with a volume and a count of
    /// 0: `null` without prices, `previous` with the previous close, `linear` between the closes
    /// before and after the gap
    #[arg(long, default_value = "none", value_name = "HOW", hide_default_value = true)]
    fill: Fill,
    /// Add to each bucket whether it has ended
    #[arg(long)]
    complete: bool,
    /// Time zone such as Europe/Berlin, in which buckets of whole days begin at midnight; not with
    /// --fill [default: UTC]
    #[arg(long, value_name = "ZONE", conflicts_with = "fill", value_parser = parse_zone)]
    time_zone: Option<Zone>,
}

fn parse_zone(text: &str) -> Result<Zone, String> {
    let wrong = |error: ParseError| if has_zones() { error.to_string() } else { NO_ZONES.into() };
    text.parse().map_err(wrong)
}

impl From<ExtrasFlags> for BucketExtras {
    fn from(ExtrasFlags { fill, complete, time_zone }: ExtrasFlags) -> Self {
        Self { fill, complete, time_zone }
    }
}

/// Flag that selects columns.
#[derive(Debug, Clone, Args)]
pub(super) struct ColumnsFlag {
    /// Only these columns, such as `close,volume`; `%2C` is a comma within a name, `%25` a percent
    /// sign [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',', value_parser = parse_column)]
    pub(super) columns: Vec<String>,
}

/// Parses the name of a column, as the service does.
fn parse_column(text: &str) -> Result<String, String> {
    match text.trim() {
        "" => Err("expected a name".to_owned()),
        "timestamp" => Err("rows always contain their timestamp; name other columns".to_owned()),
        name => Ok(unescape_name(name)),
    }
}

impl DatasetFlags {
    /// Connects to the service and finds the dataset.
    ///
    /// # Errors
    /// As [`DatasetServiceFlags::connect`], or if the key cannot see the dataset.
    pub(super) async fn find(self) -> anyhow::Result<(Datasets, Dataset)> {
        let service = self.connection.connect().await?;
        let dataset = find_dataset(&service, &self.dataset).await?;
        Ok((service, dataset))
    }
}

impl DatasetServiceFlags {
    /// Connects to the service that the flags, the environment or a profile names.
    ///
    /// # Errors
    /// If the address is invalid, or there is no API key.
    pub(crate) async fn connect(self) -> anyhow::Result<Datasets> {
        let Self { datasets, profile, key } = self;
        let flags = AddressFlags { datasets, profile, ..AddressFlags::default() };
        let services = Services::choose(flags, key).await?;
        if services.key.is_none() {
            bail!(
                "no API key for the dataset service\nhint: store one with `triptych keys store`, set \
                 {KEY_VARIABLE}, or pass --key-file"
            )
        }
        services.datasets()
    }
}
