//! Addresses of the services. Flags take precedence over the environment, which takes precedence over a
//! profile of the configuration file.
//!
//! The API key and the token of a head cannot be given as flags, since every user of the machine can
//! read the flags of a process. Key and token cannot be in the configuration file either. Both are read
//! from the environment, and the key also from the storage of [`super::secret`].

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use ::tui::time_zone::TimeZone;
use ::tui::widget::symbols::Symbols;
use anyhow::{Context as _, anyhow};
use clap::Args;
use client::transport::Token;
use model::address::redact_address;
use model::key::ApiKey;
use model::text::line_of;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use stack::data_dir::project_dirs;
use stack::start::KEY_VARIABLE;
use toml::Spanned;

use crate::cli::parse::read_optional;

/// Environment variable with the token of a head's REST API.
pub(crate) const TOKEN_VARIABLE: &str = "TRIPTYCH_REST_TOKEN";

/// Name of the configuration file in the configuration directory.
const FILE_NAME: &str = "config.toml";

/// Addresses of the services, from the command line or the environment.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AddressFlags {
    /// Address of the head, such as `http://127.0.0.1:8080`. For the screen, several addresses can
    /// be separated by commas or given with one flag each
    #[arg(long = "head", env = "TRIPTYCH_HEAD", value_name = "URL", value_delimiter = ',')]
    pub(crate) heads: Vec<String>,
    /// Address of the dataset service, ending in `/api`
    #[arg(long, env = "TRIPTYCH_DATASETS", value_name = "URL")]
    pub(crate) datasets: Option<String>,
    /// Address of the inference service
    #[arg(long, env = "TRIPTYCH_INFERENCE", value_name = "URL")]
    pub(crate) inference: Option<String>,
    /// Profile in the configuration file that supplies the other addresses
    #[arg(long, env = "TRIPTYCH_PROFILE", value_name = "NAME")]
    pub(crate) profile: Option<String>,
}

/// Addresses of the services. A service without an address is not used.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Profile {
    /// Heads of a cluster: a string or a list in the file. Commands other than the screen and `doctor`
    /// use the first.
    #[serde(default, rename = "head", deserialize_with = "addresses")]
    pub(crate) heads: Vec<String>,
    /// Dataset service, ending in `/api`.
    #[serde(default, deserialize_with = "address")]
    pub(crate) datasets: Option<String>,
    /// Address of the inference service.
    #[serde(default, deserialize_with = "address")]
    pub(crate) inference: Option<String>,
}

/// Addresses in use, and the name of the profile that they are from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChosenProfile {
    /// Name of the profile, or `None` if all addresses are from flags or the environment.
    pub(crate) name: Option<String>,
    /// Addresses of the services.
    pub(crate) profile: Profile,
}

/// The configuration file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Name of the profile to use if neither a flag nor the environment names a profile.
    profile: Option<String>,
    /// Profiles by name.
    #[serde(default)]
    profiles: BTreeMap<String, Profile>,
    /// Settings of the screen.
    #[serde(default)]
    screen: ScreenOptions,
}

/// Settings of the screen. Flags override them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScreenOptions {
    /// Name of a theme, or `auto`.
    pub(crate) theme: Option<Spanned<String>>,
    /// Path and line of `theme` in the file, for errors.
    #[serde(skip)]
    pub(crate) theme_place: String,
    /// Symbols of charts and marks.
    #[serde(default, deserialize_with = "parsed")]
    pub(crate) symbols: Option<Symbols>,
    /// Time zone of the times shown.
    #[serde(default, deserialize_with = "parsed")]
    pub(crate) time_zone: Option<TimeZone>,
    /// True to capture the mouse.
    #[serde(rename = "mouse")]
    pub(crate) has_mouse: Option<bool>,
    /// True to query the terminal for its background color.
    #[serde(rename = "probe")]
    pub(crate) has_probe: Option<bool>,
}

fn address<'de, D: Deserializer<'de>>(from: D) -> Result<Option<String>, D::Error> {
    checked(String::deserialize(from)?).map(Some).map_err(D::Error::custom)
}

fn addresses<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "an address or a list of addresses")]
    enum Texts {
        One(String),
        Several(Vec<String>),
    }
    let texts = match Texts::deserialize(from)? {
        Texts::One(text) => vec![text],
        Texts::Several(texts) => texts,
    };
    let checked = texts.into_iter().map(checked).collect::<Result<Vec<String>, String>>();
    checked.map(unique).map_err(D::Error::custom)
}

fn checked(address: String) -> Result<String, String> {
    if is_address(&address) {
        return Ok(address);
    }
    Err(format!(
        "invalid address `{}`, expected an address such as http://127.0.0.1:8080",
        redact_address(&address)
    ))
}

