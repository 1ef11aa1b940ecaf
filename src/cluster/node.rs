//! A node: network, function store and role, joined and started.

mod dispatch;
mod offers;

use std::{
    collections::BTreeMap,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use content::{FUNCTION_PROTOCOL, Functions, FunctionsError, SourceOptions};
use model::node::{GENERAL_TOPIC, PeerId, Role, Subgroup};
use runtime::{options::COMPILE_WITHIN, run::Limits};
use task::{clock::Clock, group::Group};
use tokio::{net::TcpListener, time::timeout};
use tracing::{info, warn};
use web::{
    host_names::HostNames,
    serve::{BindError, bind, serve, serve_tls},
    tls::{Tls, TlsError, TlsFiles},
};

use self::dispatch::Dispatch;
use crate::{
    head::{
        ANSWER_WITHIN, Head, HeadOptions, NodeRegistry, RegistryError, SignaturePolicy,
        server::{self, RestOptions},
    },
    identity::Identity,
    message::{LINE_PROTOCOL, OFFER_PROTOCOL, WORK_PROTOCOL},
    metrics,
    network::{
        AllowedPeers, BootNode, Connectivity, Network, NetworkError, NetworkOptions, Protocols,
        PublishError,
    },
    node_context::NodeContext,
    peers::Peers,
    worker::{ExecutionOptions, StartError, Worker, WorkerOptions, answer_bytes_max},
};

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
    /// Whom else its network is connected to, how it is reached, and whom it heeds: a worker the
    /// heads it obeys, a head the workers it takes.
    pub connectivity: Connectivity,
    /// The groups it belongs to, beside the general one.
    pub subgroups: Vec<Subgroup>,
    /// The folder of its function store. No other node may use it.
    pub functions_dir: PathBuf,
    /// Where functions come from, beside that folder and peers.
    pub sources: SourceOptions,
    /// How many functions it runs at once. A head runs none, but says this number at start.
    pub concurrency: NonZeroU32,
    /// What each function may use.
    pub limits: Limits,
    /// How a worker runs functions.
    pub execution: ExecutionOptions,
    /// How it does what it does.
    pub work: WorkOptions,
}

/// How a node does what it does.
#[derive(Debug, Clone)]
pub struct WorkOptions {
    /// Who may use a head's REST API.
    pub rest: RestOptions,
    /// What secures a head's REST API; none for plain HTTP.
    pub rest_tls: Option<TlsFiles>,
    /// The address on which a worker serves its counts, at `/metrics`; none for nowhere. A head
    /// serves them on its REST API.
    pub metrics_api: Option<String>,
    /// Which results a head takes.
    pub signatures: SignaturePolicy,
    /// Whether a head gives work only to workers that the operator named or approved.
    pub requires_approval: bool,
    /// How long one worker has to answer a head's work order. Longer than workers let functions
    /// run, or their last words come too late.
    pub answer_within: Duration,
    /// How much longer a worker has that must compile the function first.
    pub compile_within: Duration,
    /// What a worker declares of itself: requests may ask for nodes that do.
    pub attributes: BTreeMap<String, String>,
    /// How long it waits for what runs when it stops.
    pub drain_within: Duration,
}

impl WorkOptions {
    /// The usual way: an open API, results signed or not, 20 s, nothing declared, and 22 s to end.
    pub fn usual() -> Self {
        Self {
            rest: RestOptions::default(),
            rest_tls: None,
            metrics_api: None,
            signatures: SignaturePolicy::WhereGiven,
            requires_approval: false,
            answer_within: ANSWER_WITHIN,
            compile_within: COMPILE_WITHIN,
            attributes: BTreeMap::new(),
            // The longest run of a function, and its answer.
            drain_within: Duration::from_secs(22),
        }
    }
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

/// What a node does: the head or the worker in it.
#[derive(Debug, Clone)]
enum NodeRole {
    Head(Head),
    Worker(Worker),
}

impl NodeRole {
    /// The role's name.
    const fn role(&self) -> Role {
        match self {
            Self::Head(_) => Role::Head,
            Self::Worker(_) => Role::Worker,
        }
    }

    /// The head, if it is one.
    const fn head(&self) -> Option<&Head> {
        match self {
            Self::Head(head) => Some(head),
            Self::Worker(_) => None,
        }
    }

