//! Starts the local stack. A process is started as soon as the processes that it depends on
//! respond.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::{Context as _, anyhow};
use async_trait::async_trait;
use client::datasets::Datasets;
use client::error::ClientError;
use client::functions::Functions;
use client::inference::Inference;
use client::transport::{Token, Transport};
use futures::future::{join_all, select_all};
use model::dataset::PUBLIC_TAG;
use model::key::ApiKey;
use model::node::{PeerId, Role};
use parking_lot::Mutex;
use task::causes::chain;
use task::group::Group;
use task::wait;
use tokio::sync::mpsc;
use tokio::time::{Instant, interval_at};
use tracing::Level;

use crate::data_dir::DataDir;
use crate::local::{Addresses, LocalFunction, LocalNode, LocalReady, NodeOptions, Packed};
use crate::members::Members;
use crate::process::{Command, Line, Running};
use crate::running;

/// Environment variable with the API key of services and commands.
pub const KEY_VARIABLE: &str = "TRIPTYCH_API_KEY";

/// Name of the file with the private key in the directory of a node.
pub(crate) const KEY_FILE: &str = "key";

/// Name of the directory with functions in the directory of a node.
const FUNCTIONS_FOLDER: &str = "functions";

/// Flag that exempts requests of this machine from rate limits.
const UNLIMITED: &str = "--unlimited-loopback";

/// Maximum time in which all processes of the stack must respond. The first start on a busy
/// machine takes a few seconds.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// Interval at which a slow start reports its progress. Most starts take less time.
const DELAY_REPORT_EVERY: Duration = Duration::from_secs(10);

/// Nodes of the stack. The head is first.
const NODES: [NodeSpec; 4] = [
    NodeSpec { name: "head", role: Role::Head, subgroup: None },
    NodeSpec { name: "worker-1", role: Role::Worker, subgroup: None },
    NodeSpec { name: "worker-2", role: Role::Worker, subgroup: Some("gpu") },
    NodeSpec { name: "worker-3", role: Role::Worker, subgroup: Some("gpu") },
];

/// A node of the stack.
#[derive(Debug, Clone, Copy)]
struct NodeSpec {
    name: &'static str,
    role: Role,
    subgroup: Option<&'static str>,
}

/// Options of a stack.
#[derive(Debug)]
pub struct StackOptions {
    /// Directory of the stack, which the caller has claimed.
    pub data_dir: DataDir,
    /// Ports of the services.
    pub ports: Ports,
    /// Minimum level of log lines. Lines of the level INFO are logged in any case.
    pub log_level: Level,
    /// Additional environment variables.
    pub environment: Vec<(&'static str, String)>,
    /// Token for the head. The head's process receives the token in the environment.
    pub head_token: Option<Token>,
}

/// Ports on loopback. 0 stands for any free port.
#[derive(Debug, Clone, Copy, Default)]
pub struct Ports {
    /// Port of the head's REST API.
    pub head: u16,
    /// Port of the dataset service.
    pub datasets: u16,
    /// Port of the inference service.
    pub inference: u16,
}

/// Operations on the files of services. The command line implements them.
#[async_trait]
pub trait ServiceFiles: Send + Sync {
    /// Replaces the secret of the stack's key in the accounts of `data_dir` and returns the key.
    /// The old secret is unknown, since accounts store only hashes. The key retains its datasets.
    ///
    /// # Errors
    /// If the accounts cannot be opened or written.
    async fn renew_key(&self, data_dir: &DataDir) -> anyhow::Result<ApiKey>;

    /// Returns the peer id of the private key in the file at `key`. Creates the file if it is
    /// missing.
    ///
    /// # Errors
    /// If the file cannot be read or written.
    fn load_identity(&self, key: &Path) -> anyhow::Result<PeerId>;

    /// Installs the demo functions in `folder`, the head's directory of functions. Returns all demo
    /// functions.
    ///
    /// # Errors
    /// If `folder` is not writable.
    async fn add_functions(&self, folder: PathBuf) -> anyhow::Result<Vec<LocalFunction>>;

    /// Packs the module or directory at `path` as a function.
    ///
    /// # Errors
    /// If the path does not contain a function.
    async fn pack(&self, path: &Path) -> anyhow::Result<Packed>;
}

/// A stack that was started. All its processes respond.
#[derive(Debug)]
pub struct StartedStack {
    /// Addresses, nodes and functions.
    pub ready: LocalReady,
    /// Processes: first the nodes, beginning with the head, then the services.
    pub processes: Vec<Running>,
}

/// Progress of the start of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress<'a> {
    /// These processes are being started.
    Starting(&'a str),
    /// The start is slower than usual.
    Delayed {
        /// Time since the start began.
        since: Duration,
        /// Condition for which the start is waiting.
        awaited: &'a str,
    },
}

/// Condition for which a start is waiting, as text for the user.
#[derive(Debug, Default)]
struct Awaited(Mutex<String>);

impl Awaited {
    fn set(&self, what: impl Into<String>) {
        *self.0.lock() = what.into();
    }

