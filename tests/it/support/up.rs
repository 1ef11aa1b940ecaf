//! The local stack, as `triptych up --json` runs it for scripts.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use parking_lot::Mutex;
use serde_json::Value;
use tempfile::TempDir;

use crate::support::{http::Http, process, started::Started};

/// How long the stack may take to answer: some seconds, and a lot more where other tests and a
/// compiler share two processors.
const READY_WITHIN: Duration = Duration::from_mins(1);

/// A stack that runs, with its state in a folder of its own. Dropped, it ends, and all its processes
/// must be gone.
pub(crate) struct Up {
    /// The line it printed.
    pub(crate) line: Value,
    service: Option<Started>,
    // Goes last: the processes write to it.
    _folder: TempDir,
}

/// The stack that tests share while any of them has it.
static SHARED: Mutex<Weak<Up>> = Mutex::new(Weak::new());

impl Up {
    /// Returns the stack that other tests of this process use just now, or starts one.
    pub(crate) fn shared() -> Arc<Self> {
        let mut shared = SHARED.lock();
        if let Some(up) = shared.upgrade() {
            return up;
        }
        let up = Arc::new(Self::start());
        *shared = Arc::downgrade(&up);
        up
    }

    /// Starts a stack, and waits until it answers.
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let data_dir = folder.path().display().to_string();
        let service = Started::start(&["up", "--json", "--data-dir", &data_dir]);
        let line = service.first_line(READY_WITHIN);
        let line = serde_json::from_str(&line).unwrap();
        Self { line, service: Some(service), _folder: folder }
    }

    /// Asks the head.
    pub(crate) fn head(&self) -> Http {
        Http::new(self.text("head"), None)
    }

    /// Asks the dataset service; its paths start with `/api`, with which its address ends.
    pub(crate) fn datasets(&self) -> Http {
        let root = self.text("datasets").strip_suffix("/api").unwrap();
        Http::new(root, Some(self.text("api_key")))
    }

    /// Asks the inference service.
    pub(crate) fn inference(&self) -> Http {
        Http::new(self.text("inference"), Some(self.text("api_key")))
    }

    /// A member of the line that is a text.
    #[track_caller]
    pub(crate) fn text(&self, name: &str) -> &str {
        self.line.get(name).and_then(Value::as_str).unwrap()
    }

    /// A member of the line that is a list.
    #[track_caller]
    pub(crate) fn list(&self, name: &str) -> &[Value] {
        self.line.get(name).and_then(Value::as_array).unwrap()
    }

    /// Content id and method of the function called `name`.
    #[track_caller]
    pub(crate) fn function(&self, name: &str) -> (&str, &str) {
        let function = self.list("functions").iter().find(|function| function["name"] == name);
        let function = function.unwrap();
        (function["function_id"].as_str().unwrap(), function["method"].as_str().unwrap())
    }

    /// The peer ids of the workers in `subgroup`, or of all of them.
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
        let Some(mut service) = self.service.take() else { return };
        if std::thread::panicking() {
            return;
        }
        let mut pids = process::descendants(service.pid());
        pids.insert(service.pid());
        assert!(pids.len() >= 7, "itself, four nodes and two services run: {pids:?}");
        assert!(service.stop(), "the stack ends well");
        process::wait_gone(pids, process::GONE_WITHIN);
        assert_eq!(service.out().len(), 1, "one line on standard output");
    }
}
