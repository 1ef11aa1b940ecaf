//! The service in a process of its own: started, asked, looked at and stopped.

use std::{
    env, fs,
    fs::File,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
    process::Stdio,
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    process::{Child, Command},
    time::{Instant, sleep, timeout},
};

use crate::{
    Outcome,
    connection::{Connection, Request},
    rows::{Asked, Row, millions},
};

/// How long the service may take to start, and to stop.
const WITHIN: Duration = Duration::from_mins(2);

/// How often to look whether it has.
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// Ticks of the system's clock for processor time in a second, on every Linux there is.
const TICKS: u32 = 100;

/// What is given to the service where it takes it: a bench is one caller, and no flood.
const UNLIMITED: &str = "--unlimited-loopback";

/// A service, and where it keeps what it has.
#[derive(Debug)]
pub(crate) struct Bench {
    program: PathBuf,
    folder: TempDir,
    running: Option<Child>,
    /// Where it listens.
    pub(crate) address: SocketAddr,
    /// A key that owns what it creates.
    pub(crate) key: String,
    is_limited: bool,
    /// The address of the database with its store; none where that is in the folder.
    store: Option<String>,
    /// The core that it runs on; none for all.
    core: Option<usize>,
}

/// The processor time of a process.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Usage {
    /// The process that started it.
    pub(crate) parent: u32,
    /// What it has taken itself.
    pub(crate) own: Duration,
    /// What those took that it started and that have ended.
    pub(crate) of_ended: Duration,
}

/// The large dataset, full.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Loaded {
    /// Its number.
    pub(crate) dataset: i64,
    /// Its rows.
    pub(crate) n_rows: usize,
    /// How many of them went in a second.
    pub(crate) rate: f64,
}

impl Loaded {
    /// The figure.
    pub(crate) fn row(&self) -> Row {
        let name = "bulk_insert, NDJSON batches of 1 000, one connection";
        Row::new(name, millions(self.rate), "0.25 M rows/s at least", self.rate >= 0.25e6)
    }
}

impl Bench {
    /// Starts the service in a new folder, with a key; its store may be in a database.
    pub(crate) async fn start(asked: &Asked, store: Option<String>) -> Outcome<Self> {
        let program = fs::canonicalize(&asked.program)?;
        let folder = asked.make_folder()?;
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

    /// Another service on the same database, which has none running.
    pub(crate) fn replica(&self, asked: &Asked) -> Outcome<Self> {
        Ok(Self {
            program: self.program.clone(),
            folder: asked.make_folder()?,
            running: None,
            key: self.key.clone(),
            store: self.store.clone(),
            ..*self
        })
    }

    /// Starts the service as [`Self::run`] does, on one core of the machine.
    pub(crate) async fn run_on(&mut self, core: usize) -> Outcome<Duration> {
        self.core = Some(core);
        self.run().await
    }

    /// Starts the service, which has none running. Returns how long it took until it answered.
    pub(crate) async fn run(&mut self) -> Outcome<Duration> {
        // Free now, and nobody else is about to take it.
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
                let answer = connection.ask(&health).await?;
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

    /// Stops the service as an operator would, and waits until it is gone.
    pub(crate) async fn stop(&mut self) -> Outcome<()> {
        let Some(mut child) = self.running.take() else { return Ok(()) };
        drop(child.stdin.take());
        timeout(WITHIN, child.wait()).await??;
        Ok(())
    }

    /// Stops it and starts it again. Returns how long it took until it answered.
    pub(crate) async fn restart(&mut self) -> Outcome<Duration> {
        self.stop().await?;
        self.run().await
    }

    /// A connection to the service.
    pub(crate) async fn connect(&self) -> Outcome<Connection> {
        Connection::open(self.address).await
    }

    /// Creates a dataset of columns of numbers, and returns its number.
    pub(crate) async fn create(&self, name: &str, columns: &[&str]) -> Outcome<i64> {
        let columns: Vec<Value> =
            columns.iter().map(|name| json!({"name": name, "dtype": "float"})).collect();
        let body = json!({"name": name, "columns": columns}).to_string();
        let request = Request::post("/api/datasets/", &self.key, "application/json", &body);
        let answer = self.connect().await?.ask(&request).await?;
        let created: Value = serde_json::from_slice(&answer.body)?;
        Ok(created["id"].as_i64().ok_or_else(|| created.to_string())?)
    }

    /// The store's file.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("datasets.db")
    }

    /// Bytes of memory that the service holds now.
    pub(crate) fn resident_bytes(&self) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid()?))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next()).ok_or("no VmRSS")?;
        Ok(kib.parse::<u64>()? * 1024)
    }

    /// Processor time that the service has taken so far.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        Ok(Usage::of(self.pid()?)?.own)
    }

    fn pid(&self) -> Outcome<u32> {
        Ok(self.running.as_ref().and_then(Child::id).ok_or("the service has ended")?)
    }
}

impl Usage {
    /// Reads that of process `pid`.
    pub(crate) fn of(pid: u32) -> Outcome<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat"))?;
        let (_, fields) = stat.rsplit_once(") ").ok_or("no stat")?;
        // The first field here is the third, the state.
        let number = |field: usize| -> Outcome<u32> {
            Ok(fields.split(' ').nth(field - 3).ok_or("a short stat")?.parse()?)
        };
        let time = |ticks: u32| Duration::from_secs(1) * ticks / TICKS;
        let own = time(number(14)? + number(15)?);
        let of_ended = time(number(16)? + number(17)?);
        Ok(Self { parent: number(4)?, own, of_ended })
    }
}

/// The program, with nothing of what the user of this machine has, and with its store in a database
/// or not.
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

/// The first API key in what a program wrote.
fn key_in(output: &[u8]) -> Outcome<String> {
    let text = String::from_utf8_lossy(output);
    let (_, rest) = text.split_once("UP-").ok_or("no key was created")?;
    Ok(format!("UP-{}", rest.chars().take(24).collect::<String>()))
}
