//! Where the services are: flags, then the environment, then the profile of the configuration file.
//!
//! The API key and the token of a head are never flags (everyone on the machine can read those) and
//! never stand in the file: they come from the environment, the key also from where `secret` looks.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use clap::Args;
use client::transport::Token;
use directories::ProjectDirs;
use model::key::ApiKey;
use serde::Deserialize;

use crate::cli::node::TOKEN_VARIABLE;

/// The environment variable that holds the API key.
pub(crate) const KEY_VARIABLE: &str = "TRIPTYCH_API_KEY";

/// The name of the configuration file in the configuration folder.
const FILE_NAME: &str = "config.toml";

/// Where the services are, as told on the command line or in the environment.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AddressFlags {
    /// The head's address, such as `http://127.0.0.1:8080`
    #[arg(long, env = "TRIPTYCH_HEAD", value_name = "URL")]
    pub(crate) head: Option<String>,
    /// The dataset service's address, ending in `/api`
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    pub(crate) datasets: Option<String>,
    /// The inference service's address
    #[arg(long, env = "TRIPTYCH_INFERENCE", value_name = "URL")]
    pub(crate) inference: Option<String>,
    /// A profile of the configuration file to take the other addresses from
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

/// Where the services are. What is left out is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// The head's address.
    pub(crate) head: Option<String>,
    /// The dataset service's address, ending in `/api`.
    pub(crate) datasets: Option<String>,
    /// The inference service's address.
    pub(crate) inference: Option<String>,
}

/// The services that are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Chosen {
    /// The profile's name; none if flags alone tell of the services.
    pub(crate) name: Option<String>,
    /// Where they are.
    pub(crate) profile: Profile,
}

/// The configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// The profile used where none is named.
    profile: Option<String>,
    /// The profiles by name.
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
}

/// The program's folders on this platform.
///
/// # Errors
/// If the user has no home folder.
pub(crate) fn folders() -> anyhow::Result<ProjectDirs> {
    ProjectDirs::from("", "", "triptych")
        .context("find the home folder: set HOME, or give --data-dir")
}

/// The folder of compiled functions, which all nodes of one user share; none without a home folder.
pub(crate) fn compiled_folder() -> Option<PathBuf> {
    folders().ok().map(|folders| folders.cache_dir().join("compiled"))
}

/// Returns the addresses to use, none if nothing is configured anywhere.
///
/// # Errors
/// If the configuration file cannot be read, or a profile is named that it does not hold.
pub(crate) fn profile(flags: AddressFlags) -> anyhow::Result<Option<Profile>> {
    let path = folders().ok().map(|folders| folders.config_dir().join(FILE_NAME));
    let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
    Ok(choose(flags, &file)?.map(|chosen| chosen.profile))
}

/// Returns the services to use, none if nothing is configured anywhere, and every profile there is.
///
/// Where neither flags nor the environment tell of any, it is the profile `last`, if it is still
/// there.
///
/// # Errors
/// As [`profile`].
pub(crate) fn chosen(
    mut flags: AddressFlags,
    last: Option<String>,
) -> anyhow::Result<(Option<Chosen>, BTreeMap<String, Profile>)> {
    let path = folders().ok().map(|folders| folders.config_dir().join(FILE_NAME));
    let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
    if !flags.is_any() {
        flags.profile = last.filter(|last| file.profiles.contains_key(last));
    }
    Ok((choose(flags, &file)?, file.profiles))
}

fn read(path: &Path) -> anyhow::Result<File> {
    let text = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(File::default()),
        Err(error) => return Err(error).with_context(|| format!("read {}", path.display())),
    };
    toml::from_str(&text).with_context(|| format!("read {}", path.display()))
}

fn choose(flags: AddressFlags, file: &File) -> anyhow::Result<Option<Chosen>> {
    let name = flags.profile.or_else(|| file.profile.clone());
    let base = match &name {
        None => None,
        Some(name) => {
            let Some(profile) = file.profiles.get(name) else {
                let known: Vec<_> = file.profiles.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                bail!("find profile `{name}` in the configuration file, which has: {known}");
            };
            Some(profile.clone())
        }
    };
    let is_told = flags.head.is_some() || flags.datasets.is_some() || flags.inference.is_some();
    if base.is_none() && !is_told {
        return Ok(None);
    }
    let base = base.unwrap_or_default();
    let profile = Profile {
        head: flags.head.or(base.head),
        datasets: flags.datasets.or(base.datasets),
        inference: flags.inference.or(base.inference),
    };
    Ok(Some(Chosen { name, profile }))
}

impl AddressFlags {
    /// Whether they tell of anything.
    const fn is_any(&self) -> bool {
        let Self { head, datasets, inference, profile } = self;
        head.is_some() || datasets.is_some() || inference.is_some() || profile.is_some()
    }
}

/// Returns the API key of the environment, none if it is not set.
///
/// # Errors
/// If what is set is no key. The text is not repeated.
pub(crate) fn api_key() -> anyhow::Result<Option<ApiKey>> {
    match std::env::var(KEY_VARIABLE) {
        Ok(text) if text.is_empty() => Ok(None),
        Ok(text) => text.parse().map(Some).with_context(|| format!("use {KEY_VARIABLE}")),
        Err(std::env::VarError::NotPresent) => Ok(None),
        Err(error @ std::env::VarError::NotUnicode(_)) => {
            drop(error);
            bail!("use {KEY_VARIABLE}: it is no text")
        }
    }
}

/// Returns the token of heads that the environment tells, none if it is not set.
///
/// # Errors
/// If what is set cannot be sent. The text is not repeated.
pub(crate) fn head_token() -> anyhow::Result<Option<Token>> {
    let text = std::env::var_os(TOKEN_VARIABLE).filter(|text| !text.is_empty());
    let Some(text) = text else { return Ok(None) };
    let token = text.to_str().context("send what is no text").and_then(|text| Ok(text.parse()?));
    token.map(Some).with_context(|| format!("use {TOKEN_VARIABLE}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file() -> File {
        toml::from_str(
            r#"
            profile = "home"
            [profiles.home]
            head = "http://home:1"
            datasets = "http://home:2/api"
            [profiles.far]
            inference = "https://far"
            "#,
        )
        .unwrap()
    }

    #[test]
    fn nothing_configured_is_no_profile() {
        assert_eq!(choose(AddressFlags::default(), &File::default()).unwrap(), None);
    }

    #[test]
    fn a_flag_wins_over_the_profile() {
        let flags = AddressFlags { head: Some("http://flag".into()), ..Default::default() };
        let Chosen { name, profile } = choose(flags, &file()).unwrap().unwrap();
        assert_eq!(name.as_deref(), Some("home"));
        assert_eq!(profile.head.as_deref(), Some("http://flag"));
        assert_eq!(profile.datasets.as_deref(), Some("http://home:2/api"));
    }

    #[test]
    fn a_profile_that_is_not_there_is_named_with_those_that_are() {
        let flags = AddressFlags { profile: Some("moon".into()), ..Default::default() };
        let error = choose(flags, &file()).unwrap_err().to_string();
        assert!(error.contains("`moon`") && error.contains("far, home"), "{error}");
    }
}
