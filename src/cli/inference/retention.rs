//! Flags that say how much of a topic's past is kept.

use std::time::Duration;

use ::inference::network::retention::Retention;
use clap::Args;

/// Seconds in a day.
const DAY: u64 = 86_400;

/// How much of their past topics keep, unless one says itself.
#[derive(Debug, Args)]
pub(crate) struct RetentionFlags {
    /// The most bytes of past epochs of a topic, such as 500MB or 2GB; the oldest go first. Past half
    /// of it, old epochs lose forecasts and values of pairs of actors. A topic's setting
    /// `keep_bytes` comes before it
    #[arg(long, default_value = "2GB", value_name = "BYTES", value_parser = bytes, help_heading = "Limits")]
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

/// Reads a number of bytes with or without a unit.
fn bytes(text: &str) -> Result<u64, String> {
    let unit_at = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(unit_at);
    let unit = match unit.trim().to_ascii_uppercase().as_str() {
        "" | "B" => 1,
        "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "TB" => 1_000_000_000_000,
        _ => return Err("the unit is kB, MB, GB or TB".to_owned()),
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    let bytes = bytes.ok_or("it is a number of bytes such as 2GB")?;
    if bytes < Retention::BYTES_MIN {
        return Err(format!("it is at least {} bytes", Retention::BYTES_MIN));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<u64>) {
        assert_eq!(bytes(text).ok(), want, "{text}");
    }

    #[test]
    fn bytes_have_a_unit_or_none() {
        check("2GB", Some(2_000_000_000));
        check("500 mb", Some(500_000_000));
        check("3000000", Some(3_000_000));
        check("999", None);
        check("2 apples", None);
        check("GB", None);
    }
}
