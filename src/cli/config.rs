//! Where the services are: flags, then the environment, then the profile of the configuration file.
//!
//! The API key and the token of a head are never flags (everyone on the machine can read those) and
//! never stand in the file: they come from the environment, the key also from where `secret` looks.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    str::FromStr,
};

use ::tui::{time_zone::TimeZone, widget::symbols::Symbols};
use anyhow::{Context as _, anyhow, bail};
use clap::Args;
use client::transport::Token;
use model::{address::redact_address, key::ApiKey};
use serde::{Deserialize, Deserializer, de::Error as _};
use stack::{data_dir::project_dirs, start::KEY_VARIABLE};
use toml::Spanned;

use crate::cli::parse::read_optional;

/// The environment variable that holds the token of a head's REST API.
pub(crate) const TOKEN_VARIABLE: &str = "TRIPTYCH_REST_TOKEN";

/// The name of the configuration file in the configuration folder.
const FILE_NAME: &str = "config.toml";

/// Where the services are, as the command line or the environment names them.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct AddressFlags {
    /// The head's address, such as `http://127.0.0.1:8080`; the screen shows several together, named
    /// with commas between or one by one
    #[arg(long = "head", env = "TRIPTYCH_HEAD", value_name = "URL", value_delimiter = ',')]
    pub(crate) heads: Vec<String>,
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
    /// The addresses of heads of one cluster: a text, or a list. Commands other than the screen
    /// and `doctor` use the first.
    #[serde(default, rename = "head", deserialize_with = "addresses")]
    pub(crate) heads: Vec<String>,
    /// The dataset service's address, ending in `/api`.
    #[serde(default, deserialize_with = "address")]
    pub(crate) datasets: Option<String>,
    /// The inference service's address.
    #[serde(default, deserialize_with = "address")]
    pub(crate) inference: Option<String>,
}

/// The services that are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ChosenProfile {
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
    /// How the screen is opened.
    #[serde(default)]
    screen: ScreenOptions,
}

/// How the screen is opened where no flag says otherwise.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScreenOptions {
    /// The name of a theme, or `auto`.
    pub(crate) theme: Option<Spanned<String>>,
    /// Where that is written.
    #[serde(skip)]
    pub(crate) theme_place: String,
    /// What charts and marks are drawn with.
    #[serde(default, deserialize_with = "symbols")]
    pub(crate) symbols: Option<Symbols>,
    /// The zone in which times are shown.
    #[serde(default, deserialize_with = "time_zone")]
    pub(crate) time_zone: Option<TimeZone>,
    /// Whether the mouse is taken from the terminal.
    #[serde(rename = "mouse")]
    pub(crate) has_mouse: Option<bool>,
    /// Whether the terminal is asked for its background.
    #[serde(rename = "probe")]
    pub(crate) is_asked: Option<bool>,
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
    let checked: Result<Vec<String>, String> = texts.into_iter().map(checked).collect();
    checked.map(unique).map_err(D::Error::custom)
}

fn checked(address: String) -> Result<String, String> {
    if is_address(&address) {
        return Ok(address);
    }
    Err(format!("`{}` is no address, such as http://127.0.0.1:8080", redact_address(&address)))
}

/// `addresses` without those that stand there twice: a head is asked once.
fn unique(addresses: Vec<String>) -> Vec<String> {
    let mut seen = BTreeSet::new();
    let is_new = |address: &String| seen.insert(address.trim_end_matches('/').to_owned());
    addresses.into_iter().filter(is_new).collect()
}

fn symbols<'de, D: Deserializer<'de>>(from: D) -> Result<Option<Symbols>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

fn time_zone<'de, D: Deserializer<'de>>(from: D) -> Result<Option<TimeZone>, D::Error> {
    String::deserialize(from)?.parse().map(Some).map_err(D::Error::custom)
}

/// The folder of compiled functions, which all nodes of one user share; none without a home folder.
pub(crate) fn compiled_folder() -> Option<PathBuf> {
    project_dirs().ok().map(|folders| folders.cache_dir().join("compiled"))
}

/// Returns the addresses to use, none if nothing is configured anywhere.
///
/// # Errors
/// If the configuration file cannot be read, or a profile is named that it does not hold.
pub(crate) fn profile(flags: AddressFlags) -> anyhow::Result<Option<Profile>> {
    Ok(choose_profile(flags, None)?.0.map(|chosen| chosen.profile))
}

/// Returns the services to use, none if nothing is configured anywhere, and every profile there is.
///
/// Where neither flags nor the environment tell of any, it is the profile `last`, if it is still
/// there.
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

/// Returns how the screen is to be opened.
///
/// # Errors
/// As [`profile`].
pub(crate) fn screen() -> anyhow::Result<ScreenOptions> {
    let Ok(folders) = project_dirs() else { return Ok(ScreenOptions::default()) };
    let path = folders.config_dir().join(FILE_NAME);
    let Some(text) = read_optional(&path)? else { return Ok(ScreenOptions::default()) };
    let mut screen = understood(&path, &text)?.screen;
    let at = screen.theme.as_ref().map_or(0, |theme| theme.span().start);
    screen.theme_place = format!("{}:{}", path.display(), line_of(&text, at));
    Ok(screen)
}

/// The line, from 1 on, of the byte at `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1
}

fn read(path: &Path) -> anyhow::Result<File> {
    read_optional(path)?.map_or_else(|| Ok(File::default()), |text| understood(path, &text))
}

