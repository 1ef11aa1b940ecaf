//! The local stack as the screen sees it: starts it, tells what happens to it, stops it; and single
//! nodes beside it.

mod kept;
mod usage;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use ::tui::local::{
    Addresses, Fields, Level, LocalError, LocalEvent, LocalFunction, LocalLog, LocalNode,
    LocalReady, LocalStack, NodeWish, Packed, Usage,
};
use anyhow::{Context as _, bail};
use async_trait::async_trait;
use cluster::identity::Identity;
use content::Functions;
use model::{node::Role, timestamp::Timestamp};
use parking_lot::Mutex;
use serde_json::Value;
use task::{clock::Clock, group::Group};
use tokio::sync::mpsc;

use self::{kept::Kept, usage::Meter};
use crate::cli::{
    place::Claim,
    stack::{
        self, KEY_FILE, Ports, Progress, Ready, StackOptions,
        child::{Line, Running, Start},
        members::Members,
        supervise::{Supervised, supervise},
    },
};

/// Log lines that may wait for the screen; further ones are dropped.
const LINES_CAPACITY: usize = 1024;

/// What stands before the names of nodes that were left running.
const FOUND: &str = "kept-";

/// A process, and its node if it is one.
type Process = (Running, Option<LocalNode>);

/// A local stack that the screen starts and stops, and nodes that it starts beside it.
#[derive(Debug, Clone)]
pub(crate) struct Local {
    data_dir: Option<PathBuf>,
    group: Group,
    /// Held while a process runs.
    claimed: Arc<Mutex<Option<Claim>>>,
    processes: Arc<Mutex<Vec<Process>>>,
    /// The folder of each added node, by its name.
    folders: Arc<Mutex<BTreeMap<String, PathBuf>>>,
    meter: Arc<Mutex<Meter>>,
}

impl Local {
    /// A stack with its state in `data_dir`, else in a folder of the user's that is free.
    pub(crate) fn new(data_dir: Option<PathBuf>) -> Self {
        Self {
            data_dir,
            group: Group::default(),
            claimed: Arc::default(),
            processes: Arc::default(),
            folders: Arc::default(),
            meter: Arc::default(),
        }
    }

