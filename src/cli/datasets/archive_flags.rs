//! Flags of `triptych datasets serve` for the archive of old rows.

use std::time::Duration;

use ::datasets::ArchiveStorage;
use clap::Args;
use tsdb::archive::objects::ArchiveUrl;

/// Place of old rows, and the age at which they go there.
#[derive(Debug, Args)]
#[command(next_help_heading = "Archive")]
pub(crate) struct ArchiveFlags {
    /// Keep old rows as Parquet files: `s3://bucket/prefix?region=…`, with
    /// `endpoint=http://host:port` for a server other than Amazon's, or `file:///path`. Credentials come
    /// from `AWS_ACCESS_KEY_ID` and `AWS_SECRET_ACCESS_KEY`, or from the machine's role. All services on
    /// a database need the same one
    #[arg(long, env = "TRIPTYCH_ARCHIVE", hide_env_values = true, value_name = "URL")]
    archive: Option<ArchiveUrl>,
    /// Archive a month once it ended so many days ago, such as `90d`
    #[arg(long, default_value = "90d", value_name = "DAYS", requires = "archive",
        value_parser = parse_days)]
    archive_after: Duration,
}

impl ArchiveFlags {
    /// Returns the archive; `None` if all rows stay in the store.
    pub(crate) fn storage(self) -> Option<ArchiveStorage> {
        let after = self.archive_after;
        self.archive.map(|url| ArchiveStorage { url, after })
    }
}

/// Parses a number of days, such as `90d`.
fn parse_days(text: &str) -> Result<Duration, String> {
    let days = text.strip_suffix('d').unwrap_or(text).parse::<u16>();
    let days = days.map_err(|_| "not a number of days such as 90d".to_owned())?;
    Ok(Duration::from_hours(u64::from(days) * 24))
}
