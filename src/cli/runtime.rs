//! `triptych runtime`: runs one module as bls-runtime does, for nodes that call a runtime of that
//! kind: theirs, and ours with `--runtime-path` and `--runtime-cli`.

use std::{ffi::OsString, num::NonZeroU32, path::PathBuf, process::ExitCode};

use ::runtime::{
    compiler::{CompileIn, child},
    engine::Runtime,
    options::RuntimeOptions,
};
use anyhow::Context as _;
use clap::Args;

use crate::cli::config::compiled_folder;

/// The name under which nodes look for a runtime. Called so, by a link say, the program is one.
const RUNTIME_NAME: &str = "bls-runtime";

/// What bls-runtime ends with where its command line is at fault.
const EXIT_OTHER: u8 = 255;

/// The bits of an exit code that a system keeps.
const EXIT_BITS: i32 = 0xff;

/// The command line of `runtime`, which is that of bls-runtime, help and all.
#[derive(Debug, Args)]
#[command(disable_help_flag = true)]
pub(crate) struct RuntimeCommand {
    /// What bls-runtime takes: MODULE [OPTIONS] [-- ARGUMENTS...]; `--help` lists the options
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// Returns the command of a program that was called with `arguments`, its own name in front, if it
/// was called as a runtime.
pub(crate) fn called(arguments: &[OsString]) -> Option<RuntimeCommand> {
    let (name, arguments) = arguments.split_first()?;
    let is_runtime = PathBuf::from(name).file_stem().is_some_and(|name| name == RUNTIME_NAME);
    is_runtime.then(|| RuntimeCommand { arguments: arguments.to_vec() })
}

/// Whether the program was called with `arguments`, its own name in front, to compile a program for
/// another process of it.
pub(crate) fn is_compiler(arguments: &[OsString]) -> bool {
    matches!(arguments, [_, command] if command == child::COMMAND)
}

/// The engine that runs at most `runs_max` modules at once in this process, and compiles them in
/// processes of its own.
///
/// # Errors
/// If it cannot be set up.
pub(crate) fn engine(runs_max: NonZeroU32) -> anyhow::Result<Runtime> {
    let compile_in = CompileIn::own_child().context("find this program's own file")?;
    let compiled_folder = compiled_folder();
    let options = RuntimeOptions::for_runs(runs_max, compile_in);
    Runtime::new(RuntimeOptions { compiled_folder, ..options }).context("set up the runtime")
}

/// Runs a module on this thread, with the standard streams of this process, and returns the code to
/// exit with: the module's own, or the one bls-runtime has for what went wrong.
pub(crate) fn run(command: RuntimeCommand) -> ExitCode {
    let Ok(compile_in) = CompileIn::own_child() else { return ExitCode::from(EXIT_OTHER) };
    let code = ::runtime::bls::run(command.arguments, compile_in);
    ExitCode::from(u8::try_from(code & EXIT_BITS).unwrap_or(EXIT_OTHER))
}