    async fn try_start(&self, events: &mpsc::Sender<LocalEvent>) -> anyhow::Result<()> {
        let options = StackOptions {
            claim: Claim::stack(self.data_dir.clone())?,
            ports: Ports::default(),
            log_level: tracing::Level::INFO,
        };
        let lines = self.lines_to(events);
        let progress = |progress: Progress<'_>| {
            let what = match progress {
                Progress::Starting(what) => what.to_owned(),
                Progress::Delayed { since, awaited } => {
                    format!("{awaited} (for {} s)", since.as_secs())
                }
            };
            // A full queue holds newer news than this.
            drop(events.try_send(LocalEvent::Starting { what }));
        };
        let started = stack::start(&options, &self.group, lines, progress).await;
        *self.claimed.lock() = Some(options.claim);
        let mut ready = started?;
        let running = std::mem::take(&mut ready.processes);
        let told = describe(ready, &running);
        for process in running {
            let node = told.nodes.iter().find(|node| *node.name == *process.process).cloned();
            self.watch(&process, events);
            self.hold(process, node);
        }
        // Where the screen is gone nobody waits for this.
        drop(events.send(LocalEvent::Ready(told)).await);
        Ok(())
    }

    /// Where processes write lines for `events`.
    fn lines_to(&self, events: &mpsc::Sender<LocalEvent>) -> mpsc::Sender<Line> {
        let (lines, heard) = mpsc::channel(LINES_CAPACITY);
        self.group.spawn_to_end("local log lines", pass_on(heard, events.clone()));
        lines
    }

    /// Restarts the process each time it ends unasked, and sends what happens to it.
    fn watch(&self, process: &Running, events: &mpsc::Sender<LocalEvent>) {
        let (name, events) = (Arc::clone(&process.process), events.clone());
        let (local, sender, reported) = (self.clone(), events.clone(), Arc::clone(&name));
        let report = move |happened| {
            let (local, name, events) = (local.clone(), Arc::clone(&reported), sender.clone());
            async move { local.report(&name, happened, &events).await }
        };
        let supervised =
            supervise(process.clone(), self.group.clone(), self.lines_to(&events), report);
        self.group.spawn("watch a process", async move {
            let Some(ended) = supervised.await else { return };
            let exited = LocalEvent::Exited { process: name.to_string(), code: ended.code };
            // Where the screen is gone nobody waits for this.
            drop(events.send(exited).await);
        });
    }

    /// Sends what happened to the process called `name`, and holds the one that takes its place.
    async fn report(&self, name: &str, happened: Supervised, events: &mpsc::Sender<LocalEvent>) {
        let process = name.to_owned();
        let event = match happened {
            Supervised::Ended { ended, restart_in } => {
                LocalEvent::Restarting { process, code: ended.code, restart_in }
            }
            Supervised::Failed { error, restart_in } => {
                tracing::warn!("cannot {error:#}");
                LocalEvent::Restarting { process, code: None, restart_in }
            }
            Supervised::Restarted(running) => {
                let node = self.find(name).ok().and_then(|(_, node)| node);
                let pid = running.pid;
                let node = node.map(|node| LocalNode { pid, ..node });
                if let Some(node) = &node {
                    self.record(&running, node);
                }
                self.hold(running, node.clone());
                node.map_or(LocalEvent::Service { name: process, pid }, LocalEvent::Node)
            }
        };
        // Where the screen is gone nobody waits for this.
        drop(events.send(event).await);
    }

    /// The folder of an added node called `name`, which is made.
    fn folder(&self, name: &str) -> anyhow::Result<PathBuf> {
        let mut claimed = self.claimed.lock();
        if claimed.is_none() {
            *claimed = Some(Claim::stack(self.data_dir.clone())?);
        }
        let place = &claimed.as_ref().context("claim a folder")?.place;
        let folder = kept::free_folder(place.folder(), name);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        self.folders.lock().insert(name.to_owned(), folder.clone());
        Ok(folder)
    }

    /// The members of the stack whose folder is claimed.
    fn members(&self) -> anyhow::Result<Members> {
        let claimed = self.claimed.lock();
        Ok(Members::of(&claimed.as_ref().context("claim a folder")?.place))
    }

    /// The first name of its kind that no process has.
    fn free_name(&self, role: &str) -> String {
        let processes = self.processes.lock();
        let is_taken = |name: &str| processes.iter().any(|(process, _)| *process.process == *name);
        if role == "head" && !is_taken(role) {
            return role.to_owned();
        }
        let mut names = (1..).map(|number| format!("{role}-{number}"));
        names.find(|name| !is_taken(name)).unwrap_or_else(|| role.to_owned())
    }

    async fn try_add(
        &self,
        wish: NodeWish,
        events: &mpsc::Sender<LocalEvent>,
    ) -> anyhow::Result<()> {
        let name = self.free_name(&wish.role);
        let folder = self.folder(&name)?;
        let identity = Identity::load_or_create(&folder.join(KEY_FILE));
        let identity = identity.context("prepare the node's identity")?;
        let role: Role = wish.role.parse()?;
        let members = self.members()?;
        members.add(role, identity.peer_id())?;
        let mut arguments = arguments(&wish, &folder);
        if is_local(&wish) {
            let named = wish.boot_nodes.iter().filter_map(|node| node.rsplit_once("/p2p/"));
            let named: Vec<&str> = named.map(|(_, peer)| peer).collect();
            arguments.extend(members.arguments(role, &named));
        }
        let start = Start {
            process: name.into(),
            program: std::env::current_exe().context("find this program's own file")?,
            arguments,
            environment: Vec::new(),
            log: Some(folder.join(kept::LOG)),
            is_kept: wish.is_kept,
        };
        self.launch(start, &wish, events).await
    }

    /// Starts a node, and returns once it has told who and where it is.
    async fn launch(
        &self,
        start: Start,
        wish: &NodeWish,
        events: &mpsc::Sender<LocalEvent>,
    ) -> anyhow::Result<()> {
        let running = start.run(&self.group, &self.lines_to(events))?;
        let peer_id = running.told(|facts| facts.peer_id.clone()).await?;
        let rest_api = match wish.role.as_str() {
            "head" => Some(running.told(|facts| facts.address.clone()).await?),
            _ => None,
        };
        let node = LocalNode {
            name: running.process.to_string(),
            peer_id,
            role: wish.role.clone(),
            subgroup: Some(wish.subgroups.join("+")).filter(|names| !names.is_empty()),
            pid: running.pid,
            rest_api: rest_api.map(|address| format!("http://{address}")),
            is_kept: running.is_kept(),
            is_added: self.folders.lock().contains_key(&*running.process),
        };
        self.record(&running, &node);
        self.settle(running, Some(node), events).await;
        Ok(())
    }

    /// Keeps a process, and tells of it.
    async fn settle(
        &self,
        running: Running,
        node: Option<LocalNode>,
        events: &mpsc::Sender<LocalEvent>,
    ) {
        self.watch(&running, events);
        let event = match &node {
            Some(node) => LocalEvent::Node(node.clone()),
            None => LocalEvent::Service { name: running.process.to_string(), pid: running.pid },
        };
        self.hold(running, node);
        // Where the screen is gone nobody waits for this.
        drop(events.send(event).await);
    }

    /// Keeps a process in the place of the one that had its name.
    fn hold(&self, running: Running, node: Option<LocalNode>) {
        let mut processes = self.processes.lock();
        processes.retain(|(process, _)| process.process != running.process);
        processes.push((running, node));
    }

    /// Writes a node down that is kept, so that it is found again.
    fn record(&self, running: &Running, node: &LocalNode) {
        let Some(folder) = self.folders.lock().get(&node.name).cloned() else { return };
        if running.is_kept()
            && !running.has_ended()
            && let Err(error) = Kept::of(running, node, &folder).record()
        {
            tracing::warn!("cannot find {} again later: {error:#}", node.name);
        }
    }

    /// Takes charge of a node that was left running.
    async fn adopt(&self, mut kept: Kept, events: &mpsc::Sender<LocalEvent>) -> anyhow::Result<()> {
        // Another name than those that a stack gives, which it may be giving right now.
        let name = kept.node.name.trim_start_matches(FOUND).to_owned();
        let mut names = (1..).map(|number| match number {
            1 => format!("{FOUND}{name}"),
            _ => format!("{FOUND}{name}-{number}"),
        });
        let is_free = |name: &String| !self.folders.lock().contains_key(name);
        kept.node.name = names.find(is_free).unwrap_or(name);
        self.folders.lock().insert(kept.node.name.clone(), kept.folder.clone());
        let start = kept.start()?;
        let what = (kept.node.pid, kept.folder.clone(), kept.facts.clone());
        let running = start.adopt(what, &self.group, &self.lines_to(events));
        self.watch(&running, events);
        self.hold(running, Some(kept.node.clone()));
        // Where the screen is gone nobody waits for this.
        drop(events.send(LocalEvent::Found(kept.node)).await);
        Ok(())
    }

    fn find(&self, name: &str) -> anyhow::Result<Process> {
        let processes = self.processes.lock();
        let found = processes.iter().find(|(process, _)| *process.process == *name).cloned();
        found.with_context(|| format!("find a process called {name}"))
    }

    async fn try_restart(
        &self,
        name: &str,
        events: &mpsc::Sender<LocalEvent>,
    ) -> anyhow::Result<()> {
        let (running, node) = self.find(name)?;
        let start = running.again();
        running.end().await;
        let Some(node) = node else {
            let running = start.run(&self.group, &self.lines_to(events))?;
            running.told(|facts| facts.address.clone()).await?;
            self.settle(running, None, events).await;
            return Ok(());
        };
        let subgroups = node.subgroup.into_iter().collect();
        let wish = NodeWish { role: node.role, subgroups, ..NodeWish::default() };
        self.launch(start, &wish, events).await
    }
}

