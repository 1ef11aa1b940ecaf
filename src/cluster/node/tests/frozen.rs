//! Frozen peers do not respond, although their kernel still accepts connections. Other peers are served.

use std::future::pending;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::Relaxed;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use content::{AnswerLimits, AskError, Peers};

use super::*;
use crate::peers::NodeOffer;

/// A TCP forwarder in front of a node, which makes the node look frozen from some time on.
struct Forwarder {
    port: u16,
    traffic: Arc<Traffic>,
}

/// Counts of a forwarder.
struct Traffic {
    /// Bytes from the dialing side.
    n_sent: AtomicUsize,
    /// Once the dialing side has sent this many bytes, no data is forwarded to it any more.
    n_answered: AtomicUsize,
}

impl Forwarder {
    async fn start(node: &Node, group: &Group) -> Self {
        let node_port: u16 = node.addresses()[0].split('/').nth(4).unwrap().parse().unwrap();
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let (n_sent, n_answered) = (AtomicUsize::new(0), AtomicUsize::new(usize::MAX));
        let traffic = Arc::new(Traffic { n_sent, n_answered });
        let (forwarding, counted) = (group.clone(), Arc::clone(&traffic));
        group.spawn("forwarder", async move {
            while let Ok((dialer, _)) = listener.accept().await {
                let node = TcpStream::connect((Ipv4Addr::LOCALHOST, node_port)).await.unwrap();
                let (from_dialer, to_dialer) = dialer.into_split();
                let (from_node, to_node) = node.into_split();
                forwarding.spawn("requests", Arc::clone(&counted).forward(from_dialer, to_node));
                forwarding.spawn("answers", Arc::clone(&counted).answer(from_node, to_dialer));
            }
        });
        Self { port, traffic }
    }

    /// Returns the address of `node` through this forwarder.
    fn address(&self, node: &Node) -> String {
        format!("/ip4/127.0.0.1/tcp/{}/p2p/{}", self.port, node.peer_id())
    }

    /// Stops forwarding responses after another `n_bytes` from the dialing side.
    fn freeze_after(&self, n_bytes: usize) {
        let n_sent = self.traffic.n_sent.load(Relaxed);
        self.traffic.n_answered.store(n_sent + n_bytes, Relaxed);
    }
}

impl Traffic {
    async fn forward(
        self: Arc<Self>,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) {
        let mut buffer = vec![0; 4096];
        while let Ok(n @ 1..) = from.read(&mut buffer).await {
            self.n_sent.fetch_add(n, Relaxed);
            to.write_all(&buffer[..n]).await.unwrap();
        }
    }

    async fn answer(
        self: Arc<Self>,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) {
        let mut buffer = vec![0; 4096];
        while let Ok(n @ 1..) = from.read(&mut buffer).await {
            if self.n_sent.load(Relaxed) >= self.n_answered.load(Relaxed) {
                return pending().await;
            }
            to.write_all(&buffer[..n]).await.unwrap();
        }
    }
}

/// Starts a worker that reaches its heads at `addresses`.
async fn worker_of(cluster: &Cluster, addresses: &[String]) -> Node {
    let options = NodeOptions {
        role: RoleOptions::Worker,
        boot_nodes: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        connectivity: Connectivity::for_role(Role::Worker),
        ..head_options(cluster.dir.path().join("worker"))
    };
    Node::start(options, &cluster.group, Clock::system()).await.unwrap()
}

/// Returns the offer of `worker` that `head` has recorded.
fn offer_of(head: &Node, worker: &Node) -> Arc<NodeOffer> {
    let mut peers = head.head().unwrap().peers().into_iter();
    let known = peers.find(|(id, _)| id == worker.peer_id());
    known.map(|(_, peer)| peer.offer).unwrap_or_default()
}

/// Waits until `head` has the offer of `worker`.
async fn offered(head: &Node, worker: &Node) {
    until_true(|| offer_of(head, worker).role.is_some()).await;
}

/// Waits until `worker` has offered `function` to `head`.
async fn holds(head: &Node, worker: &Node, function: FunctionId) {
    until_true(|| offer_of(head, worker).functions.contains(&function)).await;
}

