//! The command line of the upstream's runtime, `bls-runtime`, on top of this one.
//!
//! A node calls a runtime that is a program of its own as
//! `<program> <module> [--flag value]… -- <argument>…`, and takes its output, its exit code and
//! nothing else. What has no meaning here is read and ignored: drivers and permissions are for
//! modules of the host that are not offered, and there is no log and no debugger to write for.

use std::{
    collections::BTreeMap,
    env,
    ffi::OsString,
    fs,
    io::{self, Write as _},
    num::NonZeroU32,
    path::{Path, PathBuf},
    time::Duration,
};

use clap::Parser;
use task::causes::chain;

use crate::{
    compiler::CompileIn,
    engine::Runtime,
    error::{RunError, RuntimeError},
    files::{self, Files, FilesLimits, FolderCleanup},
    options::RuntimeOptions,
    program::Program,
    run::{Limits, RequestedLimits, Run, RunEnd, START},
};

/// The variable that names the others meant for the guest, joined by [`LIST_SEPARATOR`].
pub const LIST_VARS: &str = "BLS_LIST_VARS";

/// What stands between the names in [`LIST_VARS`].
pub const LIST_SEPARATOR: char = ';';

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

/// How long a module is compiled: whoever waits for it can end this program.
const COMPILE_WITHIN: Duration = Duration::from_hours(1);

/// Runs a WebAssembly module, a WASI command, as bls-runtime does.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "runtime", no_binary_name = true, args_override_self = true)]
struct Command {
    /// The file of the module
    module: PathBuf,
    /// The exported function to start at
    #[arg(long, value_name = "NAME", default_value = START)]
    entry: String,
    /// End it after so many milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, hide_default_value = true)]
    run_time: u64,
    /// End it after so many units of work
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    limited_fuel: u64,
    /// Give it at most so many pages of 64 KiB
    #[arg(long, value_name = "PAGES", default_value_t = 0, hide_default_value = true)]
    limited_memory: u64,
    /// Show it this folder as /
    #[arg(long, value_name = "FOLDER")]
    fs_root_path: Option<PathBuf>,
    /// A variable of its environment, beside those that `BLS_LIST_VARS` lists
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// A file of more of them, each NAME=VALUE and a zero byte
    #[arg(long, value_name = "FILE")]
    variables: Option<PathBuf>,
    /// Show it this folder as /function, read-only, beside the one of --fs-root-path
    #[arg(long, value_name = "FOLDER")]
    function_files: Option<PathBuf>,
    /// Let the folder of --fs-root-path hold at most so much, and 1000 files
    #[arg(long, value_name = "MIB")]
    limited_files: Option<u64>,
    /// Keep compiled modules here, for this user's next runs
    #[arg(long, value_name = "FOLDER")]
    compiled_folder: Option<PathBuf>,
    /// Read and ignored
    #[arg(long)]
    debug_info: bool,
    /// Read and ignored
    #[arg(long, value_name = "FOLDER")]
    drivers_root_path: Option<PathBuf>,
    /// Read and ignored
    #[arg(long, value_name = "FILE")]
    runtime_logger: Option<PathBuf>,
    /// Read and ignored
    #[arg(long, value_name = "URL")]
    permission: Vec<String>,
    /// What the module gets as arguments
    arguments: Vec<String>,
}

/// A text is no variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("read {text:?} as a variable, NAME=VALUE")]
struct VariableError {
    text: String,
}

/// Why nothing was run.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("read the variables in {}", path.display())]
    Variables { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error("read the module {}", module.display())]
    Module { module: PathBuf, source: io::Error },
    #[error("set up the runtime")]
    Runtime(#[from] RuntimeError),
    #[error("run the module")]
    Run(#[from] RunError),
}

impl Command {
    /// What the guest is to use; 0 asks for no limit.
    fn requested_limits(&self) -> RequestedLimits {
        RequestedLimits::from_numbers(self.run_time, self.limited_memory, self.limited_fuel)
    }

    /// What the guest's folder may hold; `None` for as much as the disk.
    fn files_limits(&self) -> Option<FilesLimits> {
        let bytes_max = |mib: u64| mib.saturating_mul(1 << MIB_BITS);
        let limits = |mib| FilesLimits { bytes_max: bytes_max(mib), ..files::LIMITS_DEFAULT };
        self.limited_files.map(limits)
    }
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
pub fn run(
    arguments: impl IntoIterator<Item = impl Into<OsString> + Clone>,
    compile_in: CompileIn,
) -> i32 {
    let failure = match Command::try_parse_from(arguments) {
        Ok(command) => match execute(command, compile_in) {
            Ok(code) => return code,
            Err(failure) => failure,
        },
        Err(error) => {
            let is_printed = error.print().is_ok();
            return if is_printed && !error.use_stderr() { 0 } else { EXIT_OTHER };
        }
    };
    tell(&format!("runtime: failed to {}\n", chain(&failure)));
    match failure {
        Failure::Run(RunError::Files { .. }) => EXIT_CONFIG,
        _ => EXIT_OTHER,
    }
}

fn execute(command: Command, compile_in: CompileIn) -> Result<i32, Failure> {
    let (limits, asked) = (command.files_limits(), command.requested_limits());
    let module = fs::read(&command.module)
        .map_err(|source| Failure::Module { module: command.module.clone(), source })?;
    let mut environment = listed(|name| env::var(name).ok());
    if let Some(path) = &command.variables {
        environment.extend(read_variables(path)?);
    }
    environment.extend(command.env);
    let compiled_folder = command.compiled_folder;
    let usual = RuntimeOptions::for_runs(NonZeroU32::MIN, compile_in);
    let options = RuntimeOptions { compiled_folder, compile_within: COMPILE_WITHIN, ..usual };
    let runtime = Runtime::new(options)?;
    let name = command.module.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let function = command.function_files;
    let files = command.fs_root_path.map(|folder| Files {
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
        limits: LIMITS.lowered(asked),
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
    Ok(variables.collect::<Result<_, VariableError>>()?)
}

fn variable(text: &str) -> Result<(String, String), VariableError> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| VariableError { text: text.to_owned() })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Writes to standard error. Where that is closed, nobody listens.
fn tell(text: &str) {
    if let Err(error) = io::stderr().write_all(text.as_bytes()) {
        tracing::debug!(%error, "standard error is closed");
    }
}

#[cfg(test)]
mod tests;
