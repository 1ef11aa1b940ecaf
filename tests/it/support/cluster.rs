//! Single cluster nodes on loopback, started one by one as operators do.

use serde_json::Value;
use task::wait;
use tempfile::TempDir;

use crate::support::http::Http;
use crate::support::process::{self, Signal};
use crate::support::running::Running;
pub(crate) use crate::support::running::WITHIN;
use crate::support::wait::until;

/// A function that runs until its time limit or until it is canceled.
pub(crate) const ENDLESS: &str = r#"(module (memory (export "memory") 1)
  (func (export "_start") (loop $again (br $again))))"#;

/// A running node with its own state directory.
pub(crate) struct Node {
    process: Running,
    // Dropped last, since the process writes to it.
    _folder: TempDir,
}

impl Node {
    /// Starts a head.
    pub(crate) fn head(options: &[&str]) -> Self {
        Self::start(&[&["--role", "head", "--rest-api", "127.0.0.1:0"], options].concat())
    }

    /// Starts a worker of `head`.
    pub(crate) fn worker(head: &Self, options: &[&str]) -> Self {
        Self::start(&[&["--boot-nodes", &head.address()], options].concat())
    }

    /// Starts a node with `options`.
    pub(crate) fn start(options: &[&str]) -> Self {
        Self::start_with(options, &[])
    }

    /// Starts a node with `options` and additional environment variables.
    pub(crate) fn start_with(options: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let db = folder.path().join("db").display().to_string();
        let all = ["node", "--address", "127.0.0.1", "--gateways", "none", "--db", &db];
        let process = Running::start_with(&[&all, options].concat(), environment);
        Self { process, _folder: folder }
    }

    /// Returns the peer id.
    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.process.wait_log_field("created host", "id")
    }

    /// Returns the process id.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Returns the multiaddress, including the peer id.
    #[track_caller]
    pub(crate) fn address(&self) -> String {
        self.wait_log("created host")["addresses"][0].as_str().unwrap().to_owned()
    }

    /// Returns the address of the REST API.
    #[track_caller]
    pub(crate) fn rest_api(&self) -> String {
        format!("http://{}", self.process.wait_log_field("Node API starting", "address"))
    }

    /// Waits for a log line with the message `message` and returns it.
    #[track_caller]
    pub(crate) fn wait_log(&self, message: &str) -> Value {
        self.process.wait_log(message)
    }

    /// Sends a signal. Before a signal to stop, waits until the node handles such signals, since a node
    /// that has just started would exit immediately.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = self.process.pid();
        if matches!(signal, Signal::Terminate | Signal::Interrupt) {
            until("the node handles signals", WITHIN, || {
                if process::handles_termination(pid) { Ok(()) } else { Err("not yet") }
            });
        }
        process::signal(pid, signal);
    }

    /// Kills the node.
    pub(crate) fn kill(self) {
        self.process.kill();
    }

    /// Waits for the exit of a node that was sent a signal, and returns its exit code.
    pub(crate) fn wait_exit(&mut self) -> Option<i32> {
        self.process.wait_exit()
    }

    /// Waits until this head has received slot offers from at least `n_workers` connected workers.
    pub(crate) async fn has_workers(&self, n_workers: usize) {
        let http = Http::new(&self.rest_api(), None);
        let look = || async {
            let nodes = http.get_ok("/api/v1/nodes").await;
            let is_ready = |node: &&Value| {
                node["role"] == "worker" && node["connected"] == true && node["slots"].is_u64()
            };
            let n_ready = nodes["nodes"].as_array().unwrap().iter().filter(is_ready).count();
            if n_ready >= n_workers { Ok(()) } else { Err(nodes) }
        };
        wait::until(WITHIN, look).await.unwrap();
    }
}