#[tokio::test]
async fn frozen_head_does_not_delay_offers_to_other_heads() {
    let cluster = Cluster::of(&[]).await;
    let mut others = Vec::new();
    for name in ["second", "third"] {
        let options = head_options(cluster.dir.path().join(name));
        others.push(Node::start(options, &cluster.group, Clock::system()).await.unwrap());
    }
    let [second, frozen] = others.as_slice() else { panic!("two heads") };
    let forwarder = Forwarder::start(frozen, &cluster.group).await;
    let live = [&cluster.head, second];
    let mut addresses: Vec<String> = live.map(|head| head.addresses().remove(0)).into();
    addresses.push(forwarder.address(frozen));
    let worker = worker_of(&cluster, &addresses).await;
    for head in [live[0], live[1], frozen] {
        offered(head, &worker).await;
    }

    forwarder.freeze_after(0);
    for n in 0..3 {
        let module = wat::parse_str(format!("(module (memory {n}))")).unwrap();
        let name = format!("module-{n}.wasm").parse().unwrap();
        let function = worker.functions().add(name, module).await.unwrap();
        for head in live {
            holds(head, &worker, function.id).await;
        }
    }
    let frozen = worker.role.worker().unwrap().peers();
    let frozen = frozen.iter().find(|(id, _)| *id == *others[1].peer_id());
    assert!(
        frozen.is_some_and(|(_, peer)| peer.is_connected),
        "no send waited for another to complete"
    );
}

#[tokio::test]
async fn frozen_worker_delays_a_request_by_little_more_than_the_time_limit_of_the_request() {
    let cluster = Cluster::with(executions::answering_within(Duration::from_mins(10))).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let forwarder = Forwarder::start(&cluster.head, &cluster.group).await;
    let worker = worker_of(&cluster, &[forwarder.address(&cluster.head)]).await;
    offered(&cluster.head, &worker).await;
    let mut asked = request(&hello, 1);
    asked["config"]["runtime"] = json!({"run_time": 3000});
    assert_eq!(cluster.execute(asked.clone()).await["code"], "200");
    holds(&cluster.head, &worker, hello.id).await;

    forwarder.freeze_after(0);
    let answer = timeout(WITHIN, cluster.execute(asked)).await.unwrap();
    assert_eq!(answer["code"], "204", "{answer}");
    let want = format!("{} did not respond in time", worker.peer_id());
    assert!(answer["message"].as_str().unwrap().ends_with(&want), "{answer}");
}

/// Sources of functions that wait for the response of the peer `frozen` for up to an hour.
struct Patient<'a> {
    sources: FunctionPeers<'a>,
    frozen: &'a PeerId,
}

impl Peers for Patient<'_> {
    fn peers(&self) -> &[PeerId] {
        self.sources.peers()
    }

    async fn ask(
        &self,
        peer: &PeerId,
        question: &[u8],
        limits: AnswerLimits,
    ) -> Result<Vec<u8>, AskError> {
        let is_frozen = peer == self.frozen;
        let within = if is_frozen { Duration::from_hours(1) } else { limits.within };
        self.sources.ask(peer, question, AnswerLimits { within, ..limits }).await
    }
}

#[tokio::test]
async fn function_is_fetched_from_the_next_peer_if_the_first_peer_is_frozen() {
    let cluster = Cluster::of(&[]).await;
    let hello = cluster.add("hello.wasm", HELLO).await;
    let options = head_options(cluster.dir.path().join("second"));
    let frozen = Node::start(options, &cluster.group, Clock::system()).await.unwrap();
    let forwarder = Forwarder::start(&frozen, &cluster.group).await;
    let addresses = [cluster.head.addresses().remove(0), forwarder.address(&frozen)];
    let worker = worker_of(&cluster, &addresses).await;
    let peers = [frozen.peer_id().clone(), cluster.head.peer_id().clone()];
    for head in [&frozen, &cluster.head] {
        offered(head, &worker).await;
    }

    forwarder.freeze_after(0);
    let sources = Patient {
        sources: FunctionPeers { network: &worker.network, peers: &peers },
        frozen: frozen.peer_id(),
    };
    worker.functions().obtain(hello.id, &Requester::Unknown, &sources).await.unwrap();
}
