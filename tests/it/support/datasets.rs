//! A dataset service that runs alone, with a key, and commands that speak to it.

use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::support::{
    command::Home,
    http::Http,
    process::{self, Signal},
    started::Started,
};

/// How long a service may take to listen where other tests and a compiler share two processors.
const LISTENS_WITHIN: Duration = Duration::from_mins(1);

/// A dataset service.
pub(crate) struct Service {
    started: Option<Started>,
    address: String,
    key: String,
    // Goes last: the service writes to it.
    folder: TempDir,
}

impl Service {
    /// Starts a service with an empty store.
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let data_dir = folder.path().display().to_string();
        let keys = Home::new();
        let key = keys.done(&["keys", "create", "it", "--data-dir", &data_dir]).trim().to_owned();
        let (started, address) = serve(&data_dir, "127.0.0.1:0", &[]);
        Self { started: Some(started), address, key, folder }
    }

    /// Kills it and starts it again at the same address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Kills it.
    pub(crate) fn kill(&mut self) {
        self.started.take().unwrap().kill();
    }

    /// Sends it a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        process::signal(self.started.as_ref().unwrap().pid(), signal);
    }

    /// Stops it.
    pub(crate) fn stop(&mut self) {
        assert!(self.started.take().unwrap().stop(), "the service ends well");
    }

    /// Starts it again at the same address.
    pub(crate) fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// Starts it again at the same address, with more flags.
    pub(crate) fn start_again_with(&mut self, more: &[&str]) {
        let listen = self.address.strip_prefix("http://").unwrap().to_owned();
        let data_dir = self.folder.path().display().to_string();
        let (started, address) = serve(&data_dir, &listen, more);
        assert_eq!(address, self.address);
        self.started = Some(started);
    }

    /// Takes its datasets away: the first one made after that has the number of the first before.
    pub(crate) fn forget_datasets(&mut self) {
        self.stop();
        for ending in ["", "-wal", "-shm"] {
            let path = self.folder.path().join(format!("datasets.db{ending}"));
            assert!(std::fs::remove_file(path).is_ok() || !ending.is_empty());
        }
        self.start_again();
    }

    /// The folder of its state.
    pub(crate) fn data_dir(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Its address, ending in `/api`.
    pub(crate) fn address(&self) -> String {
        format!("{}/api", self.address)
    }

    /// Its key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Asks it.
    pub(crate) fn http(&self) -> Http {
        Http::new(&self.address, Some(&self.key))
    }

    /// A home whose commands speak to it.
    pub(crate) fn home(&self) -> Home {
        Home::new().with("TRIPTYCH_DATASETS", &self.address()).with("TRIPTYCH_API_KEY", &self.key)
    }

    /// All rows of the dataset called `name`, as the service writes them.
    pub(crate) async fn rows(&self, name: &str) -> Vec<Value> {
        let path = format!("/api/rows/bulk_download/?dataset_name={name}");
        let body = self.http().get_ok(&path).await;
        body.as_array().unwrap().clone()
    }

    /// How many rows the dataset called `name` has; none where there is no such dataset.
    pub(crate) async fn n_rows(&self, name: &str) -> usize {
        let path = format!("/api/rows/bulk_download/?dataset_name={name}&output=csv");
        let (status, body) = self.http().get(&path).await;
        if status.is_success() { body.lines().count().saturating_sub(1) } else { 0 }
    }
}

fn serve(data_dir: &str, listen: &str, more: &[&str]) -> (Started, String) {
    let arguments = ["datasets", "serve", "--data-dir", data_dir, "--listen", listen];
    let started = Started::start(&[&arguments, more].concat());
    let address = started.logged("dataset service listening", "address", LISTENS_WITHIN);
    (started, format!("http://{address}"))
}
