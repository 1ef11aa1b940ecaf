//! A cluster of processes: one head and the workers of a measurement.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, mem, process};

use tokio::time::{Instant, sleep};

use crate::Outcome;
use crate::http::{Client, Request};
use crate::nodes::Nodes;
use crate::part::RUNTIME_NAME;
use crate::process::Process;

/// Prints a greeting.
const HELLO: &str = r#"(module
  (import "wasi_snapshot_preview1" "fd_write" (func $write (param i32 i32 i32 i32) (result i32)))
  (memory (export "memory") 1)
  (data (i32.const 0) "\10\00\00\00\06\00\00\00")
  (data (i32.const 16) "hello\n")
  (func (export "_start") (drop (call $write (i32.const 1) (i32.const 0) (i32.const 1) (i32.const 8)))))"#;

/// Maximum time until all nodes of a cluster are connected. 50 workers start simultaneously on two
/// cores.
const WARM_WITHIN: Duration = Duration::from_mins(1);

/// Interval at which the nodes of a cluster are checked.
const CHECK_EVERY: Duration = Duration::from_millis(100);

/// Number of directories created so far, which makes their names unique.
static N_FOLDERS: AtomicU32 = AtomicU32::new(0);

/// A directory that is removed when dropped.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Outcome<Self> {
        let number = N_FOLDERS.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("figures-{}-{number}", process::id()));
        fs::create_dir_all(&path)?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes an external runtime, which is a shell script.
    pub(crate) fn runtime(&self, script: &str) -> Outcome<PathBuf> {
        let program = self.0.join(RUNTIME_NAME);
        fs::write(&program, script)?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(program)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // If this fails, the rest remains in the system's temporary directory.
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A head and its workers, which are killed when this value is dropped.
pub(crate) struct Cluster {
    pub(crate) head: Process,
    pub(crate) workers: Vec<Process>,
    pub(crate) rest: SocketAddr,
    /// Addresses of the REST APIs of all heads, beginning with [`Self::rest`].
    pub(crate) rests: Vec<SocketAddr>,
    /// Heads other than the first.
    other_heads: Vec<Process>,
    nodes: Nodes,
    /// Addresses of all heads, separated by commas.
    boot: String,
    runtime: Option<PathBuf>,
    n_slots: Option<usize>,
    /// Dropped last, after the processes.
    folder: Folder,
}

impl Cluster {
    /// Starts a head and `n_workers` workers.
    pub(crate) async fn start(nodes: &Nodes, n_workers: usize) -> Outcome<Self> {
        Self::start_with(nodes, 1, (n_workers, None), None).await
    }

    /// Starts `n_heads` heads and workers that serve all of them. `workers` contains the number of
    /// workers and the number of slots of each worker, if it is not the default. The workers run functions
    /// with the external program `runtime` if it is set.
    pub(crate) async fn start_with(
        nodes: &Nodes,
        n_heads: usize,
        (n_workers, n_slots): (usize, Option<usize>),
        runtime: Option<PathBuf>,
    ) -> Outcome<Self> {
        let mut cluster = Self::heads(nodes, n_heads).await?;
        (cluster.runtime, cluster.n_slots) = (runtime, n_slots);
        cluster.grow(n_workers).await?;
        Ok(cluster)
    }

    /// Starts `n_heads` heads without workers.
    async fn heads(nodes: &Nodes, n_heads: usize) -> Outcome<Self> {
        let (nodes, folder) = (nodes.clone(), Folder::new()?);
        let (head, rest, mut boot) = nodes.head(&folder.path().join("head")).await?;
        let (mut rests, mut other_heads) = (vec![rest], Vec::new());
        for idx in 1..n_heads {
            let folder = folder.path().join(format!("head-{idx}"));
            let (head, rest, address) = nodes.head(&folder).await?;
            boot = format!("{boot},{address}");
            rests.push(rest);
            other_heads.push(head);
        }
        let (workers, runtime, n_slots) = (Vec::new(), None, None);
        Ok(Self { head, workers, rest, rests, other_heads, nodes, boot, runtime, n_slots, folder })
    }

    /// Kills the first head. The second head becomes the first.
    pub(crate) async fn kill_head(&mut self) -> Outcome<()> {
        let killed = mem::replace(&mut self.head, self.other_heads.remove(0));
        self.rests.remove(0);
        self.rest = *self.rests.first().ok_or("no head is left")?;
        killed.kill().await
    }

    /// Starts workers until there are `n_workers`.
    pub(crate) async fn grow(&mut self, n_workers: usize) -> Outcome<()> {
        for idx in self.workers.len()..n_workers {
            self.workers.push(self.worker(idx).await?);
        }
        Ok(())
    }

    /// Adds a worker with `n_slots` slots that runs functions with the external program `program`.
    pub(crate) async fn grow_slow(&mut self, program: &Path, n_slots: usize) -> Outcome<()> {
        let folder = self.folder.path().join("slow");
        let worker = self.nodes.worker(&folder, &self.boot, Some(program), Some(n_slots)).await?;
        self.workers.push(worker);
        Ok(())
    }

    /// Kills worker `idx` and removes it from `workers`. The indices of later workers are lower by one
    /// until [`Self::restart`] inserts it again.
    pub(crate) async fn kill(&mut self, idx: usize) -> Outcome<()> {
        self.workers.remove(idx).kill().await
    }

    /// Restarts worker `idx` as the same node.
    pub(crate) async fn restart(&mut self, idx: usize) -> Outcome<()> {
        let worker = self.worker(idx).await?;
        self.workers.insert(idx, worker);
        Ok(())
    }

    /// Uploads a module to the head and returns the function's id.
    pub(crate) async fn add(&self, name: &str, module: &[u8]) -> Outcome<String> {
        Client::connect(self.rest).await?.upload(name, module).await
    }

    /// Uploads the function `hello` to the head and returns the request that runs it on `n_nodes`.
    pub(crate) async fn hello(&self, n_nodes: usize) -> Outcome<Request> {
        let module = wat::parse_str(HELLO)?;
        let function = self.add("hello.wasm", &module).await?;
        Ok(Request::new(&function, "hello.wasm", n_nodes))
    }

    /// Like [`Self::hello`], once the request needs no roll call. Also returns a connected client.
    pub(crate) async fn warm_hello(&self, n_nodes: usize) -> Outcome<(Request, Client)> {
        let hello = self.hello(n_nodes).await?;
        let client = Self::warmed_at(self.rest, &hello).await?;
        Ok((hello, client))
    }

    /// Repeats `request` at the head with the REST API `rest` until it needs no roll call, which means
    /// that all workers have compiled the function. Returns a connected client.
    pub(crate) async fn warmed_at(rest: SocketAddr, request: &Request) -> Outcome<Client> {
        let mut client = Client::connect(rest).await?;
        let end = Instant::now() + WARM_WITHIN;
        loop {
            let answer = client.ask(request).await?;
            if answer.is_good(request) && client.is_warm(&answer.request_id).await? {
                return Ok(client);
            }
            if end < Instant::now() {
                answer.good(request)?;
                return Err("a roll call was still needed".into());
            }
            sleep(CHECK_EVERY).await;
        }
    }

    async fn worker(&self, idx: usize) -> Outcome<Process> {
        let folder = self.folder.path().join(format!("worker-{idx}"));
        self.nodes.worker(&folder, &self.boot, self.runtime.as_deref(), self.n_slots).await
    }
}
