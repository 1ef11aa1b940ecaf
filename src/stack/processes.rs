//! The local stack for the screen: starts the stack, reports its events, adds nodes, and stops all
//! processes.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use async_trait::async_trait;
use client::transport::Token;
use model::node::Role;
use model::timestamp::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use task::clock::Clock;
use task::group::Group;
use tokio::sync::mpsc;

use crate::data_dir::{DataDir, StackClaim, numbered};
use crate::detached_nodes::{self, DetachedNode};
use crate::local::{
    Addresses, Fields, Level, LocalError, LocalEvent, LocalLog, LocalNode, LocalStack, NodeOptions,
    Packed, Usage,
};
use crate::members::Members;
use crate::process::{Command, Line, Running};
use crate::running;
use crate::start::{
    self, KEY_FILE, Ports, Progress, ServiceFiles, StackOptions, is_local, node_arguments,
};
use crate::supervise::{Supervised, supervise};
use crate::usage::Meter;

/// Maximum number of log lines that wait for the screen. Further lines are dropped.
const LINES_CAPACITY: usize = 1024;

/// Maximum wait for a stack that another process is starting. After this time, the awaited start counts
/// as failed, and another stack is started.
const ATTACH_WITHIN: Duration = Duration::from_mins(1);

/// Prefix of the names of nodes that an earlier run left running.
const DETACHED_PREFIX: &str = "kept-";

/// A process and, if the process is a node, a description of the node.
type Process = (Running, Option<LocalNode>);

/// Options of the local stack.
#[derive(Debug, Clone)]
pub struct ProcessesOptions {
    /// Directory of the stack. `None` for any free stack directory of the user.
    pub data_dir: Option<PathBuf>,
    /// Token for the head. The head's process receives the token in the environment.
    pub head_token: Option<Token>,
}

/// A local stack that the screen starts and stops, and nodes that the user adds.
#[derive(Clone)]
pub struct Processes {
    options: ProcessesOptions,
    files: Arc<dyn ServiceFiles>,
    group: Group,
    /// Directory of the stack, claimed while processes of the stack run.
    claimed: Arc<Mutex<Option<StackClaim>>>,
    /// Directory of nodes that were added while this process was attached to another stack.
    claimed_for_nodes: Arc<Mutex<Option<StackClaim>>>,
    /// Directory of the stack of another process, if this process is attached to such a stack.
    attached: Arc<Mutex<Option<PathBuf>>>,
    running: Arc<Mutex<Vec<Process>>>,
    meter: Arc<Mutex<Meter>>,
}

