//! The local stack, started by `triptych up --json` as scripts do.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::http::Http;
use crate::support::process;
use crate::support::running::Running;

/// A running stack with its own data directory. Dropping it stops the stack and checks that no process
/// remains.
pub(crate) struct Up {
    /// The JSON that `up` printed in its first line.
    pub(crate) line: Value,
    process: Option<Running>,
    // Data directory. Dropped last, since the processes write to it.
    _folder: TempDir,
}

/// The stack that tests share while any of them holds it.
static SHARED: Mutex<Weak<Up>> = Mutex::new(Weak::new());

impl Up {
    /// Returns the stack that other tests of this process use, or starts one.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock();
        if let Some(up) = shared.upgrade() {
            return up;
        }
        let up = Arc::new(Self::start());
        *shared = Arc::downgrade(&up);
        up
    }

    /// Starts a stack and waits until all its services respond.
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let data_dir = folder.path().display().to_string();
        let process = Running::start(&["up", "--json", "--data-dir", &data_dir]);
        let line = serde_json::from_str(&process.wait_lines(1)[0]).unwrap();
        Self { line, process: Some(process), _folder: folder }
    }

    /// Returns a client of the head.
    pub(crate) fn head(&self) -> Http {
        Http::new(self.text("head"), None)
    }

    /// Returns a client of the dataset service. Its paths begin with `/api`.
    pub(crate) fn datasets(&self) -> Http {
        let root = self.text("datasets").strip_suffix("/api").unwrap();
        Http::new(root, Some(self.text("api_key")))
    }

    /// Returns a client of the inference service.
    pub(crate) fn inference(&self) -> Http {
        Http::new(self.text("inference"), Some(self.text("api_key")))
    }

    /// Returns a string in the printed JSON.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        self.line[name].as_str().unwrap()
    }

    /// Returns an array in the printed JSON.
    #[track_caller]
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.line[name].as_array().unwrap()
    }

    /// Returns the content id and the method of the function called `name`.
    #[track_caller]
    pub(crate) fn function(&self, name: &str) -> (&str, &str) {
        let function = self.list("functions").iter().find(|function| function["name"] == name);
        let function = function.unwrap();
        (function["function_id"].as_str().unwrap(), function["method"].as_str().unwrap())
    }

    /// Returns the sorted peer ids of the workers in `subgroup`, or of all workers if it is `None`.
    pub(crate) fn workers(&self, subgroup: Option<&str>) -> Vec<&str> {
        let nodes = self.list("nodes").iter().filter(|node| {
            node["role"] == "worker"
                && (subgroup.is_none() || node["subgroup"].as_str() == subgroup)
        });
        let mut ids: Vec<_> = nodes.map(|node| node["peer_id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        ids
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        let Some(mut process) = self.process.take() else { return };
        if std::thread::panicking() {
            return;
        }
        let mut pids = process::descendants(process.pid());
        pids.insert(process.pid());
        assert!(pids.len() >= 7, "itself, four nodes and two services run: {pids:?}");
        assert!(process.stop(), "the stack exits with success");
        process::wait_gone(pids);
        assert_eq!(process.stdout().len(), 1, "one line on standard output");
    }
}
