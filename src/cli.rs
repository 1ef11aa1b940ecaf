//! The command line: one file per subcommand. Only this module creates the services and clients of the
//! other crates and connects them.
//!
//! Errors of subcommands are printed here as `error: ` with their causes. If the last line of an
//! error's text is `hint: …`, it is advice for the user and is printed on its own line.

mod completion;
mod config;
mod copy_tables;
mod datasets;
mod doctor;
mod function;
mod gate;
mod help;
mod inference;
mod keys;
mod log;
mod node;
mod nodes;
mod output;
mod own_files;
mod parse;
mod redact;
mod runtime;
mod secret;
mod services;
mod shell;
mod stop;
mod tui;
mod up;
mod watch;

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use ::tui::RunError;
use anyhow::anyhow;
use clap::builder::Resettable;
use clap::{Args as _, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use model::node::Role;
use tokio::runtime::{Builder, Runtime};

/// A function cluster, a dataset service, an inference service, and one screen for all three.
///
/// Without a subcommand the screen opens. If no services are configured, it starts its own on this
/// machine with live data: a head and three workers, the dataset service and the inference service.
/// They stop when the screen exits.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    screen: tui::TuiCommand,
}

/// Name of the subcommand whose options can also be set in a file and in the environment.
const NODE: &str = "node";

/// Exit code for invalid arguments and unsuitable terminals.
const MISUSED: u8 = 2;

#[derive(Debug, Subcommand)]
#[expect(
    clippy::large_enum_variant,
    reason = "there is only one value, which is matched immediately"
)]
enum Command {
    /// Open the screen (the default without a subcommand)
    Tui(tui::TuiCommand),
    /// Run the local stack without a screen
    Up(up::UpCommand),
    /// Print the addresses and the API key of the running local stack as shell variables
    Env,
    /// Run a head or a worker of a function cluster
    Node(node::NodeCommand),
    /// List, cordon, drain and approve the nodes of a cluster
    Nodes(nodes::NodesCommand),
    /// Add, list, show, run and remove functions, in a cluster or on this machine
    Function(function::FunctionCommand),
    /// Run one module with the command line of bls-runtime, for nodes that use an external runtime
    Runtime(runtime::RuntimeCommand),
    /// Serve and manage datasets, import and export rows
    #[command(subcommand)]
    Datasets(datasets::DatasetsCommand),
    /// Serve a prediction network, and take part in one
    #[command(subcommand)]
    Inference(inference::InferenceCommand),
    /// Manage API keys and accounts of the services on this machine, and keys of nodes
    #[command(subcommand)]
    Keys(keys::KeysCommand),
    /// Watch rules on datasets, topics, executions and services, and report each change
    Watch(watch::WatchCommand),
    /// Check the configuration, its addresses, the data directory and ports, and suggest solutions
    #[command(after_help = doctor::EXAMPLES)]
    Doctor(doctor::DoctorCommand),
    /// Print a completion script for a shell
    Completions {
        /// Shell that will read the script
        shell: clap_complete::Shell,
    },
    /// Print the manual pages of all commands for man, or a guide as text
    Man {
        /// Print only this guide
        #[arg(conflicts_with = "output")]
        guide: Option<shell::Guide>,
        /// Write each page to its own file in man1 or man7 of this directory
        #[arg(long, short, value_name = "DIR")]
        output: Option<PathBuf>,
    },
}

