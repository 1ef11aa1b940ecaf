//! A node: combines the network, the function store and a role.

mod dispatch;
mod offers;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use content::{FUNCTION_PROTOCOL, Functions, FunctionsError, SourceOptions};
use model::node::{GENERAL_TOPIC, PeerId, Role, Subgroup};
use runtime::options::COMPILE_WITHIN;
use runtime::run::Limits;
use task::clock::Clock;
use task::group::Group;
use tokio::net::TcpListener;
use tokio::time::timeout;
use tracing::{info, warn};
use web::host_names::HostNames;
use web::serve::{BindError, bind, serve, serve_tls};
use web::tls::{Tls, TlsError, TlsFiles};

use self::dispatch::Dispatch;
use self::offers::Offers;
use crate::head::server::{self, RestOptions};
use crate::head::{Head, NodeRegistry, RESPONSE_WITHIN, RegistryError, SignaturePolicy};
use crate::identity::Identity;
use crate::message::{LINE_PROTOCOL, OFFER_PROTOCOL, WORK_PROTOCOL};
use crate::network::{
    AllowedPeers, BootNode, Connectivity, Network, NetworkError, NetworkOptions, Protocols,
    PublishError,
};
use crate::peers::Peers;
use crate::worker::{ExecutionOptions, Worker, WorkerError, answer_bytes_max};
use crate::{NodeContext, metrics};

/// Options of a node.
#[derive(Debug)]
pub struct NodeOptions {
    /// Role of the node, with its options.
    pub role: RoleOptions,
    /// Key that identifies the node.
    pub identity: Identity,
    /// Address of the node's network; the unspecified address for every interface.
    pub address: IpAddr,
    /// TCP port of the node's network; 0 for any free port.
    pub port: u16,
    /// Nodes to stay connected to.
    pub boot_nodes: Vec<BootNode>,
    /// Options for other connections, and the allowed peers: the heads that a worker obeys, or the
    /// workers that a head accepts.
    pub connectivity: Connectivity,
    /// Subgroups of the node.
    pub subgroups: Vec<Subgroup>,
    /// Directory of the node's function store. No other node may use it.
    pub functions_dir: PathBuf,
    /// Sources of functions in addition to the function store and peers.
    pub sources: SourceOptions,
    /// Number of functions that the node runs simultaneously. A head runs no functions but logs this
    /// number.
    pub concurrency: NonZeroU32,
    /// Limits of each function.
    pub limits: Limits,
    /// Ways in which a worker runs functions.
    pub execution: ExecutionOptions,
    /// Options of the node's role.
    pub work: WorkOptions,
}

/// Options of a role.
#[derive(Debug, Clone)]
pub struct WorkOptions {
    /// Access to a head's REST API.
    pub rest: RestOptions,
    /// Certificate of a head's REST API; `None` for plain HTTP.
    pub rest_tls: Option<TlsFiles>,
    /// Address of a worker's metrics endpoint; `None` disables it. A head serves metrics in its REST
    /// API.
    pub metrics_api: Option<String>,
    /// A head's policy for signatures of results.
    pub signatures: SignaturePolicy,
    /// True if a head gives work only to workers that the operator named or approved.
    pub requires_approval: bool,
    /// Time limit for one worker to respond to a head's work order. It is longer than the time for which
    /// workers let functions run, so that their last output arrives.
    pub response_within: Duration,
    /// Additional time for a worker that must first compile the function.
    pub compile_within: Duration,
    /// Attributes that a worker declares.
    pub attributes: BTreeMap<String, String>,
    /// Time for work in progress to complete when the node stops.
    pub drain_within: Duration,
}

impl WorkOptions {
    /// Returns the defaults: an open API, optional signatures, 20 s per worker, no attributes and 22 s
    /// to stop.
    pub fn usual() -> Self {
        Self {
            rest: RestOptions::default(),
            rest_tls: None,
            metrics_api: None,
            signatures: SignaturePolicy::WhereGiven,
            requires_approval: false,
            response_within: RESPONSE_WITHIN,
            compile_within: COMPILE_WITHIN,
            attributes: BTreeMap::new(),
            // Enough for the longest run of a function and for sending its response.
            drain_within: Duration::from_secs(22),
        }
    }
}

/// Role of a node, with its options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RoleOptions {
    /// Serves the REST API and gives out work.
    Head {
        /// Address of the REST API, such as `:8080` or `127.0.0.1:0`.
        rest_api: String,
    },
    /// The node executes functions for heads.
    Worker,
}

/// The head or worker of a node.
#[derive(Debug, Clone)]
enum NodeRole {
    Head(Head),
    Worker(Worker),
}

impl NodeRole {
    /// Returns the name of the role.
    const fn role(&self) -> Role {
        match self {
            Self::Head(_) => Role::Head,
            Self::Worker(_) => Role::Worker,
        }
    }

