//! A cluster on loopback, its functions and requests to its head.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use model::node::Role;
use serde::Serialize;
use serde_json::{Value, json};
use task::wait::until;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use wire::functions::Outcome;

use super::super::*;
use crate::message::{
    Code, Message, NodeResult, Offer, RollCall, RollCallResponse, WorkOrder, WorkOrderResponse,
    json as message,
};
use crate::network::Event;
use crate::worker::{CONCURRENCY_DEFAULT, LIMITS_DEFAULT};
use content::{FUNCTION_PROTOCOL, Function, Hosts, SourceOptions, StoreLimits};

/// Time limit of each step. It is generous, since the machine might be busy.
pub(super) const WITHIN: Duration = Duration::from_mins(1);

/// Prints a greeting.
pub(super) const HELLO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\06\00\00\00")
  (data (i32.const 16) "hello\n")
  (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// Prints its environment, arguments and standard input.
pub(super) const SHOW: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "fd_read" (func $read (param i32 i32 i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_sizes_get" (func $env_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "environ_get" (func $env (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_sizes_get" (func $args_sizes (param i32 i32) (result i32)))
  (import "wasi_snapshot_preview1" "args_get" (func $args (param i32 i32) (result i32)))
  (memory (export "memory") 2)
  (func $put (param $at i32) (param $len i32)
    (i32.store (i32.const 0) (local.get $at))
    (i32.store (i32.const 4) (local.get $len))
    (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8))))
  (func (export "_start")
    (drop (call $env_sizes (i32.const 16) (i32.const 20)))
    (drop (call $env (i32.const 1024) (i32.const 4096)))
    (call $put (i32.const 4096) (i32.load (i32.const 20)))
    (drop (call $args_sizes (i32.const 16) (i32.const 20)))
    (drop (call $args (i32.const 1024) (i32.const 4096)))
    (call $put (i32.const 4096) (i32.load (i32.const 20)))
    (i32.store (i32.const 0) (i32.const 8192))
    (i32.store (i32.const 4) (i32.const 4096))
    (drop (call $read (i32.const 0) (i32.const 0) (i32.const 1) (i32.const 12)))
    (call $put (i32.const 8192) (i32.load (i32.const 12)))))"#;

