//! `triptych keys limits`: the limits of one key.

use std::str::FromStr;

use accounts::{Accounts, Scope};
use anyhow::{Context as _, ensure};
use clap::Args;
use model::key::KeyId;
use wire::accounts::KeyLimits;

use super::{Form, no_key};
use crate::cli::output::{print, print_body};

/// A limit of one key: a number, 0 for none, or the service's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Own<T> {
    Default,
    Of(T),
}

/// The limits to set.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct LimitFlags {
    /// Requests in a second over time: a number, 0 for no limit, or `default`
    #[arg(long, value_name = "N")]
    rate: Option<Own<u32>>,
    /// Requests at once before the rate holds
    #[arg(long, value_name = "N")]
    burst: Option<Own<u32>>,
    /// Requests in a day of UTC
    #[arg(long, value_name = "N")]
    requests_per_day: Option<Own<u64>>,
    /// Bytes of bodies, both ways, in a day of UTC
    #[arg(long, value_name = "N")]
    bytes_per_day: Option<Own<u64>>,
}

impl<T: FromStr> FromStr for Own<T> {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "default" {
            return Ok(Self::Default);
        }
        text.parse().map(Self::Of).map_err(|_| "not a number, nor `default`")
    }
}

impl LimitFlags {
    /// What `limits` become; none if nothing is to change.
    fn over(self, limits: KeyLimits) -> Option<KeyLimits> {
        fn or<T>(own: Option<Own<T>>, held: Option<T>) -> Option<T> {
            match own {
                None => held,
                Some(Own::Default) => None,
                Some(Own::Of(limit)) => Some(limit),
            }
        }
        let Self { rate, burst, requests_per_day, bytes_per_day } = self;
        let is_told = rate.is_some()
            || burst.is_some()
            || requests_per_day.is_some()
            || bytes_per_day.is_some();
        is_told.then(|| KeyLimits {
            rate: or(rate, limits.rate),
            burst: or(burst, limits.burst),
            requests_per_day: or(requests_per_day, limits.requests_per_day),
            bytes_per_day: or(bytes_per_day, limits.bytes_per_day),
        })
    }
}

/// Shows the limits of a key, or sets them.
///
/// # Errors
/// If the file fails, or there is no such key.
pub(super) async fn run(
    accounts: &Accounts,
    id: KeyId,
    flags: LimitFlags,
    form: Form,
) -> anyhow::Result<()> {
    let record = accounts.key(Scope::All, id).await.context("read the key")?;
    let record = record.ok_or_else(|| no_key("find", id))?;
    let limits = match flags.over(record.limits) {
        None => record.limits,
        Some(limits) => {
            let is_set = accounts.set_limits(id, limits).await.context("set limits")?;
            ensure!(is_set, no_key("limit", id));
            limits
        }
    };
    if form.json {
        return print_body(&limits);
    }
    let line = |what: &str, limit: Option<u64>| {
        let shown = match limit {
            None => "as the service has it".to_owned(),
            Some(0) => "no limit".to_owned(),
            Some(limit) => limit.to_string(),
        };
        format!("{what:<20}{shown}")
    };
    let lines = [
        line("requests per second", limits.rate.map(u64::from)),
        line("requests at once", limits.burst.map(u64::from)),
        line("requests per day", limits.requests_per_day),
        line("bytes per day", limits.bytes_per_day),
    ];
    print(&lines.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_named_stays() {
        let none =
            LimitFlags { rate: None, burst: None, requests_per_day: None, bytes_per_day: None };
        let held = KeyLimits { rate: Some(5), burst: Some(6), ..KeyLimits::default() };
        assert_eq!(none.over(held), None);
        let rate = "default".parse().ok();
        let flags = LimitFlags { rate, requests_per_day: "7".parse().ok(), ..none };
        let want = KeyLimits { rate: None, requests_per_day: Some(7), ..held };
        assert_eq!(flags.over(held), Some(want));
        assert!("many".parse::<Own<u32>>().is_err() && "-1".parse::<Own<u32>>().is_err());
    }
}
