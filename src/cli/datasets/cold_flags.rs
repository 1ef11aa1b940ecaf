//! Flags of `triptych datasets serve` for old rows on S3.

use std::time::Duration;

use ::datasets::ColdStorage;
use anyhow::Context as _;
use clap::{Args, value_parser};
use tsdb::store::objects::{ColdUrl, Objects};

/// Where old rows go, and when.
#[derive(Debug, Args)]
#[command(next_help_heading = "Old rows on S3")]
pub(crate) struct ColdFlags {
    /// Keep old rows of the database in this bucket: `s3://bucket/prefix?region=…`, with
    /// `endpoint=http://host:port` for a server other than Amazon's. Credentials come from
    /// `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or from the machine's role. All services on the
    /// database need the same one
    #[arg(
        long,
        env = "TRIPTYCH_COLD",
        hide_env_values = true,
        value_name = "URL",
        requires = "store"
    )]
    cold: Option<ColdUrl>,
    /// The newest rows of each dataset that stay in the database
    #[arg(long, default_value_t = 262_144, value_name = "ROWS", requires = "cold",
        value_parser = value_parser!(u32).range(1024..))]
    hot_rows: u32,
    /// The fewest older rows of a dataset that are moved at a time: an object has as many or more
    #[arg(long, default_value_t = 65_536, value_name = "ROWS", requires = "cold",
        value_parser = value_parser!(u32).range(1024..=1_048_576))]
    cold_object_rows: u32,
    /// Look for rows to move so often
    #[arg(long, default_value_t = 60, value_name = "SECONDS", requires = "cold",
        value_parser = value_parser!(u32).range(1..))]
    cold_every: u32,
    /// Delete an object so long after nothing in the database refers to it any more: longer than a
    /// download may take, 6 hours, and than a backup of the database is old that may be restored
    #[arg(long, default_value_t = 168, value_name = "HOURS", requires = "cold")]
    cold_grace_hours: u32,
}

impl ColdFlags {
    /// Where old rows go; `None` if all stay in the database.
    ///
    /// # Errors
    /// If the environment has half of the credentials, or settings without sense.
    pub(crate) fn storage(self) -> anyhow::Result<Option<ColdStorage>> {
        let Some(url) = self.cold else { return Ok(None) };
        let rows = |n: u32| usize::try_from(n).unwrap_or(usize::MAX);
        Ok(Some(ColdStorage {
            objects: Objects::open(&url).context("open the bucket for old rows")?,
            hot_rows: rows(self.hot_rows),
            object_rows: rows(self.cold_object_rows),
            seal_every: Duration::from_secs(self.cold_every.into()),
            grace: Duration::from_hours(self.cold_grace_hours.into()),
        }))
    }
}