impl std::fmt::Debug for Processes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Processes").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Processes {
    /// Returns a stack without processes. Creates no directory.
    #[must_use]
    pub fn new(options: ProcessesOptions, files: Arc<dyn ServiceFiles>) -> Self {
        Self {
            options,
            files,
            group: Group::default(),
            claimed: Arc::default(),
            claimed_for_nodes: Arc::default(),
            attached: Arc::default(),
            running: Arc::default(),
            meter: Arc::default(),
        }
    }

    /// Attaches to a stack that another process runs. Waits for a stack that is starting, at most for
    /// `within`. Returns false if there is none.
    async fn try_attach(&self, within: Duration, events: &mpsc::Sender<LocalEvent>) -> bool {
        let ProcessesOptions { data_dir, head_token } = self.options.clone();
        let found = running::wait_for_running(data_dir.as_deref(), within).await;
        let Some(stack) = found else { return false };
        *self.attached.lock() = Some(stack.folder);
        let addresses = Addresses { head_token, ..stack.addresses };
        // Fails only if the screen is closed.
        drop(events.send(LocalEvent::Attached(addresses)).await);
        true
    }

    async fn try_start(&self, events: &mpsc::Sender<LocalEvent>) -> anyhow::Result<()> {
        if self.try_attach(ATTACH_WITHIN, events).await {
            return Ok(());
        }
        self.attached.lock().take();
        let options = StackOptions {
            data_dir: self.claim()?,
            ports: Ports::default(),
            log_level: tracing::Level::INFO,
            environment: Vec::new(),
            head_token: self.options.head_token.clone(),
        };
        let lines = self.forward_lines(events);
        let progress = |progress: Progress<'_>| {
            let what = match progress {
                Progress::Starting(what) => what.to_owned(),
                Progress::Delayed { since, awaited } => {
                    format!("{awaited} (for {} s)", since.as_secs())
                }
            };
            // If the channel is full, the event is dropped: more important events are waiting.
            drop(events.try_send(LocalEvent::Starting { what }));
        };
        let started =
            start::start(&options, self.files.as_ref(), &self.group, lines, progress).await?;
        for process in started.processes {
            let mut nodes = started.ready.nodes.iter();
            let node = nodes.find(|node| *node.name == *process.process).cloned();
            self.watch(&process, events);
            self.insert(process, node);
        }
        // Fails only if the screen is closed.
        drop(events.send(LocalEvent::Ready(started.ready)).await);
        Ok(())
    }

    /// Returns a channel for log lines of processes. A task converts the lines and forwards them
    /// to `events`.
    fn forward_lines(&self, events: &mpsc::Sender<LocalEvent>) -> mpsc::Sender<Line> {
        let (lines, received) = mpsc::channel(LINES_CAPACITY);
        self.group.spawn_to_end("local log lines", forward(received, events.clone()));
        lines
    }

    /// Restarts `process` whenever it exits unexpectedly. Reports its exits and restarts to
    /// `events`.
    fn watch(&self, process: &Running, events: &mpsc::Sender<LocalEvent>) {
        let (local, process, events) = (self.clone(), process.clone(), events.clone());
        let lines = self.forward_lines(&events);
        self.group.spawn("watch a process", async move {
            let name = Arc::clone(&process.process);
            let report = |happened| local.report(&name, happened, &events);
            let exit = supervise(process, local.group.clone(), lines, report).await;
            let exited = LocalEvent::Exited { process: name.to_string(), code: exit.code };
            // Fails only if the screen is closed.
            drop(events.send(exited).await);
        });
    }

    /// Reports an event of the process `name`. After a restart, the new process replaces the old
    /// process.
    async fn report(&self, name: &str, happened: Supervised, events: &mpsc::Sender<LocalEvent>) {
        let process = name.to_owned();
        let event = match happened {
            Supervised::Exited { exit, restart_in } => {
                LocalEvent::Restarting { process, code: exit.code, restart_in }
            }
            Supervised::Failed { error, restart_in } => {
                tracing::warn!("{error:#}");
                LocalEvent::Restarting { process, code: None, restart_in }
            }
            Supervised::Restarted(running) => {
                let node = self.find(name).ok().and_then(|(_, node)| node);
                let pid = running.pid;
                let node = node.map(|node| LocalNode { pid, ..node });
                if let Some(node) = &node {
                    detached_nodes::record(&running, node);
                }
                self.insert(running, node.clone());
                node.map_or(LocalEvent::Service { name: process, pid }, LocalEvent::Node)
            }
        };
        // Fails only if the screen is closed.
        drop(events.send(event).await);
    }

    /// Returns the directory that this process has claimed for its stack, or for its nodes if this
    /// process is attached to another stack. Claims one on the first call.
    fn claim(&self) -> anyhow::Result<DataDir> {
        // The process that runs the attached stack has claimed the given directory.
        let (claimed, data_dir) = match &*self.attached.lock() {
            Some(_) => (&self.claimed_for_nodes, None),
            None => (&self.claimed, self.options.data_dir.clone()),
        };
        let mut claimed = claimed.lock();
        if claimed.is_none() {
            *claimed = Some(StackClaim::acquire(data_dir)?);
        }
        Ok(claimed.as_ref().context("no local stack is running")?.data_dir.clone())
    }

    /// Creates a directory for an added node called `name`.
    fn create_folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let folder = detached_nodes::free_folder(self.claim()?.folder(), name);
        fs::create_dir_all(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(folder)
    }

    /// Returns the members of the stack to which this process is attached. If this process is not
    /// attached, returns the members of its own stack.
    fn members(&self) -> anyhow::Result<Members> {
        if let Some(folder) = &*self.attached.lock() {
            return Ok(Members::new(folder));
        }
        let claimed = self.claimed.lock();
        Ok(Members::new(claimed.as_ref().context("no local stack is running")?.data_dir.folder()))
    }

    /// Returns the first name for a node of `role` that no process has.
    fn free_name(&self, role: &str) -> String {
        let processes = self.running.lock();
        let is_taken = |name: &str| processes.iter().any(|(process, _)| *process.process == *name);
        if role == "head" && !is_taken(role) {
            return role.to_owned();
        }
        let mut names = (1..).map(|number| format!("{role}-{number}"));
        names.find(|name| !is_taken(name)).unwrap_or_else(|| role.to_owned())
    }

    async fn try_add(
        &self,
        options: NodeOptions,
        events: &mpsc::Sender<LocalEvent>,
    ) -> anyhow::Result<()> {
        let name = self.free_name(&options.role);
        let folder = self.create_folder(&name)?;
        let peer_id = self.files.load_identity(&folder.join(KEY_FILE))?;
        let role: Role = options.role.parse()?;
        let members = self.members()?;
        members.add(role, &peer_id)?;
        let mut arguments = node_arguments(&options, &folder);
        if is_local(&options) {
            let named = options.boot_nodes.iter().filter_map(|node| node.rsplit_once("/p2p/"));
            let named: Vec<&str> = named.map(|(_, peer)| peer).collect();
            arguments.extend(members.arguments(role, &named));
        }
        let command = Command {
            process: name.into(),
            program: std::env::current_exe().context("path of this program is unknown")?,
            arguments,
            environment: Vec::new(),
            log: Some(folder.join(detached_nodes::LOG)),
            is_detached: options.is_detached,
        };
        self.launch(command, &options, events).await
    }

    /// Starts a node. Returns after the node has logged its peer id and, if it is a head, its
    /// address.
    async fn launch(
        &self,
        command: Command,
        options: &NodeOptions,
        events: &mpsc::Sender<LocalEvent>,
    ) -> anyhow::Result<()> {
        let running = command.run(&self.group, &self.forward_lines(events))?;
        let peer_id = running.wait_for(|facts| facts.peer_id.clone()).await?;
        let rest_api = match options.role.as_str() {
            "head" => Some(running.wait_for(|facts| facts.address.clone()).await?),
            _ => None,
        };
        let node = LocalNode {
            name: running.process.to_string(),
            peer_id,
            role: options.role.clone(),
            subgroup: Some(options.subgroups.join("+")).filter(|names| !names.is_empty()),
            pid: running.pid,
            rest_api: rest_api.map(|address| format!("http://{address}")),
            is_detached: running.is_detached(),
            is_added: running.folder().is_some(),
        };
        detached_nodes::record(&running, &node);
        self.announce(running, Some(node.clone()), LocalEvent::Node(node), events).await;
        Ok(())
    }

    /// Stores a process and sends `event`, which reports its start. Restarts the process whenever
    /// it exits unexpectedly.
    async fn announce(
        &self,
        running: Running,
        node: Option<LocalNode>,
        event: LocalEvent,
        events: &mpsc::Sender<LocalEvent>,
    ) {
        self.watch(&running, events);
        self.insert(running, node);
        // Fails only if the screen is closed.
        drop(events.send(event).await);
    }

    /// Stores a process. Replaces a process with the same name.
    fn insert(&self, running: Running, node: Option<LocalNode>) {
        let mut processes = self.running.lock();
        processes.retain(|(process, _)| process.process != running.process);
        processes.push((running, node));
    }

    /// Watches a node that an earlier run left running, and reports the node.
    async fn adopt(
        &self,
        detached: DetachedNode,
        events: &mpsc::Sender<LocalEvent>,
    ) -> anyhow::Result<()> {
        let mut detached = detached;
        // With the prefix, the name differs from all names of a stack that is being started.
        let name = detached.node.name.trim_start_matches(DETACHED_PREFIX).to_owned();
        let kept = format!("{DETACHED_PREFIX}{name}");
        let is_free = |name: &String| self.find(name).is_err();
        detached.node.name = numbered(&kept).find(is_free).unwrap_or(name);
        let command = detached.command()?;
        let DetachedNode { node, folder, facts, .. } = detached;
        let lines = self.forward_lines(events);
        let running = command.adopt(node.pid, folder, facts, &self.group, &lines);
        self.announce(running, Some(node.clone()), LocalEvent::Found(node), events).await;
        Ok(())
    }

    fn find(&self, name: &str) -> anyhow::Result<Process> {
        let processes = self.running.lock();
        let found = processes.iter().find(|(process, _)| *process.process == *name).cloned();
        found.with_context(|| format!("unknown process {name}"))
    }

    async fn try_restart(
        &self,
        name: &str,
        events: &mpsc::Sender<LocalEvent>,
    ) -> anyhow::Result<()> {
        let (running, node) = self.find(name)?;
        let command = running.restart_command();
        running.stop().await;
        let Some(node) = node else {
            let running = command.run(&self.group, &self.forward_lines(events))?;
            running.wait_for(|facts| facts.address.clone()).await?;
            let (name, pid) = (running.process.to_string(), running.pid);
            self.announce(running, None, LocalEvent::Service { name, pid }, events).await;
            return Ok(());
        };
        let subgroups = node.subgroup.into_iter().collect();
        let options = NodeOptions { role: node.role, subgroups, ..NodeOptions::default() };
        self.launch(command, &options, events).await
    }
}