    /// Runs `work`. Reports its current condition every [`DELAY_REPORT_EVERY`].
    async fn report_while<T>(
        &self,
        work: impl Future<Output = T>,
        progress: impl Fn(Progress<'_>),
    ) -> T {
        tokio::pin!(work);
        let started = Instant::now();
        let mut reports = interval_at(started + DELAY_REPORT_EVERY, DELAY_REPORT_EVERY);
        loop {
            tokio::select! {
                done = &mut work => return done,
                _ = reports.tick() => {
                    let awaited = self.0.lock().clone();
                    progress(Progress::Delayed { since: started.elapsed(), awaited: &awaited });
                }
            }
        }
    }
}

/// Data that all steps of a start need.
struct Starter<'a> {
    program: PathBuf,
    options: &'a StackOptions,
    files: &'a dyn ServiceFiles,
    group: &'a Group,
    lines: mpsc::Sender<Line>,
    awaited: &'a Awaited,
    started: Mutex<Vec<Running>>,
}

/// Starts a stack. Returns when all its processes respond. The processes exit when `group` stops.
///
/// Log lines are sent to `lines`. `progress` is called for each step, and for delays.
///
/// # Errors
/// If a process cannot be started or exits, or if not all processes respond within a minute. The others
/// are stopped.
pub async fn start(
    options: &StackOptions,
    files: &dyn ServiceFiles,
    group: &Group,
    lines: mpsc::Sender<Line>,
    progress: impl Fn(Progress<'_>) + Sync,
) -> anyhow::Result<StartedStack> {
    let program = env::current_exe().context("path of this program is unknown")?;
    let folder = options.data_dir.folder();
    running::write_starting(folder)?;
    let awaited = Awaited::default();
    let started = Mutex::default();
    let starter = Starter { program, options, files, group, lines, awaited: &awaited, started };
    let started = awaited.report_while(starter.run(&progress), &progress).await;
    if started.is_err() {
        // Other processes must not wait for a stack that has failed to start.
        running::remove(folder);
        join_all(starter.started.into_inner().iter().map(Running::stop)).await;
    }
    let started = started?;
    running::write(folder, &started.ready.addresses)?;
    Ok(started)
}

impl Starter<'_> {
    /// Starts each process as soon as the processes that it depends on respond.
    async fn run(&self, progress: &(impl Fn(Progress<'_>) + Sync)) -> anyhow::Result<StartedStack> {
        let (data_dir, awaited) = (&self.options.data_dir, self.awaited);
        progress(Progress::Starting("head and dataset service"));
        awaited.set(format!("the accounts in {}", data_dir.folder().display()));
        let api_key = self.files.renew_key(data_dir).await?;
        let functions = self.prepare_nodes().await?;
        let members = Members::new(data_dir.folder());
        let datasets = self.start_datasets()?;
        let head = self.start_node(NODES[0], &members, None)?;
        awaited.set("the head to listen");
        let boot_node = head.wait_for(|facts| facts.multiaddresses.first().cloned()).await?;
        progress(Progress::Starting("workers"));
        let mut processes = vec![head.clone()];
        for node in NODES.into_iter().skip(1) {
            processes.push(self.start_node(node, &members, Some(&boot_node))?);
        }
        let base = |address: String| format!("http://{address}");
        let head_url = base(head.wait_for(|facts| facts.address.clone()).await?);
        awaited.set("the dataset service to listen");
        let datasets_url = base(datasets.wait_for(|facts| facts.address.clone()).await?) + "/api";
        awaited.set("the workers to listen");
        let nodes = describe_nodes(&processes, &head_url).await?;
        // The inference service opens its first epoch when it starts, so the workers must be ready
        // by then.
        processes.push(datasets);
        or_first_exit(&processes, self.wait_for_cluster(&head_url, &nodes)).await?;
        progress(Progress::Starting("inference service"));
        let inference = self.start_inference(&head_url, &datasets_url, &api_key)?;
        awaited.set("the inference service to listen");
        let inference_url = base(inference.wait_for(|facts| facts.address.clone()).await?);
        processes.push(inference);
        let addresses = Addresses {
            heads: vec![head_url],
            datasets: Some(datasets_url),
            inference: Some(inference_url),
            api_key: Some(api_key),
            head_token: self.options.head_token.clone(),
        };
        or_first_exit(&processes, wait_for_services(&addresses, awaited)).await?;
        let services = processes.iter().skip(NODES.len());
        let services = services.map(|process| (process.process.to_string(), process.pid));
        let ready = LocalReady { addresses, nodes, services: services.collect(), functions };
        Ok(StartedStack { ready, processes })
    }

    /// Creates missing private keys of the nodes, makes the nodes members of the stack, and
    /// installs functions at the head. Returns the functions.
    async fn prepare_nodes(&self) -> anyhow::Result<Vec<LocalFunction>> {
        let data_dir = &self.options.data_dir;
        let members = Members::new(data_dir.folder());
        for node in NODES {
            let folder = data_dir.node(node.name);
            fs::create_dir_all(&folder)
                .with_context(|| format!("cannot create {}", folder.display()))?;
            members.add(node.role, &self.files.load_identity(&folder.join(KEY_FILE))?)?;
        }
        self.files.add_functions(data_dir.node(NODES[0].name).join(FUNCTIONS_FOLDER)).await
    }

    fn start_process(
        &self,
        process: &'static str,
        mut arguments: Vec<String>,
        mut environment: Vec<(&'static str, String)>,
    ) -> anyhow::Result<Running> {
        environment.extend(self.options.environment.iter().cloned());
        // The addresses of a process are read from log lines of the level INFO.
        let level = self.options.log_level.max(Level::INFO).to_string().to_ascii_lowercase();
        arguments.extend(["--log-level".to_owned(), level]);
        let (process, program) = (process.into(), self.program.clone());
        let command =
            Command { process, program, arguments, environment, log: None, is_detached: false };
        let running = command.run(self.group, &self.lines)?;
        self.started.lock().push(running.clone());
        Ok(running)
    }

    fn start_node(
        &self,
        node: NodeSpec,
        members: &Members,
        boot_node: Option<&str>,
    ) -> anyhow::Result<Running> {
        let options = NodeOptions {
            role: node.role.to_string(),
            rest_port: self.options.ports.head,
            boot_nodes: boot_node.map(str::to_owned).into_iter().collect(),
            subgroups: node.subgroup.map(str::to_owned).into_iter().collect(),
            ..NodeOptions::default()
        };
        let mut arguments = node_arguments(&options, &self.options.data_dir.node(node.name));
        arguments.extend(members.arguments(node.role, &[]));
        self.start_process(node.name, arguments, Vec::new())
    }

    fn start_datasets(&self) -> anyhow::Result<Running> {
        let arguments = self.service_arguments("datasets", self.options.ports.datasets);
        self.start_process("datasets", arguments, Vec::new())
    }

    fn start_inference(&self, head: &str, datasets: &str, key: &ApiKey) -> anyhow::Result<Running> {
        let mut arguments = self.service_arguments("inference", self.options.ports.inference);
        arguments.extend(["--head", head, "--datasets", datasets].map(str::to_owned));
        let environment = vec![(KEY_VARIABLE, key.reveal().to_owned())];
        self.start_process("inference", arguments, environment)
    }

    /// Returns the arguments of the service `service` on `port`.
    fn service_arguments(&self, service: &str, port: u16) -> Vec<String> {
        let listen = format!("127.0.0.1:{port}");
        let folder = self.options.data_dir.folder().display().to_string();
        [service, "serve", "--listen", &listen, "--data-dir", &folder, "--demo", UNLIMITED]
            .map(str::to_owned)
            .to_vec()
    }

    /// Waits until the head responds and is connected to all other `nodes`.
    async fn wait_for_cluster(&self, head: &str, nodes: &[LocalNode]) -> anyhow::Result<()> {
        let awaited = self.awaited;
        awaited.set(format!("the head to respond at {head}"));
        let head = Transport::new(head, None)?.with_token(self.options.head_token.clone());
        let head = Functions::new(head);
        let answers = wait::until(READY_WITHIN, || async {
            let known = head.nodes().await.map_err(|error| {
                awaited.set(format!("the head to respond: {}", chain(&error)));
                error.to_string()
            })?;
            let is_missing = |expected: &&LocalNode| {
                !known.iter().any(|node| node.connected && node.peer_id == expected.peer_id)
            };
            match nodes.iter().find(is_missing) {
                Some(missing) => {
                    awaited.set(format!("{} to connect to the head", missing.name));
                    Err(format!("{} is not connected to the head", missing.name))
                }
                None => Ok(()),
            }
        });
        answers.await.context("the nodes did not connect")
    }
}

/// Returns true if all boot nodes run on this machine.
pub(crate) fn is_local(options: &NodeOptions) -> bool {
    options.boot_nodes.iter().all(|address| address.starts_with("/ip4/127."))
}

/// Returns the arguments of a node with the directory `folder`. The node does not dial the peers
/// of earlier runs, since their ports have changed.
pub(crate) fn node_arguments(options: &NodeOptions, folder: &Path) -> Vec<String> {
    // A node with boot nodes on other machines must be reachable from these machines. Otherwise
    // loopback is enough.
    let address = if is_local(options) { "127.0.0.1" } else { "0.0.0.0" };
    let mut arguments = vec!["node".to_owned(), "--no-dialback-peers".to_owned()];
    let mut add = |flag: &str, value: String| arguments.extend([flag.to_owned(), value]);
    add("--role", options.role.clone());
    add("--address", address.to_owned());
    add("--port", options.port.to_string());
    add("--private-key", folder.join(KEY_FILE).display().to_string());
    add("--db", folder.display().to_string());
    if is_local(options) {
        // A node without a connection to other machines must not contact public servers either.
        add("--gateways", "none".to_owned());
    }
    if !options.boot_nodes.is_empty() {
        add("--boot-nodes", options.boot_nodes.join(","));
    }
    if !options.subgroups.is_empty() {
        add("--topic", options.subgroups.join(","));
    }
    if options.role == "head" {
        add("--rest-api", format!("127.0.0.1:{}", options.rest_port));
    } else if options.n_slots > 0 {
        add("--concurrency", options.n_slots.to_string());
    }
    if options.role != "head" && !options.attributes.is_empty() {
        add("--attribute", options.attributes.join(","));
    }
    if let Some(runtime) = &options.runtime {
        add("--runtime-path", runtime.clone());
    }
    arguments
}

/// Returns descriptions of the nodes in `processes`, after each node has logged its peer id.
async fn describe_nodes(processes: &[Running], head: &str) -> anyhow::Result<Vec<LocalNode>> {
    let mut nodes = Vec::new();
    for (running, node) in processes.iter().zip(NODES) {
        nodes.push(LocalNode {
            name: node.name.to_owned(),
            peer_id: running.wait_for(|facts| facts.peer_id.clone()).await?,
            role: node.role.to_string(),
            subgroup: node.subgroup.map(str::to_owned),
            pid: running.pid,
            rest_api: (node.role == Role::Head).then(|| head.to_owned()),
            is_detached: false,
            is_added: false,
        });
    }
    Ok(nodes)
}

/// Waits until the services respond. Then gives the stack's key access to public datasets.
async fn wait_for_services(addresses: &Addresses, awaited: &Awaited) -> anyhow::Result<()> {
    let Addresses { datasets, inference, api_key, .. } = addresses;
    let [datasets, inference] = [datasets, inference].map(|url| url.as_deref().unwrap_or_default());
    awaited.set(format!("the services to respond at {datasets} and {inference}"));
    let datasets = Datasets::new(Transport::new(datasets, api_key.clone())?);
    let inference = Inference::new(Transport::new(inference, api_key.clone())?);
    let answers = wait::until(READY_WITHIN, || async {
        let report = |service: &str, error: &ClientError| {
            awaited.set(format!("the {service} service to respond: {}", chain(error)));
            error.to_string()
        };
        datasets.acquire_tag(PUBLIC_TAG).await.map_err(|error| report("dataset", &error))?;
        inference.health().await.map_err(|error| report("inference", &error))
    });
    answers.await.context("the services did not respond")
}

/// Returns the result of `work`. Fails if one of `processes` exits before that.
async fn or_first_exit(
    processes: &[Running],
    work: impl Future<Output = anyhow::Result<()>> + Send,
) -> anyhow::Result<()> {
    tokio::select! {
        done = work => done,
        error = wait_for_first_exit(processes) => Err(error),
    }
}

/// Waits for the first exit of any of `processes`. Returns an error with the name of the process
/// and its exit status.
async fn wait_for_first_exit(processes: &[Running]) -> anyhow::Error {
    let exits = processes.iter().map(|process| Box::pin(process.wait_for_exit()));
    let (exit, index, _) = select_all(exits).await;
    anyhow!("the {} exited ({})", processes[index].process, exit.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn slow_start_reports_the_pending_condition() {
        let awaited = Awaited::default();
        let reports = Mutex::new(Vec::new());
        let work = async {
            awaited.set("the head to listen");
            tokio::time::sleep(Duration::from_secs(15)).await;
            awaited.set("worker-2 to connect to the head");
            tokio::time::sleep(Duration::from_secs(10)).await;
        };
        let progress = |progress: Progress<'_>| reports.lock().push(format!("{progress:?}"));
        awaited.report_while(work, progress).await;
        let reports = reports.into_inner();
        assert_eq!(reports.len(), 2, "{reports:?}");
        assert!(reports[0].contains("10s") && reports[0].contains("the head"), "{reports:?}");
        assert!(reports[1].contains("20s") && reports[1].contains("worker-2"), "{reports:?}");
    }
}