/// Whether a node meets those of this machine alone.
fn is_local(wish: &NodeWish) -> bool {
    wish.boot_nodes.iter().all(|address| address.starts_with("/ip4/127."))
}

/// The arguments of a node with its state in `folder`.
fn arguments(wish: &NodeWish, folder: &Path) -> Vec<String> {
    // Nodes of this machine meet on loopback; those that are to meet others listen to them.
    let address = if is_local(wish) { "127.0.0.1" } else { "0.0.0.0" };
    let mut arguments: Vec<String> = Vec::new();
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    add("--role", wish.role.clone());
    add("--address", address.to_owned());
    add("--port", wish.port.to_string());
    add("--private-key", folder.join(KEY_FILE).display().to_string());
    add("--db", folder.display().to_string());
    if !wish.boot_nodes.is_empty() {
        add("--boot-nodes", wish.boot_nodes.join(","));
    }
    if !wish.subgroups.is_empty() {
        add("--topic", wish.subgroups.join(","));
    }
    if wish.role == "head" {
        add("--rest-api", format!("127.0.0.1:{}", wish.rest_port));
    } else {
        add("--concurrency", wish.n_slots.max(1).to_string());
    }
    if let Some(runtime) = &wish.runtime {
        add("--runtime-path", runtime.clone());
    }
    arguments.insert(0, "node".to_owned());
    arguments.push("--no-dialback-peers".to_owned());
    arguments
}

