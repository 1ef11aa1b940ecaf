//! Flags that say how much of a topic's past is kept.

use std::time::Duration;

use ::inference::network::retention::Retention;
use clap::Args;

use crate::cli::parse::parse_bytes;

/// Seconds in a day.
const DAY: u64 = 86_400;

/// How much of their past topics keep, unless one says itself.
#[derive(Debug, Args)]
pub(crate) struct RetentionFlags {
    /// The most bytes of past epochs of a topic, such as 500MB or 2GB; the oldest go first. Past half
    /// of it, old epochs lose forecasts and values of pairs of actors. A topic's setting
    /// `keep_bytes` comes before it
    #[arg(long, default_value = "2GB", value_name = "BYTES", value_parser = parse_kept_bytes, help_heading = "Limits")]
    keep_bytes: u64,
    /// The most days that an epoch is kept; a topic's setting `keep_days` comes before it [default:
    /// no limit]
    #[arg(long, value_name = "DAYS", value_parser = clap::value_parser!(u32).range(1..), help_heading = "Limits")]
    keep_days: Option<u32>,
}

impl RetentionFlags {
    pub(crate) fn retention(&self) -> Retention {
        let age = self.keep_days.map(|days| Duration::from_secs(u64::from(days) * DAY));
        Retention { bytes: self.keep_bytes, age }
    }
}

/// Reads a number of bytes that holds the newest epochs at least.
fn parse_kept_bytes(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text)?;
    if bytes < Retention::BYTES_MIN {
        return Err(format!("it is at least {} bytes", Retention::BYTES_MIN));
    }
    Ok(bytes)
}