/// Understands the file at `path`, whose text is `text`.
fn understood(path: &Path, text: &str) -> anyhow::Result<File> {
    toml::from_str(text).map_err(|error| {
        let line = line_of(text, error.span().unwrap_or_default().start);
        anyhow!("use {}:{line}: {}", path.display(), error.message())
    })
}

/// Whether a client could call `address`, as far as can be said without trying.
fn is_address(address: &str) -> bool {
    let rest = address.strip_prefix("http://").or_else(|| address.strip_prefix("https://"));
    rest.is_some_and(|rest| !rest.starts_with(['/', ':']) && !rest.is_empty())
        && !address.contains(char::is_whitespace)
}

/// Whether `text` could stand in the configuration file.
#[cfg(test)]
pub(crate) fn check(text: &str) -> anyhow::Result<()> {
    understood(Path::new("config.toml"), text).map(drop)
}

fn choose(flags: AddressFlags, file: &File) -> anyhow::Result<Option<ChosenProfile>> {
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
    let heads: Vec<String> = flags.heads.iter().flat_map(|text| split_heads(text)).collect();
    let is_told = !heads.is_empty() || flags.datasets.is_some() || flags.inference.is_some();
    if base.is_none() && !is_told {
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

/// The addresses of heads in a text with commas between them.
pub(crate) fn split_heads(text: &str) -> impl Iterator<Item = String> {
    text.split(',').map(str::trim).filter(|address| !address.is_empty()).map(str::to_owned)
}

impl AddressFlags {
    /// Whether any address or profile is given.
    fn is_any(&self) -> bool {
        let Self { heads, datasets, inference, profile } = self;
        let is_any_head = heads.iter().any(|text| split_heads(text).next().is_some());
        is_any_head || datasets.is_some() || inference.is_some() || profile.is_some()
    }
}

/// Returns the text of the environment variable `name`; `None` if it is not set, or empty.
///
/// # Errors
/// If what is set is no text. It is not repeated.
pub(crate) fn variable(name: &str) -> anyhow::Result<Option<String>> {
    let set = std::env::var_os(name).filter(|text| !text.is_empty());
    let text = set.map(|text| text.into_string().ok().context("read what is no text"));
    text.transpose().with_context(|| format!("use {name}"))
}

/// Parses the environment variable `name`, if it is set. The text is not repeated in errors.
///
/// # Errors
/// If what is set is no text, or none such.
pub(crate) fn parsed_variable<T>(name: &str) -> anyhow::Result<Option<T>>
where
    T: FromStr<Err: std::error::Error + Send + Sync + 'static>,
{
    let parsed = variable(name)?.map(|text| text.parse());
    parsed.transpose().with_context(|| format!("use {name}"))
}

/// Returns the API key of the environment, none if it is not set.
///
/// # Errors
/// If what is set is no key. The text is not repeated.
pub(crate) fn api_key() -> anyhow::Result<Option<ApiKey>> {
    parsed_variable(KEY_VARIABLE)
}

/// Returns the token of heads that the environment tells, none if it is not set.
///
/// # Errors
/// If what is set cannot be sent. The text is not repeated.
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
    fn nothing_configured_is_no_profile() {
        assert_eq!(choose(AddressFlags::default(), &File::default()).unwrap(), None);
    }

    #[test]
    fn a_flag_wins_over_the_profile() {
        let flags = AddressFlags { heads: vec!["http://flag".into()], ..Default::default() };
        let ChosenProfile { name, profile } = choose(flags, &file()).unwrap().unwrap();
        assert_eq!(name.as_deref(), Some("home"));
        assert_eq!(profile.heads, ["http://flag"]);
        assert_eq!(profile.datasets.as_deref(), Some("http://home:2/api"));
    }

    #[test]
    fn several_heads_are_a_list_or_stand_between_commas() {
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
    fn check_fault(text: &str, parts: &[&str]) {
        let error = check(text).unwrap_err().to_string();
        for part in parts {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn what_cannot_be_understood_is_named_by_line_with_what_may_stand_there() {
        check_fault("a = 1", &["config.toml:1: unknown field `a`", "`profiles`", "`screen`"]);
        check_fault(
            "[profiles.a]\n\nhed = \"x\"",
            &["config.toml:3: unknown field `hed`", "`head`"],
        );
        check_fault("[screen]\nmouse = 3", &["config.toml:2: ", "boolean"]);
        check_fault(
            "[screen]\ntime_zone = \"Mars\"",
            &["config.toml:2: unknown time zone `Mars`", "local"],
        );
        check_fault(
            "[profiles.a]\nhead = \"nowhere\"",
            &["config.toml:2: `nowhere` is no address"],
        );
        check_fault(
            "[profiles.a]\nhead = [\"http://a\", \"b\"]",
            &["config.toml:2: `b` is no address"],
        );
        check_fault(
            "[profiles.a]\nhead = 3",
            &["config.toml:2: an address or a list of addresses"],
        );
        check_fault("[profiles.a\n", &["config.toml:1: "]);
        for unfit in ["http://", "ftp://a", "http://:80", "http://a b"] {
            assert!(!is_address(unfit), "{unfit}");
        }
        assert!(is_address("https://api.example.org/v1") && is_address("http://[::1]:8080"));
    }

    #[test]
    fn a_profile_that_is_not_there_is_named_with_those_that_are() {
        let flags = AddressFlags { profile: Some("moon".into()), ..Default::default() };
        let error = choose(flags, &file()).unwrap_err().to_string();
        assert!(error.contains("`moon`") && error.contains("far, home"), "{error}");
    }
}
