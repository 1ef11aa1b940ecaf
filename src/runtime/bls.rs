//! The command line of the upstream's runtime, `bls-runtime`, on top of this one.
//!
//! A node calls a runtime that is a program of its own as
//! `<program> <module> [--flag value]… -- <argument>…`, and takes its output, its exit code and
//! nothing else. What has no meaning here is read and ignored: drivers and permissions are for
//! modules of the host that are not offered, and there is no log and no debugger to write for.

use std::{
    collections::BTreeMap,
    env, fs,
    io::{self, Write as _},
    num::{NonZeroU32, ParseIntError},
    path::PathBuf,
    time::Duration,
};

use crate::{
    engine::{RunError, Runtime, RuntimeError, RuntimeOptions},
    files::{Afterwards, Files},
    program::Program,
    run::{Asked, Ended, Limits, Run, START},
};

/// The variable that names the others meant for the guest, joined by [`LIST_SEPARATOR`].
pub const LIST_VARS: &str = "BLS_LIST_VARS";

/// What stands between the names in [`LIST_VARS`].
pub const LIST_SEPARATOR: char = ';';

/// The unit of `--limited-memory`: a page of WebAssembly.
pub const PAGE_BYTES: usize = 64 * 1024;

/// What the upstream ends with where the command line or the module is at fault.
const EXIT_OTHER: i32 = 255;

/// What the upstream ends with where what it is told to use is not there.
const EXIT_CONFIG: i32 = 128;

/// What a guest may use unless told otherwise: all there is, as with the upstream. A node that
/// calls this program has limits of its own.
const LIMITS: Limits =
    Limits { wall: Duration::MAX, memory_bytes: 1 << 32, output_bytes: usize::MAX, fuel: None };

/// What is printed for `--help`.
const HELP: &str = "\
Runs a WebAssembly module, a WASI command, as bls-runtime does.

Usage: runtime MODULE [OPTIONS] [-- ARGUMENTS...]

  --entry NAME             the exported function to start at (_start)
  --run-time MS            end it after so many milliseconds
  --limited-fuel N         end it after so many units of work
  --limited-memory PAGES   give it at most so many pages of 64 KiB
  --fs-root-path FOLDER    show it this folder as /
  --env NAME=VALUE         a variable of its environment, beside those that BLS_LIST_VARS lists
  --debug-info, --drivers-root-path FOLDER, --runtime-logger FILE, --permission URL
                           read and ignored
";

/// A command line, understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Command {
    /// The file of the module.
    pub module: PathBuf,
    /// The exported function to start at.
    pub entry: String,
    /// What the guest is to use.
    pub asked: Asked,
    /// The folder it sees as `/`.
    pub fs_root: Option<PathBuf>,
    /// Its environment, beside what [`LIST_VARS`] lists.
    pub environment: BTreeMap<String, String>,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// Why a command line is not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    /// It asks for help, which is no error.
    #[error("show the help")]
    Help,
    /// It names no module.
    #[error("find the module's file among the arguments")]
    NoModule,
    /// A flag that nobody knows.
    #[error("know the option {flag}")]
    Unknown {
        /// The flag.
        flag: String,
    },
    /// A flag without its value.
    #[error("find the value of {flag}")]
    NoValue {
        /// The flag.
        flag: String,
    },
    /// A value that is not a number, or too large.
    #[error("read the number {value:?} of {flag}")]
    Number {
        /// The flag.
        flag: String,
        /// Its value.
        value: String,
        /// What is wrong with it.
        #[source]
        source: ParseIntError,
    },
    /// A variable that is not `NAME=VALUE`.
    #[error("read {value:?} as a variable, NAME=VALUE")]
    Variable {
        /// What was given.
        value: String,
    },
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("understand the command line")]
    Command(#[from] CommandError),
    #[error("read the module {}", module.display())]
    Module {
        module: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("set up the runtime")]
    Runtime(#[from] RuntimeError),
    #[error("run the module")]
    Run(#[from] RunError),
}

impl Command {
    /// Reads a command line, without the name of the program.
    ///
    /// # Errors
    /// [`CommandError`], which names the argument at fault.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, CommandError> {
        let mut arguments = arguments.into_iter();
        let mut module = None;
        let mut command = Self {
            module: PathBuf::new(),
            entry: START.to_owned(),
            asked: Asked::default(),
            fs_root: None,
            environment: BTreeMap::new(),
            arguments: Vec::new(),
        };
        while let Some(argument) = arguments.next() {
            if argument == "--" {
                command.arguments.extend(arguments.by_ref());
            } else if argument.starts_with('-') && argument.len() > 1 {
                command.take_flag(&argument, &mut arguments)?;
            } else if module.is_none() {
                module = Some(PathBuf::from(argument));
            } else {
                command.arguments.push(argument);
            }
        }
        command.module = module.ok_or(CommandError::NoModule)?;
        Ok(command)
    }

    fn take_flag(
        &mut self,
        argument: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), CommandError> {
        let (flag, inline) = match argument.split_once('=') {
            Some((flag, value)) => (flag, Some(value.to_owned())),
            None => (argument, None),
        };
        let mut value = || inline.clone().or_else(|| rest.next()).ok_or_else(|| no_value(flag));
        match flag {
            "-h" | "--help" => return Err(CommandError::Help),
            "--debug-info" => {}
            "--drivers-root-path" | "--runtime-logger" | "--permission" => {
                value()?;
            }
            "--entry" => self.entry = value()?,
            "--fs-root-path" => self.fs_root = Some(PathBuf::from(value()?)),
            // The upstream reads 0 as no limit at all.
            "--run-time" => {
                self.asked.wall = some(number(flag, value()?)?).map(Duration::from_millis);
            }
            "--limited-fuel" => self.asked.fuel = some(number(flag, value()?)?),
            "--limited-memory" => {
                self.asked.memory_bytes = some(number(flag, value()?)?).map(pages);
            }
            "--env" => {
                let value = value()?;
                let (name, text) = value
                    .split_once('=')
                    .ok_or_else(|| CommandError::Variable { value: value.clone() })?;
                self.environment.insert(name.to_owned(), text.to_owned());
            }
            _ => return Err(CommandError::Unknown { flag: flag.to_owned() }),
        }
        Ok(())
    }
}

/// The size of so many pages, or of all that can be named.
#[must_use]
pub fn pages(n_pages: u64) -> usize {
    usize::try_from(n_pages).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES)
}

