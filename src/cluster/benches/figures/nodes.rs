//! Heads and workers, each in a process: parts of this program, or another one's `node`.

use std::{
    env,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use cluster::identity::Identity;
use serde_json::Value;
use tokio::{
    process::Command,
    time::{Instant, sleep},
};

use crate::{
    Outcome,
    process::{BOOT, FOLDER, PART, Process, RUNTIME, SLOTS},
};

/// The name of a node's key in its folder.
pub(crate) const KEY: &str = "priv.bin";

/// How long a node of another program may take to start: fifty do at one time on two cores.
const STARTS_WITHIN: Duration = Duration::from_mins(1);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What the log says when it has.
const STARTED: &str = "starting node main loop";

/// Whose nodes are measured.
#[derive(Debug, Clone)]
pub(crate) enum Nodes {
    /// Those of this program, which are the room and nothing around it.
    Own,
    /// Those of the program at this path, with its command line and its log.
    Of(PathBuf),
}

impl Nodes {
    /// Starts a head in `folder`. Returns it, where its API is, and the address of its network.
    pub(crate) async fn head(&self, folder: &Path) -> Outcome<(Process, SocketAddr, String)> {
        match self {
            Self::Own => {
                let mut head = Process::spawn(part("head", folder)?)?;
                let line = head.line().await?;
                let (rest, boot) = line.split_once(' ').ok_or("a head that is nowhere")?;
                Ok((head, rest.parse()?, boot.to_owned()))
            }
            Self::Of(program) => {
                let mut command = node(program, folder)?;
                command.args(["--role", "head", "--rest-api", "127.0.0.1:0"]);
                let (head, log) = started(command, folder).await?;
                let rest = log.iter().find(|line| line["message"] == "Node API starting");
                let rest = rest.and_then(|line| line["address"].as_str()).ok_or("no API")?;
                let host = log.iter().find(|line| line["message"] == "created host");
                let boot = host.and_then(|line| line["addresses"][0].as_str()).ok_or("no host")?;
                Ok((head, rest.parse()?, boot.to_owned()))
            }
        }
    }

    /// Starts a worker in `folder` with many slots, whose runtime is `program`.
    pub(crate) async fn slow_worker(
        &self,
        folder: &Path,
        boot: &str,
        program: &Path,
    ) -> Outcome<Process> {
        match self {
            Self::Own => {
                let mut command = part("worker", folder)?;
                command.env(BOOT, boot).env(RUNTIME, program).env(SLOTS, SLOW_SLOTS);
                let mut worker = Process::spawn(command)?;
                worker.line().await?;
                Ok(worker)
            }
            Self::Of(node_program) => {
                let mut command = node(node_program, folder)?;
                let within = program.parent().ok_or("a program in no folder")?;
                let name = program.file_name().ok_or("a program without a name")?;
                command.args(["--role", "worker", "--boot-nodes", boot]);
                command.args(["--concurrency", SLOW_SLOTS]);
                command.arg("--runtime-path").arg(within).arg("--runtime-cli").arg(name);
                Ok(started(command, folder).await?.0)
            }
        }
    }

    /// Starts a worker in `folder` that has the heads at `boot`, `runtime` for an external runtime if
    /// there is one, and `n_slots` slots if that is said.
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
                    let within = runtime.parent().ok_or("a program in no folder")?;
                    let name = runtime.file_name().ok_or("a program without a name")?;
                    command.arg("--runtime-path").arg(within).arg("--runtime-cli").arg(name);
                }
                Ok(started(command, folder).await?.0)
            }
        }
    }
}

/// How many slots the slow worker has: more than the others together.
pub(crate) const SLOW_SLOTS: &str = "64";

/// The command of a part of this program.
pub(crate) fn part(part: &str, folder: &Path) -> Outcome<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.env(PART, part).env(FOLDER, folder);
    Ok(command)
}

/// The command of a node of `program`.
fn node(program: &Path, folder: &Path) -> Outcome<Command> {
    fs::create_dir_all(folder)?;
    let key = folder.join(KEY);
    Identity::load_or_create(&key)?;
    let mut command = Command::new(program);
    command.args(["node", "--address", "127.0.0.1", "--private-key"]).arg(key);
    // Nothing of what the user of this machine has.
    command.arg("--db").arg(folder.join("db")).env("HOME", folder).env_remove("XDG_CACHE_HOME");
    Ok(command)
}

/// Starts a node whose log is a file, since nobody reads it, and waits until it runs.
async fn started(mut command: Command, folder: &Path) -> Outcome<(Process, Vec<Value>)> {
    let log = folder.join("log");
    command.stdout(File::create(&log)?);
    let process = Process::quiet(command)?;
    let end = Instant::now() + STARTS_WITHIN;
    loop {
        let text = fs::read_to_string(&log)?;
        let lines: Vec<Value> =
            text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
        if lines.iter().any(|line| line["message"] == STARTED) {
            return Ok((process, lines));
        }
        if end < Instant::now() {
            return Err(format!("a node did not start: {text}").into());
        }
        sleep(LOOK_EVERY).await;
    }
}
