//! A node: network, function store and role, joined and started.

mod dispatch;
mod offers;

use std::{
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use model::node::{GENERAL_TOPIC, PeerId, Role, Subgroup};
use runtime::run::Limits;
use task::{clock::Clock, group::Group};
use tokio::{sync::Notify, time::timeout};
use tracing::{info, warn};
use web::serve::{BindError, bind, serve};

use self::dispatch::Dispatch;
use crate::{
    functions::{Functions, FunctionsError},
    head::{Head, server},
    identity::Identity,
    message::{FUNCTION_PROTOCOL, OFFER_PROTOCOL, WORK_PROTOCOL},
    network::{BootNode, Network, NetworkError, NetworkOptions, PublishError},
    peers::Peers,
    worker::{StartError, Worker, WorkerOptions},
};

/// How long a stopping node waits for what runs: the longest run of a function, and its answer.
const DRAIN_WITHIN: Duration = Duration::from_secs(22);

/// How long the connections of a stopped node may take to end.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

/// How a node is started.
#[derive(Debug)]
pub struct NodeOptions {
    /// What it does.
    pub role: RoleOptions,
    /// Who it is.
    pub identity: Identity,
    /// The address its network listens on; unspecified for every interface.
    pub address: IpAddr,
    /// The TCP port of its network; 0 for a free one.
    pub port: u16,
    /// The nodes to stay connected to.
    pub boot_nodes: Vec<BootNode>,
    /// The groups it belongs to, beside the general one.
    pub subgroups: Vec<Subgroup>,
    /// The folder of its function store. No other node may use it.
    pub functions_dir: PathBuf,
    /// How many functions it runs at once. A head runs none, but says this number at start.
    pub concurrency: NonZeroU32,
    /// What each function may use.
    pub limits: Limits,
}

/// What a node does, and what that needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleOptions {
    /// It serves the REST API and hands out work.
    Head {
        /// The address of the REST API: `:8080`, `127.0.0.1:0`.
        rest_api: String,
    },
    /// It runs functions.
    Worker,
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum NodeError {
    /// Its function store could not be opened.
    #[error("open the function store")]
    Functions(#[from] FunctionsError),
    /// Its network could not be started.
    #[error("start the network")]
    Network(#[from] NetworkError),
    /// A topic could not be subscribed to.
    #[error("subscribe to topic {topic}")]
    Subscribe {
        /// Which one.
        topic: String,
        /// Why not.
        #[source]
        source: PublishError,
    },
    /// Its REST API could not be served.
    #[error("serve the REST API")]
    Serve(#[from] BindError),
    /// It cannot run functions.
    #[error("start the worker")]
    Worker(#[from] StartError),
}

/// A node that runs. Its tasks belong to the group it was started in; dropping the handle does not
/// stop them.
#[derive(Debug)]
pub struct Node {
    network: Network,
    functions: Functions,
    duty: Duty,
    rest_address: Option<SocketAddr>,
    /// The REST API's tasks.
    serving: Group,
    /// All other tasks.
    working: Group,
}

/// What a node does.
#[derive(Debug, Clone)]
enum Duty {
    Head(Head),
    Worker(Worker),
}

impl Node {
    /// Starts a node with its tasks in child groups of `group`.
    ///
    /// # Errors
    /// [`NodeError`] if any part of it does not start; those that did are stopped again.
    pub async fn start(
        options: NodeOptions,
        group: &Group,
        clock: Clock,
    ) -> Result<Self, NodeError> {
        let (serving, working) = (group.child(), group.child());
        let started = Self::started(options, (serving.clone(), working.clone()), clock).await;
        if started.is_err() {
            serving.stop();
            working.shutdown().await;
        }
        started
    }

    /// The node's id.
    #[must_use]
    pub fn peer_id(&self) -> &PeerId {
        self.network.peer_id()
    }

    /// Where its network listens: multiaddresses, each ending in its id, fit to be boot nodes.
    #[must_use]
    pub fn addresses(&self) -> Vec<String> {
        self.network.addresses()
    }

    /// Where its REST API is served, if it is a head.
    #[must_use]
    pub fn rest_address(&self) -> Option<SocketAddr> {
        self.rest_address
    }

    /// Its function store.
    #[must_use]
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// The head, if it is one.
    #[must_use]
    pub fn head(&self) -> Option<&Head> {
        match &self.duty {
            Duty::Head(head) => Some(head),
            Duty::Worker(_) => None,
        }
    }

    /// Stops the node: takes no more work, waits up to 22 s for what runs, then closes everything.
    pub async fn shutdown(&self) {
        info!(component = "node", "node stopping");
        let is_done = match &self.duty {
            Duty::Head(head) => head.drain(DRAIN_WITHIN).await,
            Duty::Worker(worker) => worker.drain(DRAIN_WITHIN).await,
        };
        if !is_done {
            warn!("stopped executions that did not end in {} s", DRAIN_WITHIN.as_secs());
        }
        self.serving.shutdown().await;
        if timeout(CLOSE_WITHIN, self.working.shutdown()).await.is_err() {
            warn!("stopped without waiting for all tasks");
        }
        info!(component = "node", "node stopped");
    }

    async fn started(
        options: NodeOptions,
        (serving, working): (Group, Group),
        clock: Clock,
    ) -> Result<Self, NodeError> {
        let NodeOptions { role, identity, subgroups, boot_nodes, concurrency, limits, .. } =
            options;
        let sizes = WorkerOptions { concurrency, limits };
        let n_boot_nodes = boot_nodes.len();
        let functions = Functions::open(options.functions_dir).await?;
        let network_options = NetworkOptions {
            identity,
            address: options.address,
            port: options.port,
            boot_nodes,
            told: &[WORK_PROTOCOL, OFFER_PROTOCOL],
            asked: &[FUNCTION_PROTOCOL],
        };
        // Bound before the network starts, so that a taken address leaves nothing half started.
        let listener = match &role {
            RoleOptions::Head { rest_api } => Some(bind(rest_api).await?),
            RoleOptions::Worker => None,
        };
        let (network, events) = Network::start(&working, network_options).await?;
        info!(
            id = network.peer_id().as_str(),
            addresses.json = json_text(&network.addresses()),
            boot_nodes = n_boot_nodes,
            dial_back_peers = 0,
            "created host"
        );
        let peers = Peers::new(clock.clone());
        let (n, f, p) = (network.clone(), functions.clone(), peers.clone());
        let duty = match role {
            RoleOptions::Head { .. } => Duty::Head(Head::new(n, f, p, subgroups.clone(), clock)),
            RoleOptions::Worker => Duty::Worker(Worker::new(n, f, p, sizes)?),
        };
        let identified = Arc::new(Notify::new());
        let dispatch = Dispatch::new(&duty, &functions, &peers, &identified, &working);
        working.spawn("dispatch", dispatch.run(events));
        let rest_address = match (&duty, listener) {
            (Duty::Head(head), Some(listener)) => {
                let address = listener.local_addr().ok();
                serve(listener, server::router(head.clone()), &serving);
                log_rest_api(address);
                address
            }
            _ => None,
        };
        info!(role = duty.role().to_string(), "node starting");
        subscribe(&network, &subgroups).await?;
        let offers = offers::Offers {
            network: network.clone(),
            functions: functions.clone(),
            peers,
            duty: duty.clone(),
            subgroups,
            identified,
        };
        working.spawn("offers", offers.run());
        info!(component = "node", concurrency, "starting node main loop");
        Ok(Self { network, functions, duty, rest_address, serving, working })
    }
}

impl Duty {
    const fn role(&self) -> Role {
        match self {
            Self::Head(_) => Role::Head,
            Self::Worker(_) => Role::Worker,
        }
    }
}

async fn subscribe(network: &Network, subgroups: &[Subgroup]) -> Result<(), NodeError> {
    let topics = topics(subgroups);
    for topic in &topics {
        let failed = |source| NodeError::Subscribe { topic: topic.clone(), source };
        network.subscribe(topic).await.map_err(failed)?;
    }
    let listed = json_text(&topics);
    info!(component = "node", topics.json = listed, "topics node will subscribe to");
    Ok(())
}

/// The topics of a node: its subgroups first, the general one last.
fn topics(subgroups: &[Subgroup]) -> Vec<String> {
    let own = subgroups.iter().map(Subgroup::to_string).filter(|name| name != GENERAL_TOPIC);
    own.chain([GENERAL_TOPIC.to_owned()]).collect()
}

fn log_rest_api(address: Option<SocketAddr>) {
    let Some(address) = address else { return };
    let port = format!(":{}", address.port());
    if address.ip().is_unspecified() {
        info!(port, "Node API starting");
    } else {
        info!(port, %address, "Node API starting");
    }
}

/// A list as the text of a JSON array, for a log field whose name ends in `.json`.
fn json_text(list: &[String]) -> String {
    serde_json::Value::from(list).to_string()
}

#[cfg(test)]
mod tests;