/// Returns `addresses` without duplicates.
fn unique(addresses: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let is_new = |address: &String| seen.insert(address.trim_end_matches('/').to_owned());
    addresses.into_iter().filter(is_new).collect()
}

fn parsed<'de, D: Deserializer<'de>, T: FromStr<Err: Display>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

/// Returns the directory of compiled functions, which all nodes of a user share, or `None` if the user
/// has no home directory.
pub(crate) fn compiled_folder() -> Option<PathBuf> {
    project_dirs().ok().map(|folders| folders.cache_dir().join("compiled"))
}

/// Returns the addresses to use, or `None` if no addresses are configured.
///
/// # Errors
/// If the configuration file cannot be read or does not contain the named profile.
pub(crate) fn profile(flags: AddressFlags) -> anyhow::Result<Option<Profile>> {
    Ok(choose_profile(flags, None)?.0.map(|chosen| chosen.profile))
}

/// Returns the addresses to use and all profiles of the file. The addresses are `None` if none are
/// configured.
///
/// If neither flags nor the environment name a service or a profile, the profile `last` is used,
/// provided that the file still contains it.
///
/// # Errors
/// As [`profile`].
pub(crate) fn choose_profile(
    mut flags: AddressFlags,
    last: Option<String>,
) -> anyhow::Result<(Option<ChosenProfile>, BTreeMap<String, Profile>)> {
    let path = project_dirs().ok().map(|folders| folders.config_dir().join(FILE_NAME));
    let file = path.as_deref().map(read).transpose()?.unwrap_or_default();
    if !flags.is_any() {
        flags.profile = last.filter(|last| file.profiles.contains_key(last));
    }
    Ok((choose(flags, &file)?, file.profiles))
}

/// Returns the settings of the screen.
///
/// # Errors
/// As [`profile`].
pub(crate) fn screen() -> anyhow::Result<ScreenOptions> {
    let Ok(folders) = project_dirs() else { return Ok(ScreenOptions::default()) };
    let path = folders.config_dir().join(FILE_NAME);
    let Some(text) = read_optional(&path)? else { return Ok(ScreenOptions::default()) };
    let mut screen = parse_file(&path, &text)?.screen;
    let at = screen.theme.as_ref().map_or(0, |theme| theme.span().start);
    screen.theme_place = format!("{}:{}", path.display(), line_of(&text, at));
    Ok(screen)
}

fn read(path: &Path) -> anyhow::Result<File> {
    read_optional(path)?.map_or_else(|| Ok(File::default()), |text| parse_file(path, &text))
}

/// Parses the configuration file at `path` with the content `text`.
fn parse_file(path: &Path, text: &str) -> anyhow::Result<File> {
    toml::from_str(text).map_err(|error| {
        let line = line_of(text, error.span().unwrap_or_default().start);
        anyhow!("invalid configuration: {}:{line}: {}", path.display(), error.message())
    })
}

/// Returns true if `address` has the form of an HTTP URL with a host.
fn is_address(address: &str) -> bool {
    let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.starts_with(['/', ':']) && !rest.is_empty())
        && !address.contains(char::is_whitespace)
}

/// Checks that `text` is a valid configuration file.
#[cfg(test)]
pub(crate) fn check(text: &str) -> anyhow::Result<()> {
    parse_file(Path::new("config.toml"), text).map(drop)
}

fn choose(flags: AddressFlags, file: &File) -> anyhow::Result<Option<ChosenProfile>> {
    let name = flags.profile.or_else(|| file.profile.clone());
    let base = match &name {
        None => None,
        Some(name) => {
            let profile = file.profiles.get(name).with_context(|| {
                let known: Vec<_> = file.profiles.keys().map(String::as_str).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                format!("the configuration file has no profile `{name}`, only: {known}")
            })?;
            Some(profile.clone())
        }
    };
    let heads: Vec<String> = flags.heads.iter().flat_map(|text| split_heads(text)).collect();
    let has_address = !heads.is_empty() || flags.datasets.is_some() || flags.inference.is_some();
    if base.is_none() && !has_address {
        return Ok(None);
    }
    let base = base.unwrap_or_default();
    let profile = Profile {
        heads: if heads.is_empty() { base.heads } else { unique(heads) },
        datasets: flags.datasets.or(base.datasets),
        inference: flags.inference.or(base.inference),
    };
    Ok(Some(ChosenProfile { name, profile }))
}

/// Splits a comma-separated list of heads.
pub(crate) fn split_heads(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned)
}

impl AddressFlags {
    /// Returns true if at least one address or a profile is given.
    fn is_any(&self) -> bool {
        let Self { heads, datasets, inference, profile } = self;
        let is_any_head = heads.iter().any(|text| split_heads(text).next().is_some());
        is_any_head || datasets.is_some() || inference.is_some() || profile.is_some()
    }
}

