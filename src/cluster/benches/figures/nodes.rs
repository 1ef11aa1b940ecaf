//! Heads and workers, each in a process: parts of this program, or nodes of another program.

use std::env;
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cluster::identity::Identity;
use serde_json::Value;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::process::{BOOT, FOLDER, PART, Process, RUNTIME, SLOTS};

/// Name of a node's key in its directory.
pub(crate) const KEY: &str = "priv.bin";

/// Maximum time until a node of another program has started. Fifty start simultaneously on two
/// cores.
const STARTS_WITHIN: Duration = Duration::from_mins(1);

/// Interval at which the log of a starting node is read.
const CHECK_EVERY: Duration = Duration::from_millis(20);

/// Log message of a node that has started.
const STARTED: &str = "starting node main loop";

/// Program to measure.
#[derive(Debug, Clone)]
pub(crate) enum Nodes {
    /// This program, whose parts use the crate directly.
    Own,
    /// The program at this path, controlled by its command line and observed by its log.
    Of(PathBuf),
}

impl Nodes {
    /// Starts a head in `folder`. Returns it with the addresses of its REST API and its network.
    pub(crate) async fn head(&self, folder: &Path) -> Outcome<(Process, SocketAddr, String)> {
        match self {
            Self::Own => {
                let mut head = Process::spawn(part("head", folder)?)?;
                let line = head.line().await?;
                let (rest, boot) = line.split_once(' ').ok_or("head printed no address")?;
                Ok((head, rest.parse()?, boot.to_owned()))
            }
            Self::Of(program) => {
                let mut command = node(program, folder)?;
                command.args(["--role", "head", "--rest-api", "127.0.0.1:0"]);
                let (head, log) = started(command, folder).await?;
                let rest = log.iter().find(|line| line["message"] == "Node API starting");
                let rest = rest
                    .and_then(|line| line["address"].as_str())
                    .ok_or("log contains no address of the REST API")?;
                let host = log.iter().find(|line| line["message"] == "created host");
                let boot = host
                    .and_then(|line| line["addresses"][0].as_str())
                    .ok_or("log contains no address of the network")?;
                Ok((head, rest.parse()?, boot.to_owned()))
            }
        }
    }

    /// Starts a worker of the heads at `boot` in `folder`, with `runtime` as external runtime and
    /// `n_slots` slots if these are set.
    pub(crate) async fn worker(
        &self,
        folder: &Path,
        boot: &str,
        runtime: Option<&Path>,
        n_slots: Option<usize>,
    ) -> Outcome<Process> {
        match self {
            Self::Own => {
                let mut command = part("worker", folder)?;
                command.env(BOOT, boot);
                command.envs(runtime.map(|program| (RUNTIME, program)));
                command.envs(n_slots.map(|number| (SLOTS, number.to_string())));
                let mut worker = Process::spawn(command)?;
                worker.line().await?;
                Ok(worker)
            }
            Self::Of(program) => {
                let mut command = node(program, folder)?;
                command.args(["--role", "worker", "--boot-nodes", boot]);
                if let Some(number) = n_slots {
                    command.args(["--concurrency", &number.to_string()]);
                }
                if let Some(runtime) = runtime {
                    let within = runtime.parent().ok_or("path of the program has no directory")?;
                    let name = runtime.file_name().ok_or("path of the program has no file name")?;
                    command.arg("--runtime-path").arg(within).arg("--runtime-cli").arg(name);
                }
                Ok(started(command, folder).await?.0)
            }
        }
    }
}

/// Returns the command of a part of this program.
pub(crate) fn part(part: &str, folder: &Path) -> Outcome<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.env(PART, part).env(FOLDER, folder);
    Ok(command)
}

/// Returns the command of a node of `program`.
fn node(program: &Path, folder: &Path) -> Outcome<Command> {
    fs::create_dir_all(folder)?;
    let key = folder.join(KEY);
    Identity::load_or_create(&key)?;
    let mut command = Command::new(program);
    command.args(["node", "--address", "127.0.0.1", "--private-key"]).arg(key);
    // Isolates the node from the files of the user.
    command.arg("--db").arg(folder.join("db")).env("HOME", folder).env_remove("XDG_CACHE_HOME");
    Ok(command)
}

/// Starts a node that logs to a file and waits until it runs.
async fn started(mut command: Command, folder: &Path) -> Outcome<(Process, Vec<Value>)> {
    let log = folder.join("log");
    command.stdout(File::create(&log)?);
    let process = Process::spawn_without_io(command)?;
    let end = Instant::now() + STARTS_WITHIN;
    loop {
        let text = fs::read_to_string(&log)?;
        let lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.iter().any(|line| line["message"] == STARTED) {
            return Ok((process, lines));
        }
        if end < Instant::now() {
            return Err(format!("node did not start: {text}").into());
        }
        sleep(CHECK_EVERY).await;
    }
}
