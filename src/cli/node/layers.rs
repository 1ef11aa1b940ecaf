//! Options of a node from the configuration file and the environment. They are appended to the command
//! line as arguments, so that each option is defined, parsed and checked in one place,
//! [`super::flags`].

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::path::Path;

use anyhow::{Context as _, anyhow, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use model::text::line_of;
use serde_json::Value;

use crate::cli::parse::read_text;

/// Prefix of the environment variables with options.
const PREFIX: &str = "B7S_";

/// Maximum size of the configuration file, in bytes. A file with a thousand boot nodes is ten times
/// smaller.
const FILE_BYTES_MAX: usize = 1024 * 1024;

/// Headings in files of b7s nodes. They are not part of the names of the options below them.
const HEADINGS: [&str; 3] = ["connectivity", "head", "worker"];

/// Values of options, by the names of the options without hyphens.
type OptionValues = BTreeMap<String, Vec<String>>;

/// Appends the options of the configuration file and of the environment to `arguments`, unless the
/// command line already contains them. `given` are the parsed arguments, which can contain the path of
/// the file.
///
/// # Errors
/// If the file cannot be read, or contains an unknown option.
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
        Some(path) => parse_file(path, &read_text(path, FILE_BYTES_MAX)?)
            .with_context(|| format!("cannot read {}", path.display()))?,
        None => OptionValues::new(),
    };
    if let Some(unknown) = file.keys().find(|name| options.find(name).is_none()) {
        let path = path.unwrap_or_default();
        bail!("unknown option `{unknown}` in {}; see triptych node --help", path.display());
    }
    let mut arguments = arguments;
    let mut set = BTreeSet::new();
    for (name, values) in file.into_iter().chain(environment) {
        let Some(option) = options.find(&name) else { continue };
        if is_given(option) || !set.insert(option.get_id().clone()) {
            continue;
        }
        let long = option.get_long().unwrap_or_default();
        // An option with an empty value counts as unset, as in the files of b7s nodes.
        let values = values.into_iter().filter(|value| !value.is_empty());
        arguments.extend(values.map(|value| format!("--{long}={value}").into()));
    }
    Ok(arguments)
}

/// Allows a value for every switch of `command`, such as `--websocket=false`, as b7s nodes do.
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

    /// Returns the option with the name or alias `name`, given without hyphens.
    fn find(&self, name: &str) -> Option<&'a Arg> {
        self.0.iter().copied().find(|option| {
            let aliases = option.get_all_aliases().unwrap_or_default();
            option.get_long().into_iter().chain(aliases).any(|long| plain(long) == name)
        })
    }
}

/// Returns a name in lower case and without hyphens and underscores.
fn plain(name: &str) -> String {
    let letters = name.chars().filter(|c| !matches!(c, '-' | '_'));
    letters.flat_map(char::to_lowercase).collect()
}

/// Returns the name of the option at `path` in a file of a b7s node.
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

fn parse_file(path: &Path, text: &str) -> anyhow::Result<OptionValues> {
    let is_toml = path.extension().is_some_and(|extension| extension == "toml");
    // The errors contain the line number but not the text of the line, which could contain a secret.
    let file: Value = if is_toml {
        let at = |error: &toml::de::Error| line_of(text, error.span().unwrap_or_default().start);
        toml::from_str(text).map_err(|error| anyhow!("line {}: {}", at(&error), error.message()))?
    } else {
        serde_saphyr::from_str(text).map_err(|error| anyhow!("{}", error.without_snippet()))?
    };
    let mut all = OptionValues::new();
    match file {
        Value::Null => {}
        Value::Object(_) => gather(&file, &mut Vec::new(), &mut all)?,
        _ => bail!("expected options, such as `port: 9527`"),
    }
    Ok(all)
}

/// Adds the options in `value`, the part of the file at `path`, to `all`.
fn gather(value: &Value, path: &mut Vec<String>, all: &mut OptionValues) -> anyhow::Result<()> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => bail!("`{}` is neither a value nor a list of values", path.join(": ")),
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