/// Runs the program with the process's own arguments.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(command) = runtime::as_bls_runtime(&arguments) {
        return runtime::run(command);
    }
    if runtime::is_compiler(&arguments) {
        return ::runtime::compiler::child::run();
    }
    completion::complete_if_requested();
    let cli = match parse_screen_alone(&arguments).map_or_else(|| parse(arguments), Ok) {
        Ok(cli) => cli,
        Err(error) => match error.downcast::<clap::Error>() {
            // The parser also returns the texts of help and version as errors, which `exit` prints with
            // code 0.
            Ok(error) => error.exit(),
            Err(error) => {
                output::report_error(&error);
                return ExitCode::from(MISUSED);
            }
        },
    };
    task::process::install_crypto();
    match dispatch(cli) {
        Ok(code) => code,
        Err(error) if output::is_reader_gone(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::report_error(&error);
            match error.downcast_ref::<RunError>() {
                Some(RunError::NotATerminal | RunError::NoCursor) => ExitCode::from(MISUSED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

/// Parses a command line that opens the screen without a subcommand. Returns `None` for all other
/// command lines.
///
/// This avoids setting up all subcommands with their options, which takes longer than drawing the first
/// frame.
fn parse_screen_alone(arguments: &[OsString]) -> Option<Cli> {
    let command = clap::Command::new("triptych").disable_help_flag(true);
    let command = without_empty(tui::TuiCommand::augment_args(command));
    let given = command.try_get_matches_from(arguments).ok()?;
    Some(Cli { command: None, screen: tui::TuiCommand::from_arg_matches(&given).ok()? })
}

/// Parses the command line and, for a node, its configuration file and the environment.
fn parse(arguments: Vec<OsString>) -> anyhow::Result<Cli> {
    let command = help::with_endings(Cli::command());
    let command = command.mut_subcommand(NODE, node::layers::with_switches);
    let mut command = without_empty(command);
    let given = command.try_get_matches_from_mut(&arguments);
    let given = given.map_err(|error| redact::redact(error, &command))?;
    for exposed in redact::exposed_passwords(&command, &given) {
        output::tell(&format!("warning: {exposed}"));
    }
    let node = command.find_subcommand(NODE).zip(given.subcommand_matches(NODE));
    let Some(node) = node else { return Ok(Cli::from_arg_matches(&given)?) };
    let n_given = arguments.len();
    // Values of options must be valid UTF-8.
    let environment = std::env::vars_os()
        .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let arguments = node::layers::with_layers(arguments, node.0, node.1, environment)?;
    if arguments.len() == n_given {
        return Ok(Cli::from_arg_matches(&given)?);
    }
    let given = command.try_get_matches_from_mut(arguments).map_err(|error| {
        let text = redact::redact(error, &command).to_string();
        let reason = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
        anyhow!("invalid option in the node's configuration file or environment: {reason}")
    })?;
    Ok(Cli::from_arg_matches(&given)?)
}

/// Treats empty environment variables as unset, since scripts and container files use empty values for
/// that. Hides values with an `@`, which can contain credentials, from the help.
fn without_empty(command: clap::Command) -> clap::Command {
    command
        .mut_args(|argument| match argument.get_env().and_then(std::env::var_os) {
            Some(value) if value.is_empty() => argument.env(Resettable::Reset),
            Some(value) if value.to_string_lossy().contains('@') => argument.hide_env_values(true),
            _ => argument,
        })
        .mut_subcommands(without_empty)
}

fn dispatch(cli: Cli) -> anyhow::Result<ExitCode> {
    web::open_files::raise_limit();
    let done = match cli.command {
        None => block_on_one_worker(tui::run(cli.screen)),
        Some(Command::Tui(command)) => block_on_one_worker(tui::run(command)),
        Some(Command::Up(command)) => block_on(up::run(command)),
        Some(Command::Env) => up::print_env(),
        Some(Command::Node(command)) if command.role == Role::Worker => {
            block_on_one_thread(node::run(command))
        }
        Some(Command::Node(command)) => block_on(node::run(command)),
        Some(Command::Nodes(command)) => return block_on(nodes::run(command)),
        Some(Command::Function(command)) => return block_on(function::run(command)),
        Some(Command::Runtime(command)) => return Ok(runtime::run(command)),
        Some(Command::Datasets(command)) => block_on(datasets::run(command)),
        Some(Command::Inference(command)) => block_on(inference::run(command)),
        Some(Command::Keys(command)) => block_on(keys::run(command)),
        Some(Command::Watch(command)) => block_on(watch::run(command)),
        Some(Command::Doctor(command)) => block_on(doctor::run(command)),
        Some(Command::Completions { shell }) => shell::completions(shell),
        Some(Command::Man { guide: Some(guide), .. }) => output::print(guide.text().trim_end()),
        Some(Command::Man { guide: None, output }) => {
            shell::manual(help::with_endings(Cli::command()), output.as_deref())
        }
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    finish(Builder::new_multi_thread().enable_all().build()?, work)
}

/// Runs `work` on one thread. A worker of a cluster needs no more, since it mostly waits or runs
/// functions on threads of their own. Fewer threads mean fewer wake-ups per request.
fn block_on_one_thread<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    finish(Builder::new_current_thread().enable_all().build()?, work)
}

/// Runs `work`, the screen, on this thread, and the tasks that read responses on one other thread.
/// Reading a long response then does not delay the handling of keys, and a short response wakes only one
/// thread.
fn block_on_one_worker<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    finish(Builder::new_multi_thread().worker_threads(1).enable_all().build()?, work)
}

fn finish<T>(runtime: Runtime, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let result = runtime.block_on(work);
    // A blocked thread, such as a reader of a terminal, must not delay the exit.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_definition_passes_the_check_of_clap() {
        Cli::command().mut_subcommand(NODE, node::layers::with_switches).debug_assert();
    }

    /// A value in the environment applies to every command, so it must not rule out options.
    #[track_caller]
    fn check_conflicts(command: &clap::Command) {
        for one in command.get_arguments() {
            let others = command.get_arg_conflicts_with(one);
            let is_set = others.iter().any(|other| other.get_env().is_some());
            assert!(!is_set && (others.is_empty() || one.get_env().is_none()), "{one}");
        }
        command.get_subcommands().for_each(check_conflicts);
    }

    #[test]
    fn values_in_the_environment_do_not_rule_out_options() {
        check_conflicts(&Cli::command());
    }

    #[track_caller]
    fn check(arguments: &[&str], is_screen: bool) {
        let arguments: Vec<OsString> =
            ["triptych"].iter().chain(arguments).map(OsString::from).collect();
        assert_eq!(parse_screen_alone(&arguments).is_some(), is_screen);
    }

    #[test]
    fn screen_options_are_parsed_without_subcommands() {
        check(&[], true);
        check(&["--head", "http://10.0.0.5:8080", "--theme", "light", "--forget"], true);
        for other in ["tui", "up", "node", "--help", "-h", "--version", "-V", "help", "--bogus"] {
            check(&[other], false);
        }
        check(&["--symbols", "purple"], false);
        check(&["--forget", "up"], false);
    }
}
