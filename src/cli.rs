//! The command line: one file a subcommand, and the only place that builds and joins the rooms.
//!
//! `anyhow` is used here and nowhere else: an error that reaches this place is told to a person.

mod config;
mod datasets;
mod demo;
mod inference;
mod keys;
mod local;
mod log;
mod node;
mod place;
mod stack;
mod stop;
mod tui;
mod up;

use std::{ffi::OsString, io::Write as _, process::ExitCode};

use ::tui::RunError;
use clap::{Parser, Subcommand};

/// A function cluster, a dataset service, an inference network, and one screen to live in.
///
/// Without a subcommand the screen opens. Where no services are configured it starts its own on
/// this machine: a head and three workers, the dataset service, the inference service, all with
/// live data. They end with the screen.
#[derive(Debug, Parser)]
#[command(version, max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    screen: tui::TuiCommand,
}

/// The exit code of a program that was called in a way it cannot serve, as for unfit flags.
const MISUSED: u8 = 2;

/// Shown below the help.
const EXAMPLES: &str = "\
Examples:
  triptych                                     open the screen; start a local stack if none is configured
  triptych up                                  the same stack without a screen
  triptych --head http://10.0.0.5:8080         watch and use a cluster that runs elsewhere
  triptych node --role head --rest-api :8080   a head; its log tells its multiaddress
  triptych node --boot-nodes MULTIADDRESS      a worker of that head
  triptych keys create me                      an API key for the dataset and inference services

Keys in the screen: 1 to 5 choose a screen, ? shows every key, q quits.";

#[derive(Debug, Subcommand)]
enum Command {
    /// Open the screen (what happens without a subcommand, too)
    Tui(tui::TuiCommand),
    /// Run the local stack without a screen
    Up(up::UpCommand),
    /// Run a head or a worker of a function cluster
    Node(node::NodeCommand),
    /// Serve and manage datasets
    #[command(subcommand)]
    Datasets(datasets::DatasetsCommand),
    /// Serve a prediction network
    #[command(subcommand)]
    Inference(inference::InferenceCommand),
    /// Manage API keys of the services on this machine
    #[command(subcommand)]
    Keys(keys::KeysCommand),
}

/// Runs the program with the process's own arguments.
#[must_use]
pub fn main() -> ExitCode {
    run(std::env::args_os())
}

fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        // Help and version come this way, too.
        Err(error) => error.exit(),
    };
    // The one place that chooses how TLS is done; an error would say that it was chosen before.
    drop(rustls::crypto::ring::default_provider().install_default());
    match dispatch(cli) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // Where standard error is closed there is nobody to tell.
            drop(writeln!(std::io::stderr(), "triptych: cannot {error:#}"));
            match error.downcast_ref::<RunError>() {
                Some(RunError::NotATerminal) => ExitCode::from(MISUSED),
                _ => ExitCode::FAILURE,
            }
        }
    }
}

fn dispatch(cli: Cli) -> anyhow::Result<()> {
    match cli.command {
        None => block_on(tui::run(cli.screen)),
        Some(Command::Tui(command)) => block_on(tui::run(command)),
        Some(Command::Up(command)) => block_on(up::run(command)),
        Some(Command::Node(command)) => block_on(node::run(command)),
        Some(Command::Datasets(command)) => block_on(datasets::run(command)),
        Some(Command::Inference(command)) => block_on(inference::run(command)),
        Some(Command::Keys(command)) => block_on(keys::run(command)),
    }
}

fn block_on(work: impl Future<Output = anyhow::Result<()>>) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let result = runtime.block_on(work);
    // What still blocks a thread (a read of a terminal, say) must not hold up the end.
    runtime.shutdown_background();
    result
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
