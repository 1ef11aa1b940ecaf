//! A dataset service with an API key, and the commands that use it.

use serde_json::Value;
use tempfile::TempDir;

use crate::support::command::Home;
use crate::support::http::Http;
use crate::support::process::{self, Signal};
use crate::support::running::Running;

/// A dataset service.
pub(crate) struct Service {
    process: Option<Running>,
    address: String,
    key: String,
    // Directory of the service. Dropped last, since the service writes to it.
    folder: TempDir,
}

impl Service {
    /// Starts a service with an empty store.
    pub(crate) fn start() -> Self {
        let folder = TempDir::new().unwrap();
        let data_dir = folder.path().display().to_string();
        let create = ["keys", "create", "it", "--data-dir", &data_dir];
        let key = Home::new().run_ok(&create).trim().to_owned();
        let (process, address) = serve(&data_dir, "127.0.0.1:0", &[]);
        Self { process: Some(process), address, key, folder }
    }

    /// Starts a service with an empty store. Returns it with a home directory in which commands use it.
    pub(crate) fn with_home() -> (Self, Home) {
        let service = Self::start();
        let home = service.home();
        (service, home)
    }

    /// Kills the service and starts it again at the same address.
    pub(crate) fn restart(&mut self) {
        self.kill();
        self.start_again();
    }

    /// Kills the service.
    pub(crate) fn kill(&mut self) {
        self.process.take().unwrap().kill();
    }

    /// Sends a signal.
    pub(crate) fn signal(&self, signal: Signal) {
        process::signal(self.process.as_ref().unwrap().pid(), signal);
    }

    /// Stops the service.
    pub(crate) fn stop(&mut self) {
        assert!(self.process.take().unwrap().stop(), "the service exits with success");
    }

    /// Starts the service again at the same address, after it was stopped or killed.
    pub(crate) fn start_again(&mut self) {
        self.start_again_with(&[]);
    }

    /// Like [`Self::start_again`], with additional options.
    pub(crate) fn start_again_with(&mut self, options: &[&str]) {
        let listen = self.address.strip_prefix("http://").unwrap().to_owned();
        let (process, address) = serve(&self.data_dir(), &listen, options);
        assert_eq!(address, self.address);
        self.process = Some(process);
    }

    /// Deletes all datasets, so that new ids start from 1 again.
    pub(crate) fn delete_datasets(&mut self) {
        self.stop();
        for ending in ["", "-wal", "-shm"] {
            let path = self.folder.path().join(format!("datasets.db{ending}"));
            assert!(std::fs::remove_file(path).is_ok() || !ending.is_empty());
        }
        self.start_again();
    }

    /// Returns the path of the data directory.
    pub(crate) fn data_dir(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Returns the address, with the suffix `/api`.
    pub(crate) fn address(&self) -> String {
        format!("{}/api", self.address)
    }

    /// Returns the API key.
    pub(crate) fn key(&self) -> &str {
        &self.key
    }

    /// Returns a client of the service.
    pub(crate) fn http(&self) -> Http {
        Http::new(&self.address, Some(&self.key))
    }

    /// Returns a home directory in which commands use the service.
    pub(crate) fn home(&self) -> Home {
        Home::new().with("TRIPTYCH_DATASETS", &self.address()).with("TRIPTYCH_API_KEY", &self.key)
    }

    /// Returns all rows of the dataset `name` in the form in which the service writes them.
    pub(crate) async fn rows(&self, name: &str) -> Vec<Value> {
        let path = format!("/api/rows/bulk_download/?dataset_name={name}");
        let body = self.http().get_ok(&path).await;
        body.as_array().unwrap().clone()
    }

    /// Returns the number of rows of the dataset `name`, 0 if there is no such dataset.
    pub(crate) async fn n_rows(&self, name: &str) -> usize {
        let path = format!("/api/rows/?dataset_name={name}&start=0001-01-01T00:00:00Z&limit=1");
        let (status, body) = self.http().get(&path).await;
        let page: Value = serde_json::from_str(&body).unwrap();
        if status.is_success() {
            usize::try_from(page["count"].as_u64().unwrap()).unwrap()
        } else {
            0
        }
    }
}

fn serve(data_dir: &str, listen: &str, options: &[&str]) -> (Running, String) {
    let arguments = ["datasets", "serve", "--data-dir", data_dir, "--listen", listen];
    let process = Running::start(&[&arguments, options].concat());
    let address = process.wait_log_field("dataset service listening", "address");
    (process, format!("http://{address}"))
}
