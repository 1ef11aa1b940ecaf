//! The command line of the upstream runtime, `bls-runtime`, for this runtime.
//!
//! A node calls an external runtime as `<program> <module> [--flag value]… -- <argument>…` and reads
//! only its output and its exit code. The flags for drivers and permissions configure host modules that
//! are not offered here, so they are accepted and ignored. There is no log or debugger.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;
use std::{env, fs};

use clap::Parser;
use task::causes::chain;

use crate::compiler::CompileIn;
use crate::engine::Runtime;
use crate::error::{RunError, RuntimeError};
use crate::files::{Files, FolderCleanup};
use crate::options::RuntimeOptions;
use crate::program::Program;
use crate::run::{Limits, RequestedLimits, Run, RunEnd, START};

/// Environment variable that lists the names of the guest's variables, joined by [`LIST_SEPARATOR`].
pub const LIST_VARS: &str = "BLS_LIST_VARS";

/// Separator of the names in [`LIST_VARS`].
pub const LIST_SEPARATOR: char = ';';

/// Exit code of the upstream runtime for an invalid command line or module.
const EXIT_OTHER: i32 = 255;

/// Exit code of the upstream runtime for a missing file or directory that a flag names.
const EXIT_CONFIG: i32 = 128;

/// Default limits: none, as in the upstream runtime. The calling node has its own limits.
const LIMITS: Limits =
    Limits { wall: Duration::MAX, memory_bytes: 1 << 32, output_bytes: usize::MAX, fuel: None };

/// Time limit of a compilation. A caller that waits less kills this process.
const COMPILE_WITHIN: Duration = Duration::from_hours(1);

/// Runs a WebAssembly module, a WASI command, like bls-runtime.
#[derive(Debug, Clone, PartialEq, Eq, Parser)]
#[command(name = "runtime", no_binary_name = true, args_override_self = true)]
struct Command {
    /// File of the module
    module: PathBuf,
    /// Exported function to start
    #[arg(long, value_name = "NAME", default_value = START)]
    entry: String,
    /// Time limit in milliseconds
    #[arg(long, value_name = "MS", default_value_t = 0, hide_default_value = true)]
    run_time: u64,
    /// Fuel limit, in units of work
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    limited_fuel: u64,
    /// Memory limit, in pages of 64 KiB
    #[arg(long, value_name = "PAGES", default_value_t = 0, hide_default_value = true)]
    limited_memory: u64,
    /// Directory that the guest sees as /
    #[arg(long, value_name = "FOLDER")]
    fs_root_path: Option<PathBuf>,
    /// Environment variable of the guest, in addition to those listed in `BLS_LIST_VARS`
    #[arg(long, value_name = "NAME=VALUE", value_parser = variable)]
    env: Vec<(String, String)>,
    /// Directory for compiled modules, used by later runs of this user
    // An extension. It has no environment variable, since anyone who can write to that directory can
    // make this process run any code.
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
    /// Arguments of the module
    arguments: Vec<String>,
}

/// A text is not a variable.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("invalid variable {text:?}, expected NAME=VALUE")]
struct VariableError {
    text: String,
}

/// Reason why the program was not run.
#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("cannot read the module {}", module.display())]
    Module { module: PathBuf, source: io::Error },
    #[error("cannot set up the runtime")]
    Runtime(#[from] RuntimeError),
    #[error("cannot run the module")]
    Run(#[from] RunError),
}

impl Command {
    /// Returns the requested limits. Zero requests no limit.
    fn requested_limits(&self) -> RequestedLimits {
        RequestedLimits::from_numbers(self.run_time, self.limited_memory, self.limited_fuel)
    }
}

/// Runs the command line `arguments`, which do not include the program's name. The guest has this
/// process's standard streams and the environment variables listed in [`LIST_VARS`]. Returns the exit
/// code of the process. Blocks. Must not be called in a thread that drives futures.
///
/// The module is compiled in `compile_in`. Compiled code is stored only if the command line names a
/// directory.
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
    tell(&format!("runtime: {}\n", chain(&failure)));
    match failure {
        Failure::Run(RunError::Files { .. }) => EXIT_CONFIG,
        _ => EXIT_OTHER,
    }
}

fn execute(command: Command, compile_in: CompileIn) -> Result<i32, Failure> {
    let asked = command.requested_limits();
    let module = fs::read(&command.module)
        .map_err(|source| Failure::Module { module: command.module.clone(), source })?;
    let mut environment = listed(|name| env::var(name).ok());
    environment.extend(command.env);
    let compiled_folder = command.compiled_folder;
    let usual = RuntimeOptions::for_runs(NonZeroU32::MIN, compile_in);
    let options = RuntimeOptions { compiled_folder, compile_within: COMPILE_WITHIN, ..usual };
    let runtime = Runtime::new(options)?;
    let name = command.module.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let files = command.fs_root_path.map(|folder| Files {
        folder,
        afterwards: FolderCleanup::Keep,
        limits: None,
        function: None,
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

/// Returns the variables listed in [`LIST_VARS`]. `variable` looks up the value of a variable.
fn listed(variable: impl Fn(&str) -> Option<String>) -> BTreeMap<String, String> {
    let names = variable(LIST_VARS).unwrap_or_default();
    let names = names.split(LIST_SEPARATOR).filter(|name| !name.is_empty());
    names.filter_map(|name| Some((name.to_owned(), variable(name)?))).collect()
}

fn variable(text: &str) -> Result<(String, String), VariableError> {
    let (name, value) =
        text.split_once('=').ok_or_else(|| VariableError { text: text.to_owned() })?;
    Ok((name.to_owned(), value.to_owned()))
}

/// Writes to standard error, if it is open.
fn tell(text: &str) {
    if let Err(error) = io::stderr().write_all(text.as_bytes()) {
        tracing::debug!(%error, "standard error is closed");
    }
}

#[cfg(test)]
mod tests;
