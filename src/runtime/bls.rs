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
    path::{Path, PathBuf},
    time::Duration,
};

use crate::{
    compiler::CompileIn,
    engine::{RunError, Runtime, RuntimeError, RuntimeOptions},
    files::{self, Files, FilesLimits, FolderCleanup},
    program::Program,
    run::{Limits, RequestedLimits, Run, RunEnd, START},
};

/// The variable that names the others meant for the guest, joined by [`LIST_SEPARATOR`].
pub const LIST_VARS: &str = "BLS_LIST_VARS";

/// What stands between the names in [`LIST_VARS`].
pub const LIST_SEPARATOR: char = ';';

/// The unit of `--limited-memory`: a page of WebAssembly.
pub const PAGE_BYTES: usize = 64 * 1024;

/// The flag that names a file of variables for the guest, as [`variables_text`] writes it. Ours: a
/// node passes them so, since the environment of a process is also read by what runs in it, and its
/// arguments by every user of the machine.
pub const VARIABLES_FLAG: &str = "--variables";

/// The flag that bounds the guest's folder, in MiB. Ours.
pub const FILES_LIMIT_FLAG: &str = "--limited-files";

/// The flag that names the folder of the function's own files. Ours, as the two around it.
pub const FUNCTION_FILES_FLAG: &str = "--function-files";

/// The flag that names the folder of compiled code. Ours: no variable of the environment does, since
/// a process that can write to that folder can have its code run here.
pub const COMPILED_FOLDER_FLAG: &str = "--compiled-folder";

/// A mebibyte is 2 to the power of this many bytes.
pub const MIB_BITS: u32 = 20;

/// What ends each variable in a file of them: the one byte that no variable holds.
const VARIABLE_END: char = '\0';

/// The exit code of the upstream runtime if the command line or the module is at fault.
const EXIT_OTHER: i32 = 255;

/// The exit code of the upstream runtime if a file or folder that a flag names is not there.
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
  --variables FILE         a file of more of them, each NAME=VALUE and a zero byte
  --function-files FOLDER  show it this folder as /function, read-only, beside the one of
                           --fs-root-path
  --limited-files MIB      let that folder hold at most so much, and 1000 files
  --compiled-folder FOLDER keep compiled modules here, for this user's next runs
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
    pub asked: RequestedLimits,
    /// The folder it sees as `/`.
    pub fs_root: Option<PathBuf>,
    /// The folder it sees as `/function`.
    pub function_files: Option<PathBuf>,
    /// Its environment, beside what [`LIST_VARS`] lists.
    pub environment: BTreeMap<String, String>,
    /// A file of more of it.
    pub variables: Option<PathBuf>,
    /// What its folder may hold. None: as much as the disk.
    pub files_limits: Option<FilesLimits>,
    /// Where compiled code is kept. None: nowhere.
    pub compiled_folder: Option<PathBuf>,
    /// The arguments after the name of the module.
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
    /// A flag that does not exist.
    #[error("know the option {flag}")]
    Unknown {
        /// The flag, as it was given.
        flag: String,
    },
    /// A flag without its value.
    #[error("find the value of {flag}")]
    NoValue {
        /// The flag, as it was given.
        flag: String,
    },
    /// A value that is not a number, or too large.
    #[error("read the number {value:?} of {flag}")]
    Number {
        /// The flag, as it was given.
        flag: String,
        /// The text that is no number.
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
    #[error("read the variables in {}", path.display())]
    Variables {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
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
            asked: RequestedLimits::default(),
            fs_root: None,
            function_files: None,
            environment: BTreeMap::new(),
            variables: None,
            files_limits: None,
            compiled_folder: None,
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
                let (name, text) = variable(&value()?)?;
                self.environment.insert(name, text);
            }
            FUNCTION_FILES_FLAG => self.function_files = Some(PathBuf::from(value()?)),
            VARIABLES_FLAG => self.variables = Some(PathBuf::from(value()?)),
            FILES_LIMIT_FLAG => {
                let bytes_max = number(flag, value()?)?.saturating_mul(1 << MIB_BITS);
                let limits = FilesLimits { bytes_max, ..files::LIMITS_DEFAULT };
                self.files_limits = Some(limits);
            }
            COMPILED_FOLDER_FLAG => self.compiled_folder = Some(PathBuf::from(value()?)),
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

/// The content of a file of variables, for [`VARIABLES_FLAG`]. Names hold no `=`, and neither names
/// nor values a zero byte.
#[must_use]
pub fn variables_text(variables: &BTreeMap<String, String>) -> String {
    let mut text = String::new();
    for (name, value) in variables {
        text.extend([name, "=", value]);
        text.push(VARIABLE_END);
    }
    text
}

/// Does what the command line `arguments`, without the program's name, says, with this process's
/// standard streams and those variables of its environment that [`LIST_VARS`] lists. Returns the
/// code the process should exit with. Blocks; not for a thread that drives futures.
///
/// The module is compiled as `compile_in` says. Compiled code is kept where the command line says,
/// and nowhere else.
pub fn run(arguments: impl IntoIterator<Item = String>, compile_in: CompileIn) -> i32 {
    let failure = match execute(arguments, compile_in) {
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
    compile_in: CompileIn,
) -> Result<i32, Failure> {
    let command = Command::parse(arguments)?;
    let module = fs::read(&command.module)
        .map_err(|source| Failure::Module { module: command.module.clone(), source })?;
    let mut environment = listed(|name| env::var(name).ok());
    if let Some(path) = &command.variables {
        environment.extend(read_variables(path)?);
    }
    environment.extend(command.environment);
    let compiled_folder = command.compiled_folder;
    let usual = RuntimeOptions::for_runs(NonZeroU32::MIN, compile_in);
    let options = RuntimeOptions { compiled_folder, ..usual };
    let runtime = Runtime::new(options)?;
    let name = command.module.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let limits = command.files_limits;
    let function = command.function_files;
    let files = command.fs_root.map(|folder| Files {
        folder,
        afterwards: FolderCleanup::Keep,
        limits,
        function,
    });
    let run = Run {
        name,
        entry: command.entry,
        arguments: command.arguments,
        environment,
        stdin: Vec::new(),
        files,
        limits: LIMITS.lowered(command.asked),
        client: std::sync::Arc::default(),
    };
    let finished = runtime.execute_attached(&Program::new(module), run)?;
    if finished.ended != RunEnd::Exited {
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

/// Reads a file of variables.
fn read_variables(path: &Path) -> Result<BTreeMap<String, String>, Failure> {
    let text = fs::read_to_string(path)
        .map_err(|source| Failure::Variables { path: path.to_owned(), source })?;
    let variables = text.split_terminator(VARIABLE_END).map(variable);
    Ok(variables.collect::<Result<_, CommandError>>()?)
}

fn variable(text: &str) -> Result<(String, String), CommandError> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| CommandError::Variable { value: text.to_owned() })?;
    Ok((name.to_owned(), value.to_owned()))
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
