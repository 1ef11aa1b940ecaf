//! Environment of an external runtime: fixed, plus the variables of the request that the operator
//! allows by name.
//!
//! b7s passes a request's variables to the runtime process itself and lists their names in
//! `BLS_LIST_VARS`. A variable of that process can load code into it (`LD_PRELOAD`), run a command
//! (`BASH_ENV`) or move its files (`XDG_CACHE_HOME`). No list of dangerous names is ever complete, so
//! the operator lists harmless names.

use std::collections::{BTreeMap, BTreeSet};

use runtime::bls::{LIST_SEPARATOR, LIST_VARS};

/// Variables of every process. They do not depend on the node's own environment: the path of the
/// system's commands for wrapper scripts, and an encoding independent of the machine's locale.
const FIXED: [(&str, &str); 2] =
    [("LANG", "C.UTF-8"), ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")];

/// Maximum length of a name in an error, in characters. Longer names are shortened.
const SHOWN_CHARS_MAX: usize = 80;

/// A variable of a request that cannot be passed to an external runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(in crate::worker) enum VariableError {
    /// The name is of a form that some programs might interpret differently.
    #[error(
        "invalid name of an environment variable: {name:?}; names consist of letters, digits and _ \
         and do not begin with a digit"
    )]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// The operator does not allow the name.
    #[error(
        "environment variable {name} is not passed to this worker's external runtime; its operator \
         can allow it with --runtime-env {name}"
    )]
    NotAllowed {
        /// The name, shortened.
        name: String,
    },
    /// The value cannot be passed to a process.
    #[error("value of environment variable {name} contains a NUL byte")]
    Value {
        /// The name, shortened.
        name: String,
    },
}

/// Checks the form of the request's variables, and that the operator allows each of them in the
/// environment of the runtime process.
///
/// # Errors
/// [`VariableError`] for the first invalid variable.
pub(super) fn check(
    variables: &BTreeMap<String, String>,
    allowed: &BTreeSet<String>,
) -> Result<(), VariableError> {
    for (name, value) in variables {
        if !is_plain(name) {
            return Err(VariableError::Name { name: shorten(name) });
        }
        if !allowed.contains(name) {
            return Err(VariableError::NotAllowed { name: shorten(name) });
        }
        if value.contains('\0') {
            return Err(VariableError::Value { name: shorten(name) });
        }
    }
    Ok(())
}

/// Returns the environment of a process that gets the request's variables as b7s passes them.
pub(super) fn with_listed(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let names: Vec<&str> = variables.keys().map(String::as_str).collect();
    let fixed = FIXED.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let mut environment = BTreeMap::from(fixed);
    environment.extend(variables.clone());
    environment.insert(LIST_VARS.to_owned(), names.join(&LIST_SEPARATOR.to_string()));
    environment
}

/// Returns true if `name` is `[A-Za-z_][A-Za-z0-9_]*`.
fn is_plain(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

fn shorten(name: &str) -> String {
    name.chars().take(SHOWN_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests;