fn local_error(what: String) -> impl FnOnce(anyhow::Error) -> LocalError {
    move |error| LocalError { what, source: error.into_boxed_dyn_error() }
}

#[async_trait]
impl LocalStack for Processes {
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        self.try_start(&events).await.map_err(local_error("start the local stack".to_owned()))
    }

    async fn attach(&self, events: mpsc::Sender<LocalEvent>) {
        self.try_attach(Duration::ZERO, &events).await;
    }

    async fn add(
        &self,
        options: NodeOptions,
        events: mpsc::Sender<LocalEvent>,
    ) -> Result<(), LocalError> {
        let what = format!("start a {}", options.role);
        self.try_add(options, &events).await.map_err(local_error(what))
    }

    async fn stop_process(&self, name: &str) -> Result<(), LocalError> {
        let (running, _) = self.find(name).map_err(local_error(format!("stop {name}")))?;
        running.stop().await;
        Ok(())
    }

    async fn restart(
        &self,
        name: &str,
        events: mpsc::Sender<LocalEvent>,
    ) -> Result<(), LocalError> {
        self.try_restart(name, &events).await.map_err(local_error(format!("restart {name}")))
    }

    async fn find_detached(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        let data_dir = self.options.data_dir.clone();
        let what = || "find nodes that were left running".to_owned();
        let looked =
            tokio::task::spawn_blocking(move || detached_nodes::find_all(data_dir.as_deref()))
                .await;
        let found = looked.map_err(|error| local_error(what())(error.into()))?;
        for detached in found {
            self.adopt(detached, &events).await.map_err(local_error(what()))?;
        }
        Ok(())
    }

    fn detach(&self) {
        for (running, node) in &*self.running.lock() {
            if node.as_ref().is_some_and(|node| node.is_added) {
                running.detach();
            }
        }
    }

    fn usage(&self) -> Vec<(String, Usage)> {
        let processes = self.running.lock();
        let alive = processes.iter().filter(|(process, _)| !process.has_exited());
        let pids: Vec<_> =
            alive.map(|(process, _)| (process.process.to_string(), process.pid)).collect();
        drop(processes);
        self.meter.lock().measure(&pids)
    }

    async fn pack(&self, path: &str) -> Result<Packed, LocalError> {
        let packing = async {
            if !Path::new(path).exists() {
                bail!("no such file or directory");
            }
            self.files.pack(Path::new(path)).await
        };
        packing.await.map_err(local_error(format!("read {path} as a function")))
    }

    async fn stop(&self) {
        for (running, node) in &*self.running.lock() {
            if let Some(node) = node {
                detached_nodes::record(running, node);
            }
        }
        self.group.shutdown().await;
        for claimed in [&self.claimed, &self.claimed_for_nodes] {
            claimed.lock().take();
        }
    }
}

