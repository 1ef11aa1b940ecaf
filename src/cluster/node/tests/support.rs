//! A cluster on loopback, its functions and requests to its head.

use std::net::Ipv4Addr;
use std::path::PathBuf;

use model::node::Role;
use serde_json::{Value, json};
use task::wait::until;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::super::*;
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
        let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
        let options = head_options(dir.path().join("head"), Identity::random(), 0);
        let head = Node::start(options, &group, Clock::system()).await.unwrap();
        let mut cluster = Self { group, head, workers: Vec::new(), dir };
        for names in subgroups {
            cluster.add_worker(names, LIMITS_DEFAULT, CONCURRENCY_DEFAULT.get()).await;
        }
        cluster
    }

    /// Starts only a head, with these options.
    pub(super) async fn with(work: WorkOptions) -> Self {
        let (group, dir) = (Group::default(), tempfile::tempdir().unwrap());
        let options = head_options(dir.path().join("head"), Identity::random(), 0);
        let options = NodeOptions { work, ..options };
        let head = Node::start(options, &group, Clock::system()).await.unwrap();
        Self { group, head, workers: Vec::new(), dir }
    }

    /// Starts another worker and waits until the head knows it.
    pub(super) async fn add_worker(&mut self, subgroups: &[&str], limits: Limits, slots: u32) {
        self.add_worker_with(subgroups, (limits, slots), WorkOptions::usual()).await;
    }

    /// Starts another worker with these limits of its store, which may fetch from any host. Waits
    /// until the head knows it.
    pub(super) async fn add_worker_of_store(&mut self, limits: StoreLimits) {
        let name = format!("worker-{}", self.workers.len());
        let options = NodeOptions {
            role: RoleOptions::Worker,
            boot_nodes: vec![self.head.addresses()[0].parse().unwrap()],
            connectivity: Connectivity::for_role(Role::Worker),
            sources: SourceOptions { limits, hosts: Hosts::Any, ..SourceOptions::default() },
            ..head_options(self.dir.path().join(name), Identity::random(), 0)
        };
        let worker = Node::start(options, &self.group, Clock::system()).await.unwrap();
        let id = worker.peer_id().clone();
        self.workers.push(worker);
        self.sees(&[id]).await;
    }

    /// Starts another worker with these options.
    pub(super) async fn add_worker_with(
        &mut self,
        subgroups: &[&str],
        (limits, slots): (Limits, u32),
        work: WorkOptions,
    ) {
        let options = NodeOptions {
            role: RoleOptions::Worker,
            identity: Identity::random(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            boot_nodes: vec![self.head.addresses()[0].parse().unwrap()],
            connectivity: Connectivity::for_role(Role::Worker),
            subgroups: subgroups.iter().map(|name| name.parse().unwrap()).collect(),
            functions_dir: self.dir.path().join(format!("worker-{}", self.workers.len())),
            sources: SourceOptions::default(),
            concurrency: NonZeroU32::new(slots).unwrap(),
            limits,
            execution: ExecutionOptions::default(),
            work,
        };
        let worker = Node::start(options, &self.group, Clock::system()).await.unwrap();
        let id = worker.peer_id().clone();
        self.workers.push(worker);
        self.sees(&[id]).await;
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
        until(WITHIN, || async {
            if workers.iter().all(is_seen) { Ok(()) } else { Err(head.peers()) }
        })
        .await
        .unwrap();
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
        let options = NetworkOptions {
            identity: Identity::random(),
            address: Ipv4Addr::LOCALHOST.into(),
            port: 0,
            boot_nodes: vec![node.addresses()[0].parse().unwrap()],
            protocols: Protocols {
                messages: &[WORK_PROTOCOL],
                questions: &[FUNCTION_PROTOCOL],
                ..Protocols::default()
            },
            connectivity: Connectivity::for_role(Role::Worker),
            clock: Clock::system(),
        };
        let (network, events) = Network::start(&self.group, options).await.unwrap();
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
}

pub(super) fn head_options(functions_dir: PathBuf, identity: Identity, port: u16) -> NodeOptions {
    NodeOptions {
        role: RoleOptions::Head { rest_api: "127.0.0.1:0".to_owned() },
        identity,
        address: Ipv4Addr::LOCALHOST.into(),
        port,
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

/// Returns a request to run `function` on `nodes` nodes, with a long timeout for a busy machine.
pub(super) fn request(function: &Function, nodes: i64) -> Value {
    json!({
        "function_id": function.id.to_string(),
        "method": function.method.as_str(),
        "config": {"number_of_nodes": nodes, "timeout": WITHIN.as_secs()},
    })
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
    body: &str,
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

/// Sends a request and returns the connection.
pub(super) async fn opened(
    address: SocketAddr,
    line: &str,
    content_type: &str,
    body: &str,
) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let (length, kind) = (body.len(), content_type);
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: {kind}\r\n\
         content-length: {length}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Sends a JSON request on `stream` and returns the response.
pub(super) async fn exchange(mut stream: TcpStream, line: &str, body: &str) -> String {
    let n_bytes = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {n_bytes}\r\n\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

/// Sends a request with additional headers and returns the head and the body of the response.
pub(super) async fn raw(
    address: SocketAddr,
    line: &str,
    headers: &str,
    body: &str,
) -> (String, String) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let n_bytes = body.len();
    let request = format!(
        "{line} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: {n_bytes}\r\n\
         {headers}\r\n{body}"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    (head.to_owned(), body.to_owned())
}

/// Returns the metrics of a node.
pub(super) async fn counts(node: &Node) -> String {
    raw(node.api_address().unwrap(), "GET /metrics", "", "").await.1
}
