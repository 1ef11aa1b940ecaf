//! Secrets on the command line. Removes them from the errors of clap, which repeat invalid values, and
//! warns about passwords in addresses.

use std::ffi::OsStr;

use clap::error::{ContextKind, ContextValue};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command};
use db::postgres::DatabaseUrl;
use model::address::{REDACTED, redact_address};

/// Schemes of the only addresses that can contain a password. Addresses with other schemes are rejected
/// if they contain one.
const WITH_PASSWORD: [&str; 2] = ["postgres://", "postgresql://"];

/// Removes secrets from `error`: the whole value of an argument if the help hides the value of its
/// environment variable, and otherwise everything in the value that looks like credentials.
pub(super) fn redact(mut error: clap::Error, command: &Command) -> clap::Error {
    let is_secret = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(shown)) => {
            let name = shown.split([' ', '=']).next().unwrap_or_default();
            has_secret(command, name.trim_start_matches("--"))
        }
        _ => false,
    };
    for kind in [ContextKind::InvalidArg, ContextKind::InvalidSubcommand, ContextKind::InvalidValue]
    {
        let Some(ContextValue::String(text)) = error.get(kind) else { continue };
        let text = if is_secret && kind == ContextKind::InvalidValue {
            REDACTED.to_owned()
        } else {
            redact_address(text).into_owned()
        };
        error.insert(kind, ContextValue::String(text));
    }
    error
}

/// Returns true if `command` or a subcommand has an option called `long` that can contain a secret.
fn has_secret(command: &Command, long: &str) -> bool {
    let mut options = command.get_arguments();
    options.any(|it| it.is_hide_env_values_set() && it.get_long() == Some(long))
        || command.get_subcommands().any(|below| has_secret(below, long))
}

/// Returns advice for each password in the command line. `given` are the parsed arguments of `command`,
/// which all users of this machine can read in the list of processes.
pub(super) fn exposed_passwords(command: &Command, given: &ArgMatches) -> Vec<String> {
    let own = command.get_arguments().filter_map(|argument| {
        let id = argument.get_id().as_str();
        let is_typed = given.value_source(id) == Some(ValueSource::CommandLine);
        let values = given.get_raw(id).filter(|_| is_typed)?;
        let has_password_scheme =
            |text: &&str| WITH_PASSWORD.iter().any(|scheme| text.starts_with(scheme));
        let mut addresses = values.filter_map(OsStr::to_str).filter(has_password_scheme);
        addresses.any(DatabaseUrl::has_password).then(|| advice(argument))
    });
    let below = given
        .subcommand()
        .and_then(|(name, below)| Some(exposed_passwords(command.find_subcommand(name)?, below)));
    let mut all: Vec<_> = own.chain(below.into_iter().flatten()).collect();
    // clap lists a global option at each level of subcommands, so its advice occurs once for each level.
    all.dedup();
    all
}

fn advice(argument: &Arg) -> String {
    let name = argument.get_long().map(|long| format!("--{long}"));
    let name = name.unwrap_or_else(|| argument.get_id().as_str().to_uppercase());
    let variable = argument.get_env().map(|it| format!(", or set {}", it.to_string_lossy()));
    let variable = variable.unwrap_or_default();
    format!(
        "all users of this machine can read the password in {name}; put it in PGPASSWORD or ~/.pgpass{variable} \
         instead"
    )
}