async fn forward(mut lines: mpsc::Receiver<Line>, events: mpsc::Sender<LocalEvent>) {
    let clock = Clock::system();
    while let Some(line) = lines.recv().await {
        // If the channel is full, the line is dropped.
        drop(events.try_send(LocalEvent::Log(read_line(line, clock.now()))));
    }
}

/// Parses a log line. A line that is not a JSON object becomes a warning, since services log only
/// JSON objects.
fn read_line(line: Line, now: Timestamp) -> LocalLog {
    let process = line.process.to_string();
    let Some(mut members) = line.members else {
        let (level, message, fields) = (Level::Warn, line.text, Fields::default());
        return LocalLog { process, level, time: now, message, fields };
    };
    let mut take = |name: &str| members.remove(name).map(text_of);
    let level = Level::named(&take("level").unwrap_or_default());
    let time = take("time").and_then(|time| time.parse().ok()).unwrap_or(now);
    let message = take("message").unwrap_or_default();
    let fields = members.into_iter().map(|(name, value)| (name, text_of(value))).collect();
    LocalLog { process, level, time, message, fields }
}

/// Returns a string as it is, and any other value as JSON.
fn text_of(value: Value) -> String {
    match value {
        Value::String(text) => text,
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use model::key::ApiKey;
    use model::node::PeerId;
    use task::causes::chain;

    use super::*;
    use crate::local::LocalFunction;

    struct NoFiles;

    #[async_trait]
    impl ServiceFiles for NoFiles {
        async fn renew_key(&self, _data_dir: &DataDir) -> anyhow::Result<ApiKey> {
            Ok(ApiKey::from_random([7; 12]))
        }

        fn load_identity(&self, _key: &Path) -> anyhow::Result<PeerId> {
            Ok("12D3KooWa".parse()?)
        }

        async fn add_functions(&self, _folder: PathBuf) -> anyhow::Result<Vec<LocalFunction>> {
            Ok(Vec::new())
        }

        async fn pack(&self, _path: &Path) -> anyhow::Result<Packed> {
            bail!("not a function")
        }
    }

    /// The program of these tests is started in place of the services, and exits.
    #[tokio::test]
    async fn stack_that_failed_to_start_is_started_again_in_its_own_directory() {
        let folder = tempfile::tempdir().unwrap();
        let data_dir = Some(folder.path().to_owned());
        let options = ProcessesOptions { data_dir, head_token: None };
        let stack = Processes::new(options, Arc::new(NoFiles));
        let (events, _received) = mpsc::channel(1024);
        for _ in 0..2 {
            let error = chain(&stack.start(events.clone()).await.unwrap_err());
            assert!(error.contains("exited (exit status"), "{error}");
        }
        stack.stop().await;
    }

    #[test]
    fn stack_does_not_start_in_the_directory_of_nodes_that_were_added_to_another_stack() {
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [given, of_nodes] = folders.each_ref().map(|folder| folder.path().to_owned());
        let options = ProcessesOptions { data_dir: Some(given.clone()), head_token: None };
        let stack = Processes::new(options, Arc::new(NoFiles));
        let claim = StackClaim::acquire(Some(of_nodes.clone())).unwrap();
        *stack.claimed_for_nodes.lock() = Some(claim);
        *stack.attached.lock() = Some(given.clone());
        assert!(stack.create_folder("worker-1").unwrap().starts_with(&of_nodes));
        stack.attached.lock().take();
        assert_eq!(stack.claim().unwrap().folder(), given);
    }

    #[track_caller]
    fn check(text: &str, level: Level, message: &str, fields: &[(&str, &str)]) {
        let log = read_line(Line::new("head".into(), text.into()), Timestamp::default());
        let got: Vec<_> = log.fields.pairs().collect();
        assert_eq!((log.level, log.message.as_str(), got.as_slice()), (level, message, fields));
    }

    #[test]
    fn json_log_line_of_a_process_is_parsed() {
        check(
            r#"{"level":"warn","port":":80","n":3,"time":"2026-07-30T21:57:00Z","message":"x"}"#,
            Level::Warn,
            "x",
            &[("n", "3"), ("port", ":80")],
        );
    }

    #[test]
    fn local_node_with_remote_boot_nodes_listens_on_all_interfaces() {
        let address = |boot_node: &str| {
            let boot_nodes = vec![boot_node.to_owned()];
            let options =
                NodeOptions { role: "worker".to_owned(), boot_nodes, ..NodeOptions::default() };
            let arguments = node_arguments(&options, Path::new("/f"));
            let idx = arguments.iter().position(|argument| argument == "--address").unwrap();
            arguments[idx + 1].clone()
        };
        assert_eq!(address("/ip4/127.0.0.1/tcp/1/p2p/12D3"), "127.0.0.1");
        assert_eq!(address("/ip4/10.0.0.5/tcp/1/p2p/12D3"), "0.0.0.0");
    }

    #[test]
    fn only_workers_declare_attributes() {
        let attribute = |role: &str| {
            let attributes = ["zone=a", "gpu=a100"].map(str::to_owned).to_vec();
            let options =
                NodeOptions { role: role.to_owned(), attributes, ..NodeOptions::default() };
            let mut arguments = node_arguments(&options, Path::new("/f")).into_iter();
            arguments.find(|argument| argument == "--attribute")?;
            arguments.next()
        };
        assert_eq!(attribute("worker").as_deref(), Some("zone=a,gpu=a100"));
        assert_eq!(attribute("head"), None);
    }

    #[test]
    fn log_line_that_is_not_json_is_a_warning() {
        check("thread panicked", Level::Warn, "thread panicked", &[]);
    }
}