/// Sleeps for a day.
pub(super) const SLEEP: &str = r#"(module
  (import "wasi_snapshot_preview1" "poll_oneoff" (func $poll (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (func (export "_start")
    (i32.store (i32.const 16) (i32.const 1))
    (i64.store (i32.const 24) (i64.const 86400000000000))
    (drop (call $poll (i32.const 0) (i32.const 64) (i32.const 1) (i32.const 128)))))"#;

/// A head, some workers and the directory of their functions.
pub(super) struct Cluster {
    pub(super) group: Group,
    pub(super) head: Node,
    pub(super) workers: Vec<Node>,
    pub(super) dir: TempDir,
}

impl Cluster {
    /// Starts a head and a worker for each list of subgroups. Waits until the head knows them.
    pub(super) async fn of(subgroups: &[&[&str]]) -> Self {
        let mut cluster = Self::with(WorkOptions::usual()).await;
        for names in subgroups {
            cluster.add_worker(names, LIMITS_DEFAULT, CONCURRENCY_DEFAULT.get()).await;
        }
        cluster
    }

    /// Starts only a head, with these options of its role.
    pub(super) async fn with(work: WorkOptions) -> Self {
        Self::headed_by(|options| options.work = work).await
    }

    /// Starts only a head, with options that `change` adapts.
    pub(super) async fn headed_by(change: impl FnOnce(&mut NodeOptions)) -> Self {
        let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
        let mut options = head_options(dir.path().join("head"));
        change(&mut options);
        let head = Node::start(options, &group, Clock::system()).await.unwrap();
        Self { group, head, workers: Vec::new(), dir }
    }

    /// Starts another worker and waits until the head knows it.
    pub(super) async fn add_worker(&mut self, subgroups: &[&str], limits: Limits, slots: u32) {
        self.add_worker_with(|options| {
            options.subgroups = subgroups.iter().map(|name| name.parse().unwrap()).collect();
            options.limits = limits;
            options.concurrency = NonZeroU32::new(slots).unwrap();
        })
        .await;
    }

    /// Starts another worker with these limits of its store, which may fetch from any host. Waits
    /// until the head knows it.
    pub(super) async fn add_worker_of_store(&mut self, limits: StoreLimits) {
        self.add_worker_with(|options| {
            options.sources.limits = limits;
            options.sources.hosts = Hosts::Any;
        })
        .await;
    }

    /// Starts another worker, with options that `change` adapts, and waits until the head knows it.
    pub(super) async fn add_worker_with(&mut self, change: impl FnOnce(&mut NodeOptions)) {
        let id = self.start_worker(change).await;
        self.sees(&[id]).await;
    }

    /// Starts another worker, with options that `change` adapts. Returns its id.
    pub(super) async fn start_worker(&mut self, change: impl FnOnce(&mut NodeOptions)) -> PeerId {
        let folder = self.dir.path().join(format!("worker-{}", self.workers.len()));
        let mut options = NodeOptions {
            role: RoleOptions::Worker,
            boot_nodes: vec![self.head.addresses()[0].parse().unwrap()],
            connectivity: Connectivity::for_role(Role::Worker),
            ..head_options(folder)
        };
        change(&mut options);
        let worker = Node::start(options, &self.group, Clock::system()).await.unwrap();
        let id = worker.peer_id().clone();
        self.workers.push(worker);
        id
    }

    /// Waits until the head knows the role and topics of `workers`.
    pub(super) async fn sees(&self, workers: &[PeerId]) {
        let head = self.head.head().unwrap();
        let is_seen = |id: &PeerId| {
            head.peers().iter().any(|(known, peer)| {
                known == id
                    && peer.offer.role == Some(Role::Worker)
                    && peer.topics.contains(GENERAL_TOPIC)
            })
        };
        until_true(|| workers.iter().all(is_seen)).await;
    }

    pub(super) fn ids(&self) -> Vec<PeerId> {
        let mut ids: Vec<PeerId> = self.workers.iter().map(|w| w.peer_id().clone()).collect();
        ids.sort();
        ids
    }

    /// Adds a function to the head.
    pub(super) async fn add(&self, method: &str, wat: &str) -> Function {
        let module = wat::parse_str(wat).unwrap();
        self.head.functions().add(method.parse().unwrap(), module).await.unwrap()
    }

    /// Executes through the REST API with status 200 and returns the body of the response.
    pub(super) async fn execute(&self, body: Value) -> Value {
        let (status, answer) = post(self.head.api_address().unwrap(), &body.to_string()).await;
        assert_eq!(status, 200, "{answer}");
        answer
    }

    /// Starts a peer without a role that is connected to the head.
    pub(super) async fn stranger(&self) -> (Network, mpsc::Receiver<Event>) {
        self.stranger_of(&self.head).await
    }

    /// Starts a peer without a role that is connected to `node`.
    pub(super) async fn stranger_of(&self, node: &Node) -> (Network, mpsc::Receiver<Event>) {
        let protocols = Protocols {
            messages: &[WORK_PROTOCOL],
            questions: &[FUNCTION_PROTOCOL],
            ..Protocols::default()
        };
        let addresses = [node.addresses().remove(0)];
        let (network, events) = peer(&self.group, Identity::random(), &addresses, protocols).await;
        network.subscribe(GENERAL_TOPIC).await.unwrap();
        let id = network.peer_id().clone();
        until(WITHIN, || async {
            let peers = match &node.role {
                NodeRole::Head(head) => head.peers(),
                NodeRole::Worker(worker) => worker.peers(),
            };
            let heard = peers.into_iter().find(|(known, _)| *known == id);
            heard.filter(|(_, peer)| peer.topics.contains(GENERAL_TOPIC)).ok_or("not seen")
        })
        .await
        .unwrap();
        (network, events)
    }

    /// Starts a peer that sends `offer` to the head, if there is one, and then the reply to each
    /// message that `reply` returns for its id and the message. Returns the id once the head knows its
    /// slots.
    pub(super) async fn replying<T: Serialize + Send + Sync>(
        &self,
        offer: Option<Offer>,
        mut reply: impl FnMut(&PeerId, Message) -> Option<T> + Send + 'static,
    ) -> PeerId {
        let (network, mut events) = self.stranger().await;
        let (head, id) = (self.head.peer_id().clone(), network.peer_id().clone());
        if let Some(offer) = offer {
            network.tell(&head, OFFER_PROTOCOL, &message(&offer)).await.unwrap();
            until_true(|| self.head.head().unwrap().slots_of(&id).is_some()).await;
        }
        self.group.spawn("replies", async move {
            while let Some(event) = events.recv().await {
                let (Event::Gossip { bytes, .. } | Event::Message { bytes, .. }) = event else {
                    continue;
                };
                let Ok(received) = Message::read(&bytes) else { continue };
                if let Some(reply) = reply(network.peer_id(), received) {
                    // Sending a long reply fails if the head does not read all of it.
                    drop(network.tell(&head, WORK_PROTOCOL, &message(&reply)).await);
                }
            }
        });
        id
    }
}

/// Returns the response of a worker that accepts a roll call.
pub(super) fn acceptance(call: RollCall) -> RollCallResponse {
    RollCallResponse {
        code: Code::ACCEPTED,
        function_id: call.function_id,
        request_id: call.request_id,
        ..RollCallResponse::default()
    }
}

/// Returns the response of a worker that has executed `order` with this standard output, unsigned.
pub(super) fn answer_to(order: WorkOrder, stdout: &str) -> WorkOrderResponse {
    let outcome = Outcome { stdout: stdout.to_owned(), ..Outcome::default() };
    WorkOrderResponse {
        request_id: order.request_id,
        code: Code::OK,
        result: NodeResult { code: Code::OK, result: outcome, ..NodeResult::default() },
        ..WorkOrderResponse::default()
    }
}

/// Starts a peer without a role that dials `addresses`.
pub(super) async fn peer(
    group: &Group,
    identity: Identity,
    addresses: &[String],
    protocols: Protocols,
) -> (Network, mpsc::Receiver<Event>) {
    let options = NetworkOptions {
        identity,
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        boot_nodes: addresses.iter().map(|address| address.parse().unwrap()).collect(),
        protocols,
        connectivity: Connectivity::for_role(Role::Worker),
        clock: Clock::system(),
    };
    Network::start(group, options).await.unwrap()
}

pub(super) fn head_options(functions_dir: PathBuf) -> NodeOptions {
    NodeOptions {
        role: RoleOptions::Head { rest_api: "127.0.0.1:0".to_owned() },
        identity: Identity::random(),
        address: Ipv4Addr::LOCALHOST.into(),
        port: 0,
        boot_nodes: vec![],
        connectivity: Connectivity::for_role(Role::Head),
        subgroups: vec![],
        functions_dir,
        sources: SourceOptions::default(),
        concurrency: CONCURRENCY_DEFAULT,
        limits: LIMITS_DEFAULT,
        execution: ExecutionOptions::default(),
        work: WorkOptions::usual(),
    }
}

/// Has a worker serve metrics.
pub(super) fn with_metrics(options: &mut NodeOptions) {
    options.work.metrics_api = Some("127.0.0.1:0".to_owned());
}

/// Waits until `condition` is true.
pub(super) async fn until_true(condition: impl Fn() -> bool + Send + Sync) {
    until(WITHIN, || async { condition().then_some(()).ok_or("not yet") }).await.unwrap();
}

/// Waits until `worker` runs a function.
pub(super) async fn busy(worker: &Node) {
    until_true(|| is_running(worker)).await;
}

/// Waits until no worker runs anything.
pub(super) async fn idle(cluster: &Cluster) {
    until_true(|| !cluster.workers.iter().any(is_running)).await;
}

fn is_running(worker: &Node) -> bool {
    let (slots, free) = worker.role.worker().unwrap().slots();
    free < slots
}

/// Waits until the head has no execution in progress.
pub(super) async fn all_ended(cluster: &Cluster) {
    let head = cluster.head.head().unwrap();
    until_true(|| head.executions().in_progress().is_empty()).await;
}

/// Returns a roll call for `function_id`.
pub(super) fn roll_call(function_id: &str, request_id: &str) -> Vec<u8> {
    let (function_id, request_id) = (function_id.to_owned(), request_id.to_owned());
    message(&Message::RollCall(RollCall { function_id, request_id, ..RollCall::default() }))
}

/// Returns a request to run `function` on `nodes` nodes, with a long timeout for a busy machine.
pub(super) fn request(function: &Function, nodes: i64) -> Value {
    json!({
        "function_id": function.id.to_string(),
        "method": function.method.as_str(),
        "config": {"number_of_nodes": nodes, "timeout": WITHIN.as_secs()},
    })
}

/// Returns a request to run `function` on `nodes` nodes, which may wait `timeout_s` seconds for them.
pub(super) fn request_within(function: &Function, nodes: i64, timeout_s: u64) -> Value {
    let mut request = request(function, nodes);
    request["config"]["timeout"] = json!(timeout_s);
    request
}

pub(super) async fn post(address: SocketAddr, body: &str) -> (u16, Value) {
    send(address, "POST /api/v1/functions/execute", "application/json", body).await
}

pub(super) async fn get(address: SocketAddr, path: &str) -> (u16, Value) {
    send(address, &format!("GET {path}"), "", "").await
}

/// Sends a request and returns the status and the JSON of the response.
pub(super) async fn send(
    address: SocketAddr,
    line: &str,
    content_type: &str,
    body: impl AsRef<[u8]>,
) -> (u16, Value) {
    let mut stream = opened(address, line, content_type, body).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-type: application/json"), "{head}");
    assert!(body.ends_with('\n'), "{body:?}");
    (status, serde_json::from_str(body).unwrap())
}

/// Sends a request to execute and returns the connection.
pub(super) async fn executing(cluster: &Cluster, request: &Value) -> TcpStream {
    let line = "POST /api/v1/functions/execute";
    let address = cluster.head.api_address().unwrap();
    opened(address, line, "application/json", &request.to_string()).await
}

/// Sends a request and returns the connection.
pub(super) async fn opened(
    address: SocketAddr,
    line: &str,
    content_type: &str,
    body: impl AsRef<[u8]>,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    write(&mut stream, line, &format!("content-type: {content_type}\r\n"), body.as_ref()).await;
    stream
}

async fn write(stream: &mut TcpStream, line: &str, headers: &str, body: &[u8]) {
    let n_bytes = body.len();
    let head = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-length: {n_bytes}\r\n{headers}\r\n"
    );
    stream.write_all(&[head.as_bytes(), body].concat()).await.unwrap();
}

/// Sends a request on `stream` with additional headers and returns the head and the body of the
/// response.
pub(super) async fn exchange(
    mut stream: TcpStream,
    line: &str,
    headers: &str,
    body: &str,
) -> (String, String) {
    write(&mut stream, line, headers, body.as_bytes()).await;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Sends a request with additional headers and returns the head and the body of the response.
pub(super) async fn raw(
    address: SocketAddr,
    line: &str,
    headers: &str,
    body: &str,
) -> (String, String) {
    exchange(TcpStream::connect(address).await.unwrap(), line, headers, body).await
}

/// Returns the metrics of a node.
pub(super) async fn counts(node: &Node) -> String {
    raw(node.api_address().unwrap(), "GET /metrics", "", "").await.1
}
