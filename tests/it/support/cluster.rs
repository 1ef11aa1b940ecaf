//! Single nodes, started by hand as operators do, on loopback.

use std::time::Duration;

use serde_json::Value;
use task::wait;
use tempfile::TempDir;

use crate::support::{
    http::Http,
    process::{self, Signal},
    started::Started,
};

/// How long a node may take to start or be found on a busy machine.
pub(crate) const WITHIN: Duration = Duration::from_mins(1);

/// A node that runs, with its state in a folder of its own.
pub(crate) struct Node {
    process: Started,
    // Goes last: the process writes to it.
    _folder: TempDir,
}

impl Node {
    /// Starts a head.
    pub(crate) fn head(more: &[&str]) -> Self {
        Self::start(&[&["--role", "head", "--rest-api", "127.0.0.1:0"], more].concat())
    }

    /// Starts a worker of `head`.
    pub(crate) fn worker(head: &Self, more: &[&str]) -> Self {
        Self::start(&[&["--boot-nodes", &head.address()], more].concat())
    }

    fn start(more: &[&str]) -> Self {
        Self::with_environment(more, &[])
    }

    /// Starts a node with more in its environment.
    pub(crate) fn with_environment(more: &[&str], environment: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let db = folder.path().join("db").display().to_string();
        let all = ["node", "--address", "127.0.0.1", "--gateways", "none", "--db", &db];
        let process = Started::with_environment(&[&all, more].concat(), environment);
        Self { process, _folder: folder }
    }

    /// Its peer id.
    #[track_caller]
    pub(crate) fn id(&self) -> String {
        self.process.logged("created host", "id", WITHIN)
    }

    /// Its process.
    pub(crate) fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// Its multiaddress.
    #[track_caller]
    pub(crate) fn address(&self) -> String {
        self.logged("created host")["addresses"][0].as_str().unwrap().to_owned()
    }

    /// Waits for the log line with `message`, and returns it.
    #[track_caller]
    pub(crate) fn logged(&self, message: &str) -> Value {
        self.process.line(message, WITHIN)
    }

    /// Ends it without asking.
    pub(crate) fn kill(self) {
        self.process.kill();
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        process::signal(self.process.pid(), signal);
    }

    /// Waits for its end, and returns whether it ended well.
    pub(crate) fn ends_well(&mut self) -> bool {
        self.process.stop()
    }

    /// The address of its REST API.
    #[track_caller]
    pub(crate) fn rest_api(&self) -> String {
        format!("http://{}", self.process.logged("Node API starting", "address", WITHIN))
    }

    /// Waits until it, a head, knows of `n_workers` that offer to work.
    pub(crate) async fn has_workers(&self, n_workers: usize) {
        let http = Http::new(&self.rest_api(), None);
        let look = || async {
            let nodes = http.get_ok("/api/v1/nodes").await;
            let offers = |node: &&Value| {
                node["role"] == "worker" && node["connected"] == true && node["slots"].is_u64()
            };
            let n_offered = nodes["nodes"].as_array().unwrap().iter().filter(offers).count();
            if n_offered >= n_workers { Ok(()) } else { Err(nodes) }
        };
        wait::until(WITHIN, look).await.unwrap();
    }
}
