//! What the configuration file and the environment tell, put behind the command line as if it stood
//! there: each option is defined, read and checked in one place, [`super::flags`].

use std::{
    collections::{BTreeMap, BTreeSet},
    ffi::OsString,
    fs,
    path::Path,
};

use anyhow::{Context as _, anyhow, bail};
use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};
use serde_json::Value;

use crate::cli::config::line_of;

/// What the names of environment variables begin with.
const PREFIX: &str = "B7S_";

/// The largest configuration file read, in bytes. A thousand boot nodes take a tenth.
const FILE_BYTES_MAX: u64 = 1024 * 1024;

/// The headings of b7s files below which the options of this name stand.
const HEADINGS: [&str; 3] = ["connectivity", "head", "worker"];

/// Values of options by the names of those without hyphens.
type OptionValues = BTreeMap<String, Vec<String>>;

/// Adds to `arguments`, which were understood as `given`, what the file named among them and the
/// environment tell of options that they do not.
///
/// # Errors
/// If the file cannot be read, or has a name that is no option.
pub(crate) fn with_layers(
    arguments: Vec<OsString>,
    command: &Command,
    given: &ArgMatches,
    environment: impl Iterator<Item = (String, String)>,
) -> anyhow::Result<Vec<OsString>> {
    let options = Options::new(command);
    let is_given = |option: &Arg| {
        given.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine)
    };
    let environment = read_environment(environment);
    let path = given.get_one::<std::path::PathBuf>("config").cloned();
    let path = path.or_else(|| Some(environment.get("config")?.first()?.into()));
    let file = match &path {
        Some(path) => read_file(path).with_context(|| format!("read {}", path.display()))?,
        None => OptionValues::new(),
    };
    if let Some(unknown) = file.keys().find(|name| options.find(name).is_none()) {
        let path = path.unwrap_or_default();
        bail!("read {}: `{unknown}` is no option; see triptych node --help", path.display());
    }
    let mut arguments = arguments;
    let mut set = BTreeSet::new();
    for (name, values) in file.into_iter().chain(environment) {
        let Some(option) = options.find(&name) else { continue };
        if is_given(option) || !set.insert(option.get_id().clone()) {
            continue;
        }
        let long = option.get_long().unwrap_or_default();
        // Nothing is what b7s nodes say where an option is not to be used.
        let values = values.into_iter().filter(|value| !value.is_empty());
        arguments.extend(values.map(|value| format!("--{long}={value}").into()));
    }
    Ok(arguments)
}

/// Lets `--switch=false` be said of every switch of `command`, as b7s nodes do.
pub(crate) fn with_switches(command: Command) -> Command {
    command.mut_args(|option| {
        if !matches!(option.get_action(), ArgAction::SetTrue) {
            return option;
        }
        let option = option.action(ArgAction::Set).num_args(0..=1).require_equals(true);
        let option = option.value_parser(clap::value_parser!(bool)).value_name("BOOL");
        let option = option.default_missing_value("true").default_value("false");
        option.hide_default_value(true).hide_possible_values(true)
    })
}

/// The options of a command.
struct Options<'a>(Vec<&'a Arg>);

impl<'a> Options<'a> {
    fn new(command: &'a Command) -> Self {
        Self(command.get_arguments().filter(|option| option.get_long().is_some()).collect())
    }

    /// The option called `name`, hyphens left out.
    fn find(&self, name: &str) -> Option<&'a Arg> {
        self.0.iter().copied().find(|option| {
            let aliases = option.get_all_aliases().unwrap_or_default();
            option.get_long().into_iter().chain(aliases).any(|long| plain(long) == name)
        })
    }
}

/// A name without what only separates its words.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_'));
    letters.flat_map(char::to_lowercase).collect()
}

/// The option that stands at `path` in a file of a b7s node.
fn option_at(path: &[String]) -> String {
    let parts: Vec<&str> = path.iter().map(String::as_str).collect();
    match parts.as_slice() {
        ["log", "level"] => "loglevel".to_owned(),
        ["telemetry", "metrics" | "tracing", rest @ ..] if rest != ["enable"] => {
            let kind = if parts.get(1) == Some(&"tracing") { "tracing" } else { "" };
            format!("{kind}{}", rest.concat())
        }
        ["telemetry", kind, "enable"] => format!("enable{kind}"),
        [heading, rest @ ..] if HEADINGS.contains(heading) && !rest.is_empty() => rest.concat(),
        parts => parts.concat(),
    }
}

fn read_environment(variables: impl Iterator<Item = (String, String)>) -> OptionValues {
    let values = variables.filter_map(|(name, value)| {
        let path: Vec<String> = name.strip_prefix(PREFIX)?.split('_').map(plain).collect();
        Some((option_at(&path), vec![value]))
    });
    values.collect()
}

fn read_file(path: &Path) -> anyhow::Result<OptionValues> {
    let size = fs::metadata(path)?.len();
    if size > FILE_BYTES_MAX {
        bail!("{size} bytes are more than an options file may have, {FILE_BYTES_MAX}");
    }
    let text = fs::read_to_string(path)?;
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    // Neither error repeats the line, which may have a secret in it.
    let file: Value = if is_toml {
        let at = |error: &toml::de::Error| line_of(&text, error.span().unwrap_or_default().start);
        toml::from_str(&text)
            .map_err(|error| anyhow!("line {}: {}", at(&error), error.message()))?
    } else {
        serde_saphyr::from_str(&text).map_err(|error| anyhow!("{}", error.without_snippet()))?
    };
    let mut all = OptionValues::new();
    match file {
        Value::Null => {}
        Value::Object(_) => gather(&file, &mut Vec::new(), &mut all)?,
        _ => bail!("it holds no options, such as `port: 9527`"),
    }
    Ok(all)
}

/// Puts what stands in `value`, which is at `path`, into `all`.
fn gather(value: &Value, path: &mut Vec<String>, all: &mut OptionValues) -> anyhow::Result<()> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => bail!("`{}` holds neither a value nor a list of values", path.join(": ")),
    };
    match value {
        Value::Null => {}
        Value::Object(members) => {
            for (name, member) in members {
                path.push(plain(name));
                gather(member, path, all)?;
                path.pop();
            }
        }
        Value::Array(list) => {
            let values = list.iter().map(text).collect::<anyhow::Result<_>>()?;
            all.insert(option_at(path), values);
        }
        value => {
            let value = text(value)?;
            all.insert(option_at(path), vec![value]);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