    /// Returns the head, if this node is one.
    const fn head(&self) -> Option<&Head> {
        match self {
            Self::Head(head) => Some(head),
            Self::Worker(_) => None,
        }
    }

    /// Returns the worker, if this node is one.
    const fn worker(&self) -> Option<&Worker> {
        match self {
            Self::Head(_) => None,
            Self::Worker(worker) => Some(worker),
        }
    }
}

/// Reason why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The function store could not be opened.
    #[error("cannot open the function store")]
    Functions(#[from] FunctionsError),
    /// The network could not be started.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// A topic could not be subscribed to.
    #[error("cannot subscribe to topic {topic}")]
    Subscribe {
        /// Name of the topic.
        topic: String,
        /// Error of the subscription.
        source: PublishError,
    },
    /// A head's REST API or a worker's metrics could not be served.
    #[error("cannot serve the {what}")]
    Serve {
        /// Name of the endpoint.
        what: &'static str,
        /// Reason why the address cannot be used.
        source: BindError,
    },
    /// The certificate of the REST API is not usable.
    #[error("cannot set up TLS for the REST API")]
    Tls(#[from] TlsError),
    /// The operator's decisions about nodes cannot be read.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// A worker has no usable runtime.
    #[error(transparent)]
    Worker(#[from] WorkerError),
}

/// A running node. Its tasks belong to the group that it was started in, and continue when the handle is
/// dropped.
#[derive(Debug)]
pub struct Node {
    network: Network,
    functions: Functions,
    role: NodeRole,
    /// Address of a head's REST API, or of a worker's metrics endpoint.
    api_address: Option<SocketAddr>,
    drain_within: Duration,
    /// Tasks of the REST API.
    serving: Group,
    /// All other tasks.
    working: Group,
}

impl Node {
    /// Starts a node with its tasks in child groups of `group`.
    ///
    /// # Errors
    /// Returns [`NodeError`] if any part does not start. The parts that were already started are stopped
    /// again.
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

    /// Returns the id of the node.
    pub fn peer_id(&self) -> &PeerId {
        self.network.peer_id()
    }

    /// Returns the addresses of the node's network: multiaddresses that end in the node's id, as
    /// addresses of boot nodes do.
    pub fn addresses(&self) -> Vec<String> {
        self.network.addresses()
    }

    /// Returns the node's function store.
    pub fn functions(&self) -> &Functions {
        &self.functions
    }

    /// Returns the address of a head's REST API, or of a worker's metrics endpoint.
    pub fn api_address(&self) -> Option<SocketAddr> {
        self.api_address
    }

    /// Replaces the set of allowed peers. A head that requires approval also allows approved peers.
    pub fn set_allowed(&self, allowed: AllowedPeers) {
        match &self.role {
            NodeRole::Head(head) => head.configure(allowed),
            NodeRole::Worker(worker) => {
                self.network.set_allowed(allowed);
                worker.note_allowed_changed();
            }
        }
    }

    /// Returns the head, if this node is one.
    pub fn head(&self) -> Option<&Head> {
        self.role.head()
    }

    /// Stops the node: rejects new work, waits for work in progress, cancels the rest and sends the
    /// responses to the canceled requests, then closes everything.
    pub async fn shutdown(&self) {
        info!(component = "node", "node stopping");
        let is_done = match &self.role {
            NodeRole::Head(head) => head.drain(self.drain_within).await,
            NodeRole::Worker(worker) => worker.drain(self.drain_within).await,
        };
        if !is_done {
            warn!("canceled executions that took longer than {} s", self.drain_within.as_secs());
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
        // Bound before the network starts, so that no task is left running if binding fails.
        let listener = bind_api(&role, &work).await?;
        let (network, events) = Network::start(working, network_options).await?;
        log_host(&network, n_boot_nodes);
        warn_of(&network, &role, &work);
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
        let node_role = match role {
            RoleOptions::Head { .. } => {
                let WorkOptions { signatures, response_within, compile_within, .. } = work;
                NodeRole::Head(Head::new(
                    context.clone(),
                    &subgroups,
                    signatures,
                    response_within,
                    compile_within,
                    registry,
                ))
            }
            RoleOptions::Worker => {
                let (context, attributes) = (context.clone(), work.attributes);
                let worker = Worker::new(context, concurrency, limits, execution, attributes)?;
                NodeRole::Worker(worker)
            }
        };
        let role = count_node(&context, &node_role, &subgroups);
        let offers = Offers::new(context.clone(), node_role.clone(), subgroups.clone());
        let dispatch = Dispatch::new(&node_role, &context, Arc::clone(&offers), is_open);
        working.spawn("dispatch", dispatch.run(events));
        let api_address = listener
            .and_then(|(listener, tls)| serve_api(&node_role, listener, tls, work.rest, serving));
        info!(role, "node starting");
        subscribe(&context.network, &subgroups).await?;
        working.spawn("offers", offers.run());
        info!(component = "node", concurrency, "starting node main loop");
        Ok(Self {
            network: context.network,
            functions: context.functions,
            role: node_role,
            api_address,
            drain_within: work.drain_within,
            serving: serving.clone(),
            working: working.clone(),
        })
    }
}

/// Returns the stored decisions of the operator, which only a head has.
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

/// Adapts the options to the role: a head accepts responses that fit its limit of output, and only from
/// peers that are allowed to work.
fn for_role(
    mut connectivity: Connectivity,
    role: &RoleOptions,
    limits: Limits,
    registry: &NodeRegistry,
) -> Connectivity {
    connectivity.allowed = registry.configure(connectivity.allowed);
    if matches!(role, RoleOptions::Head { .. }) {
        let bytes_max = answer_bytes_max(limits.output_bytes);
        connectivity.answer_bytes_max = connectivity.answer_bytes_max.max(bytes_max);
    }
    connectivity
}

/// Binds the address of a head's REST API, or of a worker's metrics endpoint.
async fn bind_api(
    role: &RoleOptions,
    work: &WorkOptions,
) -> Result<Option<(TcpListener, Option<Tls>)>, NodeError> {
    let failed = |what| move |source| NodeError::Serve { what, source };
    Ok(match (role, &work.metrics_api) {
        (RoleOptions::Head { rest_api }, _) => {
            let tls = work.rest_tls.as_ref().map(Tls::read).transpose()?;
            Some((bind(rest_api).await.map_err(failed("REST API"))?, tls))
        }
        (RoleOptions::Worker, Some(address)) => {
            Some((bind(address).await.map_err(failed("metrics"))?, None))
        }
        (RoleOptions::Worker, None) => None,
    })
}

/// Returns the protocols of a role. Only workers accept lines, which heads open.
///
/// Peers that are not allowed can request functions, since the receiver verifies them, and can send
/// offers to a worker. They cannot send offers to a head, since an offer could attract work, unless the
/// head requires approval: then it shows its operator the offers of pending workers.
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

/// Sets the metric that describes the node, and returns the name of its role.
fn count_node(context: &NodeContext, node_role: &NodeRole, subgroups: &[Subgroup]) -> String {
    let role = node_role.role().to_string();
    let NodeContext { network, metrics, .. } = context;
    let labels = [network.peer_id().as_str(), env!("CARGO_PKG_VERSION"), &role];
    metrics.set(metrics::NODE_INFO, &labels, 1);
    metrics.add_n(metrics::TOPIC_SUBSCRIPTIONS, &[], topics(subgroups).len());
    role
}

fn log_host(network: &Network, n_boot_nodes: usize) {
    info!(
        id = network.peer_id().as_str(),
        addresses.json = json_text(&network.addresses()),
        boot_nodes = n_boot_nodes,
        dial_back_peers = network.n_remembered,
        "created host"
    );
}

/// Serves a head's REST API or a worker's metrics and returns the address.
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
            // With TLS, any host name is allowed: if the name of a web page resolves to this address,
            // the browser rejects the certificate.
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

/// Returns the topics of a node: its subgroups first, the general one last.
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
            "the REST API is open to everyone who reaches this machine: set --rest-token, or serve it \
             only on 127.0.0.1"
        );
    }
}