    /// The worker, if it is one.
    const fn worker(&self) -> Option<&Worker> {
        match self {
            Self::Head(_) => None,
            Self::Worker(worker) => Some(worker),
        }
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
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
        /// Name of the topic.
        topic: String,
        /// The cause of the failure.
        source: PublishError,
    },
    /// Its REST API could not be served.
    #[error("serve the REST API")]
    Serve(#[from] BindError),
    /// The certificate of its REST API is of no use.
    #[error("secure the REST API")]
    Tls(#[from] TlsError),
    /// What its operator decided of nodes cannot be read.
    #[error("know what was decided of nodes")]
    Registry(#[from] RegistryError),
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
    role: NodeRole,
    /// Where a head's REST API, or a worker's counts, are served.
    api_address: Option<SocketAddr>,
    drain_within: Duration,
    /// The REST API's tasks.
    serving: Group,
    /// All other tasks.
    working: Group,
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
        let started = Self::start_parts(options, &serving, &working, clock).await;
        if started.is_err() {
            serving.stop();
            working.shutdown().await;
        }
        started
    }

    /// The node's id.
    pub fn peer_id(&self) -> &PeerId {
        self.network.peer_id()
    }

    /// Where its network listens: multiaddresses, each ending in its id, fit to be boot nodes.
    pub fn addresses(&self) -> Vec<String> {
        self.network.addresses()
    }

    /// Its function store.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Where a head's REST API, or a worker's counts, are served.
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.api_address
    }

    /// Replaces the set of peers that it heeds; a head that requires approval heeds those that were
    /// approved, too.
    pub async fn heed(&self, heeded: AllowedPeers) {
        match &self.role {
            NodeRole::Head(head) => head.configure(heeded).await,
            NodeRole::Worker(worker) => {
                self.network.heed(heeded).await;
                worker.heeds_others();
            }
        }
    }

    /// The head, if it is one.
    pub fn head(&self) -> Option<&Head> {
        self.role.head()
    }

    /// Stops the node: takes no more work, waits for what runs as long as configured, ends the rest and
    /// answers their requests, then closes everything.
    pub async fn shutdown(&self) {
        info!(component = "node", "node stopping");
        let is_done = match &self.role {
            NodeRole::Head(head) => head.drain(self.drain_within).await,
            NodeRole::Worker(worker) => worker.drain(self.drain_within).await,
        };
        if !is_done {
            warn!("ended executions that took longer than {} s", self.drain_within.as_secs());
        }
        self.serving.shutdown().await;
        if self.head().is_some() {
            info!("Node API stopped");
        }
        if timeout(Duration::from_secs(5), self.working.shutdown()).await.is_err() {
            warn!("stopped without waiting for all tasks");
        }
        info!(component = "node", "node stopped");
    }

    async fn start_parts(
        options: NodeOptions,
        serving: &Group,
        working: &Group,
        clock: Clock,
    ) -> Result<Self, NodeError> {
        let NodeOptions { role, identity, subgroups, boot_nodes, concurrency, limits, .. } =
            options;
        let (execution, work) = (options.execution, options.work);
        let n_boot_nodes = boot_nodes.len();
        let must_reach_boot_nodes = options.connectivity.must_reach_boot_nodes;
        let n_peers_max = options.connectivity.remembered_peers();
        let registry = registry(&role, &options.connectivity, &work)?;
        let functions = Functions::open_with(options.functions_dir, options.sources).await?;
        let network_options = NetworkOptions {
            identity: identity.clone(),
            address: options.address,
            port: options.port,
            boot_nodes,
            protocols: protocols(&role, work.requires_approval),
            connectivity: for_role(options.connectivity, &role, limits, &registry),
            clock: clock.clone(),
        };
        // Bound before the network starts, so that a taken address leaves nothing half started.
        let listener = bind_api(&role, &work).await?;
        let (network, events) = Network::start(working, network_options).await?;
        log_host(&network, n_boot_nodes, &role, &work);
        let context = NodeContext {
            network,
            functions,
            peers: Peers::new(clock.clone(), n_peers_max),
            identity,
            metrics: metrics::new(),
            clock,
            group: working.clone(),
        };
        let is_open = work.rest.token.is_none();
        let WorkOptions { rest, signatures, answer_within, attributes, drain_within, .. } = work;
        let compile_within = work.compile_within;
        let worker_options = WorkerOptions { concurrency, limits, execution, attributes };
        let node_role = match role {
            RoleOptions::Head { .. } => {
                let options = HeadOptions { signatures, answer_within, compile_within, registry };
                NodeRole::Head(Head::new(context.clone(), &subgroups, options))
            }
            RoleOptions::Worker => NodeRole::Worker(Worker::new(context.clone(), worker_options)?),
        };
        let role = count_node(&context, &node_role, &subgroups);
        let identified = Arc::new(offers::Identified::default());
        let dispatch = Dispatch::new(&node_role, &context, &identified, is_open);
        working.spawn("dispatch", dispatch.run(events));
        let api_address = listener
            .and_then(|(listener, tls)| serve_api(&node_role, listener, tls, rest, serving));
        info!(role, "node starting");
        join(&context.network, &subgroups, must_reach_boot_nodes).await?;
        let offers = offers::Offers::new(context.clone(), node_role.clone(), subgroups, identified);
        working.spawn("offers", offers.run());
        info!(component = "node", concurrency, "starting node main loop");
        Ok(Self {
            network: context.network,
            functions: context.functions,
            role: node_role,
            api_address,
            drain_within,
            serving: serving.clone(),
            working: working.clone(),
        })
    }
}

/// What the operator decided of nodes, as the head in this state remembers it.
fn registry(
    role: &RoleOptions,
    connectivity: &Connectivity,
    work: &WorkOptions,
) -> Result<NodeRegistry, NodeError> {
    Ok(match role {
        RoleOptions::Head { .. } => {
            NodeRegistry::open(connectivity.peer_db.as_deref(), work.requires_approval)?
        }
        RoleOptions::Worker => NodeRegistry::default(),
    })
}

/// Lets a head take answers as long as its limit of output allows, of the peers that may work.
fn for_role(
    mut connectivity: Connectivity,
    role: &RoleOptions,
    limits: Limits,
    registry: &NodeRegistry,
) -> Connectivity {
    connectivity.heeded = registry.configure(connectivity.heeded);
    if matches!(role, RoleOptions::Head { .. }) {
        let bytes_max = answer_bytes_max(limits.output_bytes);
        connectivity.answer_bytes_max = connectivity.answer_bytes_max.max(bytes_max);
    }
    connectivity
}

/// Binds the address of a head's REST API, or the one on which a worker serves its counts.
async fn bind_api(
    role: &RoleOptions,
    work: &WorkOptions,
) -> Result<Option<(TcpListener, Option<Tls>)>, NodeError> {
    Ok(match (role, &work.metrics_api) {
        (RoleOptions::Head { rest_api }, _) => {
            let tls = work.rest_tls.as_ref().map(Tls::read).transpose()?;
            Some((bind(rest_api).await?, tls))
        }
        (RoleOptions::Worker, Some(address)) => Some((bind(address).await?, None)),
        (RoleOptions::Worker, None) => None,
    })
}

/// What is spoken. Heads open lines to workers. To peers that are not heeded, content is open, which
/// its receiver checks, and to a worker what others hold; what a worker offers a head is work it would
/// be given. A head that requires approval shows its operator what those that wait for it declare.
const fn protocols(role: &RoleOptions, requires_approval: bool) -> Protocols {
    let (lines, open): (&[&str], &[&str]) = match role {
        RoleOptions::Head { .. } if requires_approval => {
            (&[], &[FUNCTION_PROTOCOL, OFFER_PROTOCOL])
        }
        RoleOptions::Head { .. } => (&[], &[FUNCTION_PROTOCOL]),
        RoleOptions::Worker => (&[LINE_PROTOCOL], &[FUNCTION_PROTOCOL, OFFER_PROTOCOL]),
    };
    let (messages, questions): (&[&str], &[&str]) =
        (&[WORK_PROTOCOL, OFFER_PROTOCOL], &[FUNCTION_PROTOCOL]);
    Protocols { messages, questions, lines, open }
}

/// Counts the node itself, and returns its role.
fn count_node(context: &NodeContext, node_role: &NodeRole, subgroups: &[Subgroup]) -> String {
    let role = node_role.role().to_string();
    let NodeContext { network, metrics, .. } = context;
    let labels = [network.peer_id().as_str(), env!("CARGO_PKG_VERSION"), &role];
    metrics.set(metrics::NODE_INFO, &labels, 1);
    metrics.add_n(metrics::TOPIC_SUBSCRIPTIONS, &[], topics(subgroups).len());
    role
}

fn log_host(network: &Network, n_boot_nodes: usize, role: &RoleOptions, work: &WorkOptions) {
    info!(
        id = network.peer_id().as_str(),
        addresses.json = json_text(&network.addresses()),
        boot_nodes = n_boot_nodes,
        dial_back_peers = network.n_remembered,
        "created host"
    );
    warn_of(network, role, work);
}

/// Serves a head's REST API or a worker's counts, and returns where.
fn serve_api(
    node_role: &NodeRole,
    listener: TcpListener,
    tls: Option<Tls>,
    rest: RestOptions,
    serving: &Group,
) -> Option<SocketAddr> {
    let address = listener.local_addr().ok();
    let router = match node_role {
        NodeRole::Head(head) => {
            log_rest_api(address, &rest);
            // A page whose name resolves to this address does not get past the certificate.
            let hosts = if tls.is_some() { HostNames::any() } else { rest.hosts.clone() };
            server::router(head.clone(), RestOptions { hosts, ..rest }, serving)
        }
        NodeRole::Worker(worker) => {
            let worker = worker.clone();
            server::metrics_router(move || worker.metrics_text(), &rest.hosts)
        }
    };
    match tls {
        Some(tls) => serve_tls(listener, tls, router, serving),
        None => serve(listener, router, serving),
    }
    address
}

/// Subscribes to the topics, and waits for a boot node if it must.
async fn join(
    network: &Network,
    subgroups: &[Subgroup],
    must_reach_boot_nodes: bool,
) -> Result<(), NodeError> {
    let topics = topics(subgroups);
    for topic in &topics {
        let failed = |source| NodeError::Subscribe { topic: topic.clone(), source };
        network.subscribe(topic).await.map_err(failed)?;
    }
    let listed = json_text(&topics);
    info!(component = "node", topics.json = listed, "topics node will subscribe to");
    if must_reach_boot_nodes {
        network.reach_boot_nodes(Duration::from_secs(5)).await?;
    }
    Ok(())
}

/// The topics of a node: its subgroups first, the general one last.
fn topics(subgroups: &[Subgroup]) -> Vec<String> {
    let own = subgroups.iter().map(Subgroup::to_string).filter(|name| name != GENERAL_TOPIC);
    own.chain([GENERAL_TOPIC.to_owned()]).collect()
}

fn log_rest_api(address: Option<SocketAddr>, rest: &RestOptions) {
    let Some(address) = address else { return };
    let port = format!(":{}", address.port());
    if !address.ip().is_unspecified() {
        return info!(port, %address, "Node API starting");
    }
    info!(port, "Node API starting");
    if rest.token.is_none() {
        warn!(
            port,
            "the REST API is open to everybody who reaches this machine: set --rest-token, or serve \
             it on 127.0.0.1 alone"
        );
    }
}

/// A list as the text of a JSON array, for a log field whose name ends in `.json`.
fn json_text(list: &[String]) -> String {
    serde_json::Value::from(list).to_string()
}

/// Warns if peers of other machines reach the node and it heeds all of them.
fn warn_of(network: &Network, role: &RoleOptions, work: &WorkOptions) {
    if network.heeds_everyone() && network.is_exposed() {
        for text in texts(role, work) {
            warn!("{text}");
        }
    }
}

/// What anybody can do, and what to do about it.
fn texts(role: &RoleOptions, work: &WorkOptions) -> Vec<String> {
    match role {
        RoleOptions::Worker => vec![
            "every peer that reaches this worker can run functions on it: name the heads to obey with \
             --obey PEER_ID, or listen on --address 127.0.0.1 alone"
                .to_owned(),
        ],
        RoleOptions::Head { .. } => {
            let signed = match work.signatures {
                SignaturePolicy::Required => "",
                SignaturePolicy::WhereGiven => ", and have results signed with --signed-results",
            };
            let joins = format!(
                "every peer that reaches this head can join as a worker and answer with results of \
                 its own making: name the workers to take with --accept PEER_ID, or approve them with \
                 --require-approval{signed}"
            );
            let executes = "every peer that reaches this head can have it execute functions: set \
                            --rest-token, and name clients on the network with --accept PEER_ID";
            let is_open = work.rest.token.is_none();
            [Some(joins), is_open.then(|| executes.to_owned())].into_iter().flatten().collect()
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod exposure_tests {
    use super::*;

    #[track_caller]
    fn check(role: &RoleOptions, work: &WorkOptions, want: &[&str]) {
        let texts = texts(role, work);
        assert_eq!(texts.len(), want.len(), "{texts:?}");
        for (text, want) in texts.iter().zip(want) {
            assert!(text.contains(want), "{text}");
        }
    }

    #[test]
    fn each_role_warns_of_what_strangers_can_do_to_it() {
        let head = RoleOptions::Head { rest_api: ":0".to_owned() };
        check(&RoleOptions::Worker, &WorkOptions::usual(), &["--obey"]);
        check(&head, &WorkOptions::usual(), &["--signed-results", "--rest-token"]);
        check(&head, &WorkOptions::usual(), &["--require-approval", "--rest-token"]);
        let mut closed =
            WorkOptions { signatures: SignaturePolicy::Required, ..WorkOptions::usual() };
        closed.rest.token = Some("a-token-of-many-letters".parse().unwrap());
        check(&head, &closed, &["--accept"]);
    }
}
