//! `triptych keys limits`: shows or sets the limits of a key.

use std::str::FromStr;

use accounts::{Accounts, Scope};
use anyhow::{Context as _, ensure};
use clap::Args;
use model::key::KeyId;
use wire::accounts::KeyLimits;

use super::{FormatFlags, no_key};
use crate::cli::output::show;

/// New value of a limit: a number, where 0 means no limit, or the service's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LimitValue<T> {
    Default,
    Number(T),
}

/// Limits to set.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LimitFlags {
    /// Requests per second on average: a number, 0 for no limit, or `default`
    #[arg(long, value_name = "N")]
    rate: Option<LimitValue<u32>>,
    /// Requests in a burst before the rate applies
    #[arg(long, value_name = "N")]
    burst: Option<LimitValue<u32>>,
    /// Requests per UTC day
    #[arg(long, value_name = "N")]
    requests_per_day: Option<LimitValue<u64>>,
    /// Bytes of request and response bodies per UTC day
    #[arg(long, value_name = "N")]
    bytes_per_day: Option<LimitValue<u64>>,
}

impl<T: FromStr> FromStr for LimitValue<T> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "default" {
            return Ok(Self::Default);
        }
        text.parse().map(Self::Number).map_err(|_| "expected a number, or `default`")
    }
}

impl LimitFlags {
    /// Returns `limits` with the changes of these flags.
    fn apply(self, limits: KeyLimits) -> KeyLimits {
        fn or<T>(value: Option<LimitValue<T>>, current: Option<T>) -> Option<T> {
            match value {
                None => current,
                Some(LimitValue::Default) => None,
                Some(LimitValue::Number(limit)) => Some(limit),
            }
        }
        let Self { rate, burst, requests_per_day, bytes_per_day } = self;
        KeyLimits {
            rate: or(rate, limits.rate),
            burst: or(burst, limits.burst),
            requests_per_day: or(requests_per_day, limits.requests_per_day),
            bytes_per_day: or(bytes_per_day, limits.bytes_per_day),
        }
    }
}

/// Shows or sets the limits of a key.
///
/// # Errors
/// If the accounts cannot be read or written, or the key does not exist.
pub(super) async fn run(
    accounts: &Accounts,
    id: KeyId,
    flags: LimitFlags,
    format: FormatFlags,
) -> anyhow::Result<()> {
    let record = accounts.key(Scope::All, id).await.context("cannot read the key")?;
    let record = record.ok_or_else(|| no_key(id))?;
    let limits = flags.apply(record.limits);
    if limits != record.limits {
        let is_set = accounts.set_limits(id, limits).await.context("cannot set the limits")?;
        ensure!(is_set, no_key(id));
    }
    let line = |what: &str, limit: Option<u64>| {
        let shown = match limit {
            None => "the service's default".to_owned(),
            Some(0) => "no limit".to_owned(),
            Some(limit) => limit.to_string(),
        };
        format!("{what:<20}{shown}")
    };
    let lines = [
        line("requests per second", limits.rate.map(u64::from)),
        line("burst of requests", limits.burst.map(u64::from)),
        line("requests per day", limits.requests_per_day),
        line("bytes per day", limits.bytes_per_day),
    ];
    show(format.json, &limits, |_| lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_without_a_flag_are_unchanged() {
        let none =
            LimitFlags { rate: None, burst: None, requests_per_day: None, bytes_per_day: None };
        let current = KeyLimits { rate: Some(5), burst: Some(6), ..KeyLimits::default() };
        assert_eq!(none.apply(current), current);
        let rate = "default".parse().ok();
        let flags = LimitFlags { rate, requests_per_day: "7".parse().ok(), ..none };
        let want = KeyLimits { rate: None, requests_per_day: Some(7), ..current };
        assert_eq!(flags.apply(current), want);
        assert!(
            "many".parse::<LimitValue<u32>>().is_err() && "-1".parse::<LimitValue<u32>>().is_err()
        );
    }
}