/// Returns the JSON of a list, for a log field with the suffix `.json`.
fn json_text(list: &[String]) -> String {
    serde_json::Value::from(list).to_string()
}

/// Warns if other machines can reach the node and it allows every peer.
fn warn_of(network: &Network, role: &RoleOptions, work: &WorkOptions) {
    if network.allows_everyone() && network.is_exposed() {
        for text in texts(role, work) {
            warn!("{text}");
        }
    }
}

/// Returns texts that describe the actions open to any peer and how to prevent them.
fn texts(role: &RoleOptions, work: &WorkOptions) -> Vec<String> {
    match role {
        RoleOptions::Worker => vec![
            "every peer that reaches this worker can run functions on it: name the heads to obey with \
             --obey PEER_ID, or listen only on --address 127.0.0.1"
                .to_owned(),
        ],
        RoleOptions::Head { .. } => {
            let signed = match work.signatures {
                SignaturePolicy::Required => "",
                SignaturePolicy::WhereGiven => ", and have results signed with --signed-results",
            };
            let joins = format!(
                "every peer that reaches this head can join as a worker and return results that it made \
                 up: name the workers to accept with --accept PEER_ID, or approve them with \
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
    fn startup_warnings_of_an_open_node_name_the_flags_that_exclude_strangers() {
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
