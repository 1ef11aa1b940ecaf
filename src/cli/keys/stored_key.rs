//! `triptych keys store`, `forget` and `where`: the key this user shows to the services of a profile.

use std::io::IsTerminal as _;

use ::tui::profiles::NO_PROFILE;
use anyhow::Context as _;
use clap::Args;
use model::key::ApiKey;
use stack::start::KEY_VARIABLE;

use crate::cli::{output::print, password, secret::Keys};

/// The profile whose key is meant.
#[derive(Debug, Args)]
pub(crate) struct WhoseKey {
    /// The profile of the configuration file [default: the key used where there is no profile]
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME", default_value = NO_PROFILE)]
    #[arg(hide_default_value = true)]
    profile: String,
}

/// Asks for a key and keeps it.
///
/// # Errors
/// If what is typed is no key, or nothing keeps it.
pub(super) fn store(whose: &WhoseKey) -> anyhow::Result<()> {
    let text = password::secret("API key: ")?;
    keep(&whose.profile, &text.trim().parse().context("keep the key")?)
}

/// Keeps `key` for `profile`, and says where.
///
/// # Errors
/// If nothing keeps it.
pub(super) fn keep(profile: &str, key: &ApiKey) -> anyhow::Result<()> {
    let kept = Keys::of_user()?.keep(profile, key)?;
    let note = kept.note.map_or_else(String::new, |note| format!(" ({note})"));
    print(&format!("the key of {profile} is {}{note}", kept.place))
}

/// Forgets a key.
///
/// # Errors
/// If it stays.
pub(super) fn forget(whose: &WhoseKey) -> anyhow::Result<()> {
    let profile = &whose.profile;
    let was = Keys::of_user()?.forget(profile)?;
    let rest = if std::env::var_os(KEY_VARIABLE).is_some() && std::io::stdout().is_terminal() {
        format!("; {KEY_VARIABLE} is set all the same")
    } else {
        String::new()
    };
    if was {
        print(&format!("the key of {profile} is forgotten{rest}"))
    } else {
        print(&format!("no key of {profile} was kept{rest}"))
    }
}

/// Says where a key is.
///
/// # Errors
/// If what is kept is no key.
pub(super) fn place(whose: &WhoseKey) -> anyhow::Result<()> {
    let profile = &whose.profile;
    match Keys::of_user()?.find(profile)? {
        Some(found) => print(&format!("the key of {profile} is {}", found.place)),
        None => print(&format!("no key of {profile} is kept")),
    }
}
