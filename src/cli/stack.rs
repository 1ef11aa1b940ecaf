//! The local stack: a head, three workers, the dataset and the inference service, as processes of
//! this same program, on loopback, with state in one folder.

pub(crate) mod child;
pub(crate) mod members;
pub(crate) mod record;
pub(crate) mod supervise;

use std::{env, fs, path::PathBuf, time::Duration};

use anyhow::{Context as _, anyhow};
use client::{
    datasets::Datasets, error::ClientError, functions::Functions, inference::Inference,
    transport::Transport,
};
use cluster::identity::Identity;
use content::Functions as HeldFunctions;
use futures::future::select_all;
use model::{dataset::PUBLIC_TAG, key::ApiKey, node::Role};
use parking_lot::Mutex;
use serde::Serialize;
use task::{causes::chain, clock::Clock, group::Group, wait};
use tokio::{
    sync::mpsc,
    time::{Instant, interval_at},
};
use tracing::Level;

use crate::cli::{
    config::{self, KEY_VARIABLE},
    demo,
    place::{Claim, Place},
    stack::{
        child::{Line, Running, Start},
        members::Members,
    },
};

/// The name of a stack's key among the accounts. Each start gives the key a new secret, since only
/// hashes are kept; what the key owns it keeps.
const KEY_NAME: &str = "local stack";

/// The name of a node's private key in its folder.
pub(crate) const KEY_FILE: &str = "key";

/// The name of the folder of a node's functions in its folder, where `--db` puts it.
const FUNCTIONS_FOLDER: &str = "functions";

/// The flag with which a service does not limit callers on this machine: here there are no others.
const UNLIMITED: &str = "--unlimited-loopback";

/// The longest wait for the stack to answer. A first start on a loaded machine takes a few seconds.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// How often it is said what a stack that is starting waits for. Most start within a few seconds.
const DELAY_REPORT_EVERY: Duration = Duration::from_secs(10);

/// The nodes of the stack: name, role, subgroup.
const NODES: [(&str, Role, Option<&str>); 4] = [
    ("head", Role::Head, None),
    ("worker-1", Role::Worker, None),
    ("worker-2", Role::Worker, Some("gpu")),
    ("worker-3", Role::Worker, Some("gpu")),
];

/// How to start a stack.
#[derive(Debug)]
pub(crate) struct StackOptions {
    /// The folder it has for itself.
    pub(crate) claim: Claim,
    /// Where it answers.
    pub(crate) ports: Ports,
    /// From which level on its processes log.
    pub(crate) log_level: Level,
}

/// Ports on loopback, 0 for any free one.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ports {
    /// The head's REST API.
    pub(crate) head: u16,
    /// The dataset service.
    pub(crate) datasets: u16,
    /// The inference service.
    pub(crate) inference: u16,
}

/// A stack that answers.
#[derive(Debug)]
pub(crate) struct Ready {
    /// The head's base address.
    pub(crate) head: String,
    /// The dataset service's base address, ending in `/api`.
    pub(crate) datasets: String,
    /// The inference service's base address.
    pub(crate) inference: String,
    /// A key for both services.
    pub(crate) api_key: ApiKey,
    /// The nodes.
    pub(crate) nodes: Vec<NodeInfo>,
    /// The functions the head holds.
    pub(crate) functions: Vec<FunctionInfo>,
    /// Every process.
    pub(crate) processes: Vec<Running>,
}

/// A node of the stack.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct NodeInfo {
    /// What people call it.
    #[serde(skip)]
    pub(crate) name: &'static str,
    /// Its id.
    pub(crate) peer_id: String,
    /// `head` or `worker`.
    pub(crate) role: String,
    /// Its subgroup, if it has one.
    pub(crate) subgroup: Option<String>,
    /// Its process id.
    pub(crate) pid: u32,
}

/// A function that the stack's head holds.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct FunctionInfo {
    /// What people call it.
    pub(crate) name: String,
    /// Its content id.
    pub(crate) function_id: String,
    /// The file to run.
    pub(crate) method: String,
}