/// Does what the command line `arguments`, without the program's name, says, with this process's
/// standard streams and those variables of its environment that [`LIST_VARS`] lists. Returns the
/// code the process should exit with. Blocks; not for a thread that drives futures.
///
/// Compiled code is kept in `compiled_folder`, if there is one.
pub fn run(arguments: impl IntoIterator<Item = String>, compiled_folder: Option<PathBuf>) -> i32 {
    let failure = match execute(arguments, compiled_folder) {
        Ok(code) => return code,
        Err(Failure::Command(CommandError::Help)) => {
            return if io::stdout().write_all(HELP.as_bytes()).is_ok() { 0 } else { EXIT_OTHER };
        }
        Err(failure) => failure,
    };
    let mut text = format!("runtime: failed to {failure}");
    let mut cause = std::error::Error::source(&failure);
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    tell(&format!("{text}\n"));
    match failure {
        Failure::Run(RunError::Files { .. }) => EXIT_CONFIG,
        _ => EXIT_OTHER,
    }
}

fn execute(
    arguments: impl IntoIterator<Item = String>,
    compiled_folder: Option<PathBuf>,
) -> Result<i32, Failure> {
    let command = Command::parse(arguments)?;
    let module = fs::read(&command.module)
        .map_err(|source| Failure::Module { module: command.module.clone(), source })?;
    let options = RuntimeOptions { compiled_folder, ..RuntimeOptions::for_runs(NonZeroU32::MIN) };
    let runtime = Runtime::new(options)?;
    let mut environment = listed(|name| env::var(name).ok());
    environment.extend(command.environment);
    let name = command.module.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files =
        command.fs_root.map(|folder| Files { folder, afterwards: Afterwards::Keep, limits: None });
    let run = Run {
        name,
        entry: command.entry,
        arguments: command.arguments,
        environment,
        stdin: Vec::new(),
        files,
        limits: LIMITS.lowered(command.asked),
    };
    let finished = runtime.execute_attached(&Program::new(module), run)?;
    if finished.ended != Ended::Exited {
        tell(&String::from_utf8_lossy(&finished.stderr));
    }
    Ok(finished.exit_code)
}

/// The variables that are meant for the guest, of those that `variable` tells the values of.
fn listed(variable: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let names = variable(LIST_VARS).unwrap_or_default();
    let names = names.split(LIST_SEPARATOR).filter(|name| !name.is_empty());
    names.filter_map(|name| Some((name.to_owned(), variable(name)?))).collect()
}

/// Writes to standard error. Where that is closed, nobody listens.
fn tell(text: &str) {
    if let Err(error) = io::stderr().write_all(text.as_bytes()) {
        tracing::debug!(%error, "standard error is closed");
    }
}

fn some(number: u64) -> Option<u64> {
    (number > 0).then_some(number)
}

fn number(flag: &str, value: String) -> Result<u64, CommandError> {
    value.parse().map_err(|source| CommandError::Number { flag: flag.to_owned(), value, source })
}

fn no_value(flag: &str) -> CommandError {
    CommandError::NoValue { flag: flag.to_owned() }
}

#[cfg(test)]
mod tests;