fn failed(what: String) -> impl FnOnce(anyhow::Error) -> LocalError {
    move |error| LocalError { what, source: error.into_boxed_dyn_error() }
}

#[async_trait]
impl LocalStack for Local {
    async fn start(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        self.try_start(&events).await.map_err(failed("start the local stack".to_owned()))
    }

    async fn add(
        &self,
        wish: NodeWish,
        events: mpsc::Sender<LocalEvent>,
    ) -> Result<(), LocalError> {
        let what = format!("start a {}", wish.role);
        self.try_add(wish, &events).await.map_err(failed(what))
    }

    async fn end(&self, name: &str) -> Result<(), LocalError> {
        let (running, _) = self.find(name).map_err(failed(format!("stop {name}")))?;
        running.end().await;
        Ok(())
    }

    async fn restart(
        &self,
        name: &str,
        events: mpsc::Sender<LocalEvent>,
    ) -> Result<(), LocalError> {
        self.try_restart(name, &events).await.map_err(failed(format!("restart {name}")))
    }

    async fn find_kept(&self, events: mpsc::Sender<LocalEvent>) -> Result<(), LocalError> {
        let data_dir = self.data_dir.clone();
        let what = || "find nodes that were left running".to_owned();
        let looked = tokio::task::spawn_blocking(move || kept::found(data_dir.as_deref())).await;
        let found = looked.map_err(|error| failed(what())(error.into()))?;
        for kept in found {
            self.adopt(kept, &events).await.map_err(failed(what()))?;
        }
        Ok(())
    }

    fn keep(&self) {
        for (running, node) in &*self.processes.lock() {
            if node.as_ref().is_some_and(|node| node.is_added) {
                running.keep();
            }
        }
    }

    fn usage(&self) -> Vec<(String, Usage)> {
        let processes = self.processes.lock();
        let alive = processes.iter().filter(|(process, _)| !process.has_ended());
        let pids: Vec<_> =
            alive.map(|(process, _)| (process.process.to_string(), process.pid)).collect();
        drop(processes);
        self.meter.lock().measure(&pids)
    }

    async fn pack(&self, path: &str) -> Result<Packed, LocalError> {
        let packing = async {
            if !Path::new(path).exists() {
                bail!("no such file or folder");
            }
            Ok(Functions::pack_path(Path::new(path)).await?)
        };
        let upload = packing.await.map_err(failed(format!("read {path} as a function")))?;
        let function = upload.function;
        Ok(Packed {
            name: function.name,
            function_id: function.id.to_string(),
            method: function.method.to_string(),
            car: upload.car.to_vec(),
        })
    }

    async fn stop(&self) {
        for (running, node) in &*self.processes.lock() {
            if let Some(node) = node {
                self.record(running, node);
            }
        }
        self.group.shutdown().await;
        self.claimed.lock().take();
    }
}