/// Returns the value of the environment variable `name`, or `None` if it is unset or empty.
///
/// # Errors
/// If the value is not UTF-8. The error does not contain the value, which can be a secret.
pub(crate) fn variable(name: &str) -> anyhow::Result<Option<String>> {
    let value = std::env::var_os(name).filter(|text| !text.is_empty());
    let text = value.map(|text| text.into_string().ok());
    text.map(|text| text.with_context(|| format!("{name} is not valid UTF-8"))).transpose()
}

/// Parses the value of the environment variable `name`. Returns `None` if it is unset or empty. Errors
/// do not contain the value, which can be a secret.
///
/// # Errors
/// If the value is invalid.
pub(crate) fn parsed_variable<T>(name: &str) -> anyhow::Result<Option<T>>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let parsed = variable(name)?.map(|text| text.parse());
    parsed.transpose().with_context(|| format!("invalid {name}"))
}

/// Returns the API key in the environment, or `None` if it is unset.
///
/// # Errors
/// If the value of the variable is not a key. The error does not contain the value.
pub(crate) fn api_key() -> anyhow::Result<Option<ApiKey>> {
    parsed_variable(KEY_VARIABLE)
}

/// Returns the token for heads in the environment, or `None` if it is unset.
///
/// # Errors
/// If the value of the variable is not a token. The error does not contain the value.
pub(crate) fn head_token() -> anyhow::Result<Option<Token>> {
    parsed_variable(TOKEN_VARIABLE)
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
    fn no_profile_is_chosen_without_configuration() {
        assert_eq!(choose(AddressFlags::default(), &File::default()).unwrap(), None);
    }

    #[test]
    fn flag_overrides_the_profile() {
        let flags = AddressFlags { heads: vec!["http://flag".into()], ..Default::default() };
        let ChosenProfile { name, profile } = choose(flags, &file()).unwrap().unwrap();
        assert_eq!(name.as_deref(), Some("home"));
        assert_eq!(profile.heads, ["http://flag"]);
        assert_eq!(profile.datasets.as_deref(), Some("http://home:2/api"));
    }

    #[test]
    fn heads_are_given_as_a_list_in_the_file_or_separated_by_commas_in_a_flag() {
        let text =
            "profile = \"a\"\n[profiles.a]\nhead = [\"http://a\", \"http://b\", \"http://a/\"]";
        let file: File = toml::from_str(text).unwrap();
        let heads = |flags: &[&str]| {
            let heads = flags.iter().map(|&flag| flag.to_owned()).collect();
            let flags = AddressFlags { heads, ..Default::default() };
            choose(flags, &file).unwrap().unwrap().profile.heads
        };
        assert_eq!(heads(&[]), ["http://a", "http://b"], "each once");
        assert_eq!(heads(&[""]), heads(&[]), "an empty variable names none");
        assert_eq!(
            heads(&["http://c, http://d", "http://e"]),
            ["http://c", "http://d", "http://e"]
        );
    }

    #[track_caller]
    fn check_error(text: &str, parts: &[&str]) {
        let error = check(text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn invalid_file_is_reported_by_line_with_the_valid_names() {
        check_error("a = 1", &["config.toml:1: unknown field `a`", "`profiles`", "`screen`"]);
        check_error(
            "[profiles.a]\n\nhed = \"x\"",
            &["config.toml:3: unknown field `hed`", "`head`"],
        );
        check_error("[screen]\nmouse = 3", &["config.toml:2: ", "boolean"]);
        check_error(
            "[screen]\ntime_zone = \"Mars\"",
            &["config.toml:2: unknown time zone `Mars`", "local"],
        );
        check_error(
            "[profiles.a]\nhead = \"nowhere\"",
            &["config.toml:2: invalid address `nowhere`"],
        );
        check_error(
            "[profiles.a]\nhead = [\"http://a\", \"b\"]",
            &["config.toml:2: invalid address `b`"],
        );
        check_error(
            "[profiles.a]\nhead = 3",
            &["config.toml:2: an address or a list of addresses"],
        );
        check_error("[profiles.a\n", &["config.toml:1: "]);
        for invalid in ["http://", "ftp://a", "http://:80", "http://a b"] {
            assert!(!is_address(invalid), "{invalid}");
        }
        assert!(is_address("https://api.example.org/v1") && is_address("http://[::1]:8080"));
    }

    #[test]
    fn missing_profile_is_reported_with_the_existing_profiles() {
        let flags = AddressFlags { profile: Some("moon".into()), ..Default::default() };
        let error = choose(flags, &file()).unwrap_err().to_string();
        assert!(error.contains("`moon`") && error.contains("far, home"), "{error}");
    }
}
