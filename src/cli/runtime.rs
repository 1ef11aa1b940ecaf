//! `triptych runtime`: executes a module with the command line of bls-runtime. It is for nodes that
//! start another program to execute functions: nodes of b7s, and nodes of this program whose
//! `--runtime-path` is a script that starts it. A node that is its own `--runtime-path` does not start it.

use std::ffi::OsString;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::process::ExitCode;

use ::runtime::compiler::{CompileIn, child};
use ::runtime::engine::Runtime;
use ::runtime::options::RuntimeOptions;
use anyhow::Context as _;
use clap::Args;

use crate::cli::config::compiled_folder;

/// Name under which nodes look for a runtime. If this program is called by this name, such as through a
/// link, it acts as the runtime.
const RUNTIME_NAME: &str = "bls-runtime";

/// Exit code of bls-runtime for an invalid command line.
const EXIT_OTHER: u8 = 255;

/// Bits of an exit code that the system passes to the parent process.
const EXIT_BITS: i32 = 0xff;

/// Command line of `runtime`. It is passed on unparsed, including `--help`, to be parsed like the
/// command line of bls-runtime.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RuntimeCommand {
    /// Command line of bls-runtime: MODULE [OPTIONS] [-- ARGUMENTS...]; `--help` lists the options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Returns the command `runtime` if the program was started under the name of bls-runtime, and
/// otherwise `None`. The first of `arguments` is the name of the program.
pub(crate) fn as_bls_runtime(arguments: &[OsString]) -> Option<RuntimeCommand> {
    let (name, arguments) = arguments.split_first()?;
    let is_runtime = PathBuf::from(name).file_stem().is_some_and(|name| name == RUNTIME_NAME);
    is_runtime.then(|| RuntimeCommand { arguments: arguments.to_vec() })
}

/// Returns true if another process of this program has started this process to compile a module. The
/// first of `arguments` is the name of the program.
pub(crate) fn is_compiler(arguments: &[OsString]) -> bool {
    matches!(arguments, [_, command] if command == child::COMMAND)
}

/// Creates a runtime that executes at most `runs_max` modules at a time in this process, and compiles
/// modules in child processes.
///
/// # Errors
/// If the runtime cannot be set up.
pub(crate) fn engine(runs_max: NonZeroU32) -> anyhow::Result<Runtime> {
    let compile_in = CompileIn::own_child().context("cannot find this program's file")?;
    let compiled_folder = compiled_folder();
    let options = RuntimeOptions::for_runs(runs_max, compile_in);
    let runtime = Runtime::new(RuntimeOptions { compiled_folder, ..options });
    runtime.context("cannot set up the runtime")
}

/// Executes a module on this thread, with the standard streams of this process. Returns the exit code
/// of the module. If the module cannot be executed, returns the exit code that bls-runtime has for the
/// error.
pub(crate) fn run(command: RuntimeCommand) -> ExitCode {
    let Ok(compile_in) = CompileIn::own_child() else { return ExitCode::from(EXIT_OTHER) };
    let code = ::runtime::bls::run(command.arguments, compile_in);
    ExitCode::from(u8::try_from(code & EXIT_BITS).unwrap_or(EXIT_OTHER))
}