async fn pass_on(mut lines: mpsc::Receiver<Line>, events: mpsc::Sender<LocalEvent>) {
    let clock = Clock::system();
    while let Some(line) = lines.recv().await {
        // Full: dropped, as the screen expects of log lines.
        drop(events.try_send(LocalEvent::Log(read(&line, clock.now()))));
    }
}

/// Reads a log line. One that is no JSON object is a warning: services write nothing else.
fn read(line: &Line, now: Timestamp) -> LocalLog {
    let process = line.process.to_string();
    let Ok(Value::Object(mut members)) = serde_json::from_str(&line.text) else {
        let message = line.text.clone();
        return LocalLog {
            process,
            level: Level::Warn,
            time: now,
            message,
            fields: Fields::default(),
        };
    };
    let mut take = |name: &str| match members.remove(name) {
        Some(Value::String(text)) => Some(text),
        Some(other) => Some(other.to_string()),
        None => None,
    };
    let level = Level::named(&take("level").unwrap_or_default());
    let time = take("time").and_then(|time| time.parse().ok()).unwrap_or(now);
    let message = take("message").unwrap_or_default();
    let fields = members
        .into_iter()
        .map(|(name, value)| match value {
            Value::String(text) => (name, text),
            other => (name, other.to_string()),
        })
        .collect();
    LocalLog { process, level, time, message, fields }
}

fn describe(ready: Ready, running: &[Running]) -> LocalReady {
    let head = ready.head.clone();
    let is_node = |process: &Running| ready.nodes.iter().any(|node| *node.name == *process.process);
    let services = running.iter().filter(|process| !is_node(process));
    LocalReady {
        services: services.map(|process| (process.process.to_string(), process.pid)).collect(),
        addresses: Addresses {
            head: Some(ready.head),
            datasets: Some(ready.datasets),
            inference: Some(ready.inference),
            api_key: Some(ready.api_key),
            // The head got it from the same environment, and did not start without understanding it.
            head_token: crate::cli::config::head_token().ok().flatten(),
        },
        nodes: ready
            .nodes
            .into_iter()
            .map(|node| LocalNode {
                name: node.name.to_owned(),
                peer_id: node.peer_id,
                rest_api: (node.role == "head").then(|| head.clone()),
                role: node.role,
                subgroup: node.subgroup,
                pid: node.pid,
                is_kept: false,
                is_added: false,
            })
            .collect(),
        functions: ready
            .functions
            .into_iter()
            .map(|function| LocalFunction {
                name: function.name,
                function_id: function.function_id,
                method: function.method,
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, level: Level, message: &str, fields: &[(&str, &str)]) {
        let log = read(&Line { process: "head".into(), text: text.into() }, Timestamp::default());
        let got: Vec<_> = log.fields.pairs().collect();
        assert_eq!((log.level, log.message.as_str(), got.as_slice()), (level, message, fields));
    }

    #[test]
    fn a_line_is_taken_apart() {
        check(
            r#"{"level":"warn","port":":80","n":3,"time":"2026-07-30T21:57:00Z","message":"x"}"#,
            Level::Warn,
            "x",
            &[("n", "3"), ("port", ":80")],
        );
    }

    #[test]
    fn a_node_that_is_to_meet_others_listens_to_them() {
        let address = |boot_node: &str| {
            let boot_nodes = vec![boot_node.to_owned()];
            let wish = NodeWish { role: "worker".to_owned(), boot_nodes, ..NodeWish::default() };
            let arguments = arguments(&wish, Path::new("/f"));
            let idx = arguments.iter().position(|argument| argument == "--address").unwrap();
            arguments[idx + 1].clone()
        };
        assert_eq!(address("/ip4/127.0.0.1/tcp/1/p2p/12D3"), "127.0.0.1");
        assert_eq!(address("/ip4/10.0.0.5/tcp/1/p2p/12D3"), "0.0.0.0");
    }

    #[test]
    fn a_line_that_is_no_json_is_a_warning() {
        check("thread panicked", Level::Warn, "thread panicked", &[]);
    }
}