/// How far the start of a stack is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress<'a> {
    /// These parts are being started.
    Starting(&'a str),
    /// It takes longer than usual.
    Delayed {
        /// The time since the start.
        since: Duration,
        /// What has not happened yet.
        awaited: &'a str,
    },
}

/// What a start waits for, in words for people.
#[derive(Debug, Default)]
struct Awaited(Mutex<String>);

impl Awaited {
    fn set(&self, what: impl Into<String>) {
        *self.0.lock() = what.into();
    }

    /// Waits for `work`, and reports what it waits for every [`DELAY_REPORT_EVERY`].
    async fn reported<T>(
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

/// What starting a stack needs at every step.
struct Starter<'a> {
    program: PathBuf,
    options: &'a StackOptions,
    group: &'a Group,
    lines: mpsc::Sender<Line>,
    awaited: &'a Awaited,
}

/// Starts a stack whose processes end with `group`, and waits until all of it answers.
///
/// `lines` gets what the processes log, `progress` what is being started and what is waited for.
///
/// # Errors
/// If a process cannot be started or ends, or the stack does not answer within a minute.
pub(crate) async fn start(
    options: &StackOptions,
    group: &Group,
    lines: mpsc::Sender<Line>,
    progress: impl Fn(Progress<'_>) + Sync,
) -> anyhow::Result<Ready> {
    let program = env::current_exe().context("find this program's own file")?;
    let folder = options.claim.place.folder();
    record::remove(folder);
    let awaited = Awaited::default();
    let starter = Starter { program, options, group, lines, awaited: &awaited };
    let ready = awaited.reported(starter.run(&progress), &progress).await?;
    record::write(folder, &ready)?;
    Ok(ready)
}
impl Starter<'_> {
    /// Starts all parts, each once those it needs answer.
    async fn run(&self, progress: &(impl Fn(Progress<'_>) + Sync)) -> anyhow::Result<Ready> {
        let (place, awaited) = (&self.options.claim.place, self.awaited);
        progress(Progress::Starting("head and dataset service"));
        awaited.set(format!("the accounts in {}", place.folder().display()));
        let api_key = new_key(place).await?;
        prepare_nodes(place).await?;
        let members = Members::of(place);
        let datasets = self.datasets()?;
        let head = self.node(NODES[0], &members, None)?;
        awaited.set("the head to listen");
        let boot_node = head.told(|facts| facts.multiaddresses.first().cloned()).await?;
        progress(Progress::Starting("workers"));
        let mut nodes = vec![head.clone()];
        for node in NODES.into_iter().skip(1) {
            nodes.push(self.node(node, &members, Some(&boot_node))?);
        }
        let base = |address: String| format!("http://{address}");
        let head_url = base(head.told(|facts| facts.address.clone()).await?);
        awaited.set("the dataset service to listen");
        let datasets_url = base(datasets.told(|facts| facts.address.clone()).await?) + "/api";
        awaited.set("the workers to listen");
        let infos = node_infos(&nodes).await?;
        // The first epoch opens with the inference service and asks the workers at once.
        let mut processes: Vec<Running> = nodes.into_iter().chain([datasets]).collect();
        or_first_end(&processes, cluster_answers(&head_url, &infos, awaited)).await?;
        progress(Progress::Starting("inference service"));
        let inference = self.inference(&head_url, &datasets_url, &api_key)?;
        awaited.set("the inference service to listen");
        let inference_url = base(inference.told(|facts| facts.address.clone()).await?);
        processes.push(inference);
        let services = (datasets_url.as_str(), inference_url.as_str());
        or_first_end(&processes, services_answer(services, &api_key, awaited)).await?;
        Ok(Ready {
            head: head_url,
            datasets: datasets_url,
            inference: inference_url,
            api_key,
            nodes: infos,
            functions: functions(),
            processes,
        })
    }

    fn start(
        &self,
        process: &'static str,
        arguments: Vec<String>,
        environment: Vec<(&'static str, String)>,
    ) -> anyhow::Result<Running> {
        let level = self.options.log_level.to_string().to_ascii_lowercase();
        let arguments = arguments.into_iter().chain(["--log-level".to_owned(), level]).collect();
        let program = self.program.clone();
        Start {
            process: process.into(),
            program,
            arguments,
            environment,
            log: None,
            is_kept: false,
        }
        .run(self.group, &self.lines)
    }

    fn node(
        &self,
        (name, role, subgroup): (&'static str, Role, Option<&'static str>),
        members: &Members,
        boot_node: Option<&str>,
    ) -> anyhow::Result<Running> {
        let folder = self.options.claim.place.node(name);
        let path = |leaf: &str| folder.join(leaf).display().to_string();
        let mut arguments = words(&["node", "--role", &role.to_string(), "--address", "127.0.0.1"]);
        arguments.extend(words(&["--port", "0"]));
        arguments.extend(words(&["--private-key", &path(KEY_FILE)]));
        // Ports change from start to start: those of last time reach nobody.
        arguments.extend(words(&["--db", &folder.display().to_string(), "--no-dialback-peers"]));
        arguments.extend(members.arguments(role, &[]));
        if let Some(boot_node) = boot_node {
            arguments.extend(words(&["--boot-nodes", boot_node]));
        }
        if let Some(subgroup) = subgroup {
            arguments.extend(words(&["--topic", subgroup]));
        }
        if role == Role::Head {
            let rest_api = format!("127.0.0.1:{}", self.options.ports.head);
            arguments.extend(words(&["--rest-api", &rest_api]));
        }
        self.start(name, arguments, Vec::new())
    }

    fn datasets(&self) -> anyhow::Result<Running> {
        let listen = format!("127.0.0.1:{}", self.options.ports.datasets);
        let folder = self.options.claim.place.folder().display().to_string();
        let mut arguments =
            words(&["datasets", "serve", "--listen", &listen, "--data-dir", &folder, "--demo"]);
        arguments.extend(words(&[UNLIMITED]));
        self.start("datasets", arguments, Vec::new())
    }

    fn inference(&self, head: &str, datasets: &str, key: &ApiKey) -> anyhow::Result<Running> {
        let listen = format!("127.0.0.1:{}", self.options.ports.inference);
        let folder = self.options.claim.place.folder().display().to_string();
        let mut arguments =
            words(&["inference", "serve", "--listen", &listen, "--data-dir", &folder, "--demo"]);
        arguments.extend(words(&["--head", head, "--datasets", datasets, UNLIMITED]));
        self.start("inference", arguments, vec![(KEY_VARIABLE, key.reveal().to_owned())])
    }
}

/// What the nodes say of themselves, once each does.
async fn node_infos(nodes: &[Running]) -> anyhow::Result<Vec<NodeInfo>> {
    let mut infos = Vec::new();
    for (running, (name, role, subgroup)) in nodes.iter().zip(NODES) {
        infos.push(NodeInfo {
            name,
            peer_id: running.told(|facts| facts.peer_id.clone()).await?,
            role: role.to_string(),
            subgroup: subgroup.map(str::to_owned),
            pid: running.pid,
        });
    }
    Ok(infos)
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Returns the key of the stack, with the secret of this start.
async fn new_key(place: &Place) -> anyhow::Result<ApiKey> {
    let accounts = place.accounts(Clock::system()).await?;
    let (_id, key) = accounts.renew_key(KEY_NAME).await.context("make the stack's key")?;
    Ok(key)
}

/// Gives every node its identity, which it keeps from start to start, and the head its functions. The
/// nodes are members of the stack from here on.
async fn prepare_nodes(place: &Place) -> anyhow::Result<()> {
    let members = Members::of(place);
    for (name, role, _) in NODES {
        let folder = place.node(name);
        fs::create_dir_all(&folder).with_context(|| format!("make {}", folder.display()))?;
        let identity = Identity::load_or_create(&folder.join(KEY_FILE));
        let identity = identity.context("prepare a node's identity")?;
        members.add(role, identity.peer_id())?;
    }
    let folder = place.node(NODES[0].0).join(FUNCTIONS_FOLDER);
    let held = HeldFunctions::open(folder).await.context("open the head's functions")?;
    for function in demo::FUNCTIONS {
        held.add(function.method.parse()?, function.module).await.context("add a demo function")?;
    }
    Ok(())
}

fn functions() -> Vec<FunctionInfo> {
    demo::FUNCTIONS
        .iter()
        .map(|function| FunctionInfo {
            name: function.name.to_owned(),
            function_id: function.id().to_string(),
            method: function.method.to_owned(),
        })
        .collect()
}

/// Waits until the head answers and is connected to every one of `nodes`.
async fn cluster_answers(head: &str, nodes: &[NodeInfo], awaited: &Awaited) -> anyhow::Result<()> {
    awaited.set(format!("the head to answer at {head}"));
    // The head has the token that the environment gives it.
    let head = Transport::new(head, None)?.with_token(config::head_token()?);
    let head = Functions::new(head);
    let answers = wait::until(READY_WITHIN, || async {
        let known = head.nodes().await.map_err(|error| {
            awaited.set(format!("the head to answer: cannot {}", chain(&error)));
            error.to_string()
        })?;
        let is_missing = |wanted: &&NodeInfo| {
            !known.iter().any(|node| node.connected && node.peer_id == wanted.peer_id)
        };
        match nodes.iter().find(is_missing) {
            Some(missing) => {
                awaited.set(format!("{} to connect to the head", missing.name));
                Err(format!("{} is not connected to the head", missing.name))
            }
            None => Ok(()),
        }
    });
    answers.await.context("bring the cluster together")
}

/// Waits until the services answer, and lets the key of this start see what is public.
async fn services_answer(
    addresses: (&str, &str),
    key: &ApiKey,
    awaited: &Awaited,
) -> anyhow::Result<()> {
    let (datasets, inference) = addresses;
    awaited.set(format!("the services to answer at {datasets} and {inference}"));
    let datasets = Datasets::new(Transport::new(datasets, Some(key.clone()))?);
    let inference = Inference::new(Transport::new(inference, Some(key.clone()))?);
    let answers = wait::until(READY_WITHIN, || async {
        let report = |service: &str, error: &ClientError| {
            awaited.set(format!("the {service} service to answer: cannot {}", chain(error)));
            error.to_string()
        };
        datasets.acquire_tag(PUBLIC_TAG).await.map_err(|error| report("dataset", &error))?;
        inference.health().await.map_err(|error| report("inference", &error))
    });
    answers.await.context("reach the services")
}

/// Waits for `work`, but not past the end of one of `processes`.
async fn or_first_end(
    processes: &[Running],
    work: impl Future<Output = anyhow::Result<()>> + Send,
) -> anyhow::Result<()> {
    tokio::select! {
        done = work => done,
        error = first_end(processes) => Err(error),
    }
}

/// Waits until one of `processes` ends, and tells which and how.
async fn first_end(processes: &[Running]) -> anyhow::Error {
    let ends = processes.iter().map(|process| Box::pin(process.ended()));
    let (ended, index, _) = select_all(ends).await;
    anyhow!("keep the local stack up: the {} ended ({})", processes[index].process, ended.text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_start_that_takes_long_says_what_it_waits_for() {
        let awaited = Awaited::default();
        let said = Mutex::new(Vec::new());
        let work = async {
            awaited.set("the head to listen");
            tokio::time::sleep(Duration::from_secs(15)).await;
            awaited.set("worker-2 to connect to the head");
            tokio::time::sleep(Duration::from_secs(10)).await;
        };
        let progress = |progress: Progress<'_>| said.lock().push(format!("{progress:?}"));
        awaited.reported(work, progress).await;
        let said = said.into_inner();
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].contains("10s") && said[0].contains("the head to listen"), "{said:?}");
        assert!(said[1].contains("20s") && said[1].contains("worker-2"), "{said:?}");
    }
}
