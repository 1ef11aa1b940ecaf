//! The environment of an external runtime: fixed, plus the request's variables whose names are safe.
//!
//! b7s passes a request's variables to the runtime process itself, and lists their names in
//! `BLS_LIST_VARS`. A variable of that process can load code into it (`LD_PRELOAD`), run a command
//! (`BASH_ENV`) or move its files (`XDG_CACHE_HOME`), so a name that a shell, a loader, an
//! interpreter or this program reads is refused.

use std::collections::BTreeMap;

use runtime::bls::{LIST_SEPARATOR, LIST_VARS};

/// What every process gets, whatever this node's own environment holds: where a wrapper script finds
/// the system's commands, and an encoding that does not depend on the machine's locale.
const FIXED: [(&str, &str); 2] =
    [("LANG", "C.UTF-8"), ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")];

/// Names that are refused, with spaces between them.
const REFUSED_NAMES: &[&str] = &[
    // Where programs find commands and files.
    "HOME PATH PWD OLDPWD CDPATH FPATH SHELL TMPDIR TMP TEMP TZDIR TERMCAP TERMINFO",
    "TERMINFO_DIRS",
    // What shells read, some of it as commands, and what other programs start.
    "ENV IFS PS1 PS2 PS3 PS4 SHELLOPTS POSIXLY_CORRECT PROMPT_COMMAND GLOBIGNORE ZDOTDIR _",
    "EDITOR VISUAL PAGER BROWSER LESSOPEN LESSCLOSE",
    // What the C library reads to find code, messages and hosts.
    "GCONV_PATH GETCONF_DIR HOSTALIASES LOCALDOMAIN LOCPATH NLSPATH RES_OPTIONS LANG LANGUAGE",
    // What interpreters read.
    "CLASSPATH GOCOVERDIR SSLKEYLOGFILE SHLVL UID EUID OPTIND GODEBUG GOTRACEBACK TCLLIBPATH",
    "ELECTRON_RUN_AS_NODE",
];

/// What refused names begin with: families of variables that loaders, shells, interpreters,
/// libraries and runtimes read.
const REFUSED_PREFIXES: &[&str] = &[
    "B7S_ BASH BLS_ BUN_ COMPLUS_ CORECLR_ CURL_ DENO_ DOCKER_ DOTNET_ DYLD_ GCONV_ GHC GIT_",
    "GLIBC_ JAVA JDK_ KRB5_ LC_ LD_ LUA_ MAKE MALLOC_ MONO_ NODE_ NPM_ OPENSSL_ PERL PHP PYTHON",
    "RAYON_ R_PROFILE RESOLV_ RUBY RUST_ SSH_ SSL_ TOKIO_ TRIPTYCH_ WASMEDGE_ WASMER_ WASMTIME_",
    "XDG_ _JAVA",
];

/// How refused names end: those of proxies, and of options, folders and programs that many a tool
/// reads, such as `TAR_OPTIONS`, with which `tar` runs a command.
const REFUSED_SUFFIXES: &[&str] = &[
    "_PROXY", "_OPTIONS", "FLAGS", "OPTS", "_PATH", "_HOME", "_DIR", "_FILE", "_CONF", "_CONFIG",
    "PAGER", "LIBPATH", "_MODULES", "RUNPARAM",
];

/// The longest part of a refused name that an error repeats, in characters.
const SHOWN_CHARS_MAX: usize = 80;

/// Why a request's variable is not passed to an external runtime.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(in crate::worker) enum VariableError {
    /// Its name is not one that every program reads alike.
    #[error(
        "pass on the variable {name:?}: on this worker, names are letters, digits and _, and do not \
         begin with a digit"
    )]
    Name {
        /// The name, shortened.
        name: String,
    },
    /// The runtime process would read it itself.
    #[error(
        "pass on the variable {name}: this worker runs functions in another program, which would read \
         it itself; give it another name"
    )]
    Refused {
        /// The name, shortened.
        name: String,
    },
    /// Its value cannot be a variable's.
    #[error("pass on the variable {name}: its value holds a NUL")]
    Value {
        /// The name, shortened.
        name: String,
    },
}

/// Checks that the runtime process itself reads none of the request's variables.
///
/// # Errors
/// [`VariableError`], which names the first that is at fault.
pub(super) fn check(variables: &BTreeMap<String, String>) -> Result<(), VariableError> {
    for (name, value) in variables {
        let shown = || name.chars().take(SHOWN_CHARS_MAX).collect();
        if !is_plain(name) {
            return Err(VariableError::Name { name: shown() });
        }
        if is_refused(name) {
            return Err(VariableError::Refused { name: shown() });
        }
        if value.contains('\0') {
            return Err(VariableError::Value { name: shown() });
        }
    }
    Ok(())
}

/// The environment of a process that gets no variables of a request.
pub(super) fn fixed() -> BTreeMap<String, String> {
    FIXED.map(|(name, value)| (name.to_owned(), value.to_owned())).into()
}

/// The environment of a process that gets the request's variables as b7s passes them.
pub(super) fn with_listed(variables: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let names: Vec<&str> = variables.keys().map(String::as_str).collect();
    let mut environment = fixed();
    environment.extend(variables.clone());
    environment.insert(LIST_VARS.to_owned(), names.join(&LIST_SEPARATOR.to_string()));
    environment
}

/// Whether a name is `[A-Za-z_][A-Za-z0-9_]*`.
fn is_plain(name: &str) -> bool {
    let is_first = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(is_first) && name.chars().all(|c| is_first(c) || c.is_ascii_digit())
}

/// Whether a program may read a variable of this name by itself. Most such names are of capital
/// letters; those of proxies are read in both.
fn is_refused(name: &str) -> bool {
    let upper = name.to_ascii_uppercase();
    REFUSED_SUFFIXES.iter().any(|suffix| upper.ends_with(suffix))
        || REFUSED_NAMES.iter().any(|names| names.split(' ').any(|refused| refused == name))
        || REFUSED_PREFIXES.iter().any(|all| all.split(' ').any(|prefix| name.starts_with(prefix)))
}

#[cfg(test)]
mod tests;
