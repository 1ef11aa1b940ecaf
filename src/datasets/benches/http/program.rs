//! The measured service, which runs in its own process.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use std::{env, fs};

use serde_json::{Value, json};
use tempfile::TempDir;
use test_bench::Row;
use test_bench::http::{Connection, Request};
use test_bench::process::{CpuTime, resident_bytes};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::Outcome;
use crate::rows::{Options, millions};

/// Time limit for starting and stopping the service.
const WITHIN: Duration = Duration::from_mins(2);

/// Interval at which the bench checks that the service has started or stopped.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Option that disables rate limits, for programs that have them.
const UNLIMITED: &str = "--unlimited-loopback";

/// A service and its data directory.
#[derive(Debug)]
pub(crate) struct Bench {
    program: PathBuf,
    folder: TempDir,
    running: Option<Child>,
    /// Address that the service listens on.
    pub(crate) address: SocketAddr,
    /// API key of the benchmark. The key owns all datasets that the benchmark creates.
    pub(crate) key: String,
    is_limited: bool,
    /// Address of the store's database; `None` if the store is a file in the directory.
    store: Option<String>,
    /// Core to which the service is restricted; `None` for all cores.
    core: Option<usize>,
}

/// A dataset that was filled with rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loaded {
    /// Number of the dataset.
    pub(crate) dataset: i64,
    /// Number of rows.
    pub(crate) n_rows: usize,
    /// Number of rows inserted per second.
    pub(crate) rate: f64,
}

impl Loaded {
    /// Returns the rate of inserts as a line of the table.
    pub(crate) fn row(&self) -> Row {
        let name = "bulk_insert, NDJSON batches of 1 000, one connection";
        Row::new(name, millions(self.rate), "0.25 M rows/s at least", self.rate >= 0.25e6)
    }
}

impl Bench {
    /// Starts the service in a new directory, with an API key and, if `store` is given, with a database.
    pub(crate) async fn start(options: &Options, store: Option<String>) -> Outcome<Self> {
        let program = fs::canonicalize(&options.program)?;
        let folder = options.make_folder()?;
        let mut keys = command(&program, folder.path(), store.as_deref());
        keys.args(["keys", "create", "bench"]).arg("--data-dir").arg(folder.path());
        let key = key_in(&keys.output().await?.stdout)?;
        let mut help = command(&program, folder.path(), None);
        help.args(["datasets", "serve", "--help"]);
        let help = String::from_utf8_lossy(&help.output().await?.stdout).into_owned();
        let is_limited = help.contains(UNLIMITED);
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let running = None;
        let mut bench =
            Self { program, folder, running, address, key, is_limited, store, core: None };
        bench.run().await?;
        Ok(bench)
    }

    /// Creates another service on the same database, without starting it.
    pub(crate) fn replica(&self, options: &Options) -> Outcome<Self> {
        Ok(Self {
            program: self.program.clone(),
            folder: options.make_folder()?,
            running: None,
            key: self.key.clone(),
            store: self.store.clone(),
            ..*self
        })
    }

    /// Starts the stopped service like [`Self::run`], but restricts it to one core of the machine.
    pub(crate) async fn run_on(&mut self, core: usize) -> Outcome<Duration> {
        self.core = Some(core);
        self.run().await
    }

    /// Starts the stopped service. Returns the time until it responded.
    pub(crate) async fn run(&mut self) -> Outcome<Duration> {
        // The listener is closed again, but another process is unlikely to get its port before the
        // service.
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        self.address = listener.local_addr()?;
        drop(listener);
        let log = File::options().create(true).append(true).open(self.folder.path().join("log"))?;
        let program = if self.core.is_some() { Path::new("taskset") } else { &self.program };
        let mut command = command(program, self.folder.path(), self.store.as_deref());
        if let Some(core) = self.core {
            command.arg("--cpu-list").arg(core.to_string()).arg(&self.program);
        }
        command.args(["datasets", "serve", "--stop-with-stdin", "--listen"]);
        command.arg(self.address.to_string()).arg("--data-dir").arg(self.folder.path());
        if self.is_limited {
            command.arg(UNLIMITED);
        }
        command.stdin(Stdio::piped()).stderr(log.try_clone()?).stdout(log).kill_on_drop(true);
        let began = Instant::now();
        self.running = Some(command.spawn()?);
        let health = Request::get("/health", "");
        loop {
            if let Ok(mut connection) = Connection::open(self.address).await {
                let answer = connection.send(&health).await?;
                return if answer.status == 200 { Ok(began.elapsed()) } else { answer.failed() };
            }
            let ended = self.running.as_mut().and_then(|child| child.try_wait().transpose());
            if began.elapsed() > WITHIN || ended.is_some() {
                let log = fs::read_to_string(self.folder.path().join("log"))?;
                let end = log.lines().rev().take(5).collect::<Vec<_>>().join("\n");
                return Err(format!("the service did not start: {end}").into());
            }
            sleep(LOOK_EVERY).await;
        }
    }

    /// Stops the service as an operator would, and waits until it has exited.
    pub(crate) async fn stop(&mut self) -> Outcome<()> {
        let Some(mut child) = self.running.take() else { return Ok(()) };
        drop(child.stdin.take());
        timeout(WITHIN, child.wait()).await??;
        Ok(())
    }

    /// Stops the service and starts it again. Returns the time until it responded.
    pub(crate) async fn restart(&mut self) -> Outcome<Duration> {
        self.stop().await?;
        self.run().await
    }

    /// Opens a connection to the service.
    pub(crate) async fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.address).await
    }

    /// Creates a dataset with numeric columns and returns its number.
    pub(crate) async fn create(&self, name: &str, columns: &[&str]) -> Outcome<i64> {
        let columns: Vec<Value> =
            columns.iter().map(|name| json!({"name": name, "dtype": "float"})).collect();
        let body = json!({"name": name, "columns": columns}).to_string();
        let request = Request::post("/api/datasets/", &self.key, "application/json", &body);
        let answer = self.connect().await?.send(&request).await?;
        let created: Value = serde_json::from_slice(&answer.body)?;
        Ok(created["id"].as_i64().ok_or_else(|| created.to_string())?)
    }

    /// Returns the path of the store's file.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("datasets.db")
    }

    /// Returns the resident memory of the service in bytes.
    pub(crate) fn resident_bytes(&self) -> Outcome<u64> {
        resident_bytes(self.pid()?)
    }

    /// Returns the processor time of the service.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        Ok(CpuTime::of(self.pid()?)?.own)
    }

    fn pid(&self) -> Outcome<u32> {
        Ok(self.running.as_ref().and_then(Child::id).ok_or("the service has ended")?)
    }
}

/// Returns the command that runs the program with its own configuration and, if `store` is given, with a
/// store in this database.
fn command(program: &Path, folder: &Path, store: Option<&str>) -> Command {
    let mut command = Command::new(program);
    command.env("HOME", folder).env_remove("TRIPTYCH_DATA_DIR").env_remove("TRIPTYCH_API_KEY");
    command.env_remove("TRIPTYCH_STORE").envs(store.map(|store| ("TRIPTYCH_STORE", store)));
    for (name, _) in env::vars_os() {
        if name.to_string_lossy().starts_with("XDG_") {
            command.env_remove(name);
        }
    }
    command
}

/// Returns the first API key in the output of a program.
fn key_in(output: &[u8]) -> Outcome<String> {
    let text = String::from_utf8_lossy(output);
    let (_, rest) = text.split_once("UP-").ok_or("no key was created")?;
    Ok(format!("UP-{}", rest.chars().take(24).collect::<String>()))
}
