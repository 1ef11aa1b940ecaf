//! Measures `PostgreSQL` for comparison: `COPY` of plain rows into a server and out of it, by one client
//! on the same machine. Also compares `COPY` out of a server with a service that stores its rows on this
//! server.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{MetadataExt as _, chown};
use std::process::Stdio;
use std::time::Duration;

use tempfile::TempDir;
use test_bench::http::Request;
use test_bench::process::CpuTime;
use test_bench::{Row, note, per_second};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::market::{COLUMNS, Market};
use crate::program::Bench;
use crate::rows::Options;
use crate::{Outcome, ingest};

/// User id (`nobody`) for the server process if the benchmark runs as root, since `PostgreSQL` refuses
/// to run as root.
const NOBODY: u32 = 65_534;

/// Time limit for the start of the server.
const WITHIN: Duration = Duration::from_secs(30);

/// Number of rows that are sent at a time, about as many as a client of the service sends.
const PART_ROWS: usize = 1_000;

/// Number of repetitions of each download. Only the fastest is reported, since other programs also use
/// the machine.
const N_TAKES: usize = 5;

/// Number of bytes that are read from the server at a time.
const READ_BYTES: usize = 1 << 18;

/// Statement that exports all rows in the same order as a service.
const COPY_OUT: &str = "COPY (SELECT * FROM plain ORDER BY ts) TO STDOUT (FORMAT csv)";

/// A `PostgreSQL` server with its own data directory.
#[derive(Debug)]
pub(crate) struct Server {
    running: Child,
    address: SocketAddr,
    _folder: TempDir,
}

/// Returns true if `PostgreSQL` is installed.
pub(crate) async fn is_installed() -> bool {
    Command::new("initdb").arg("--version").stdout(Stdio::null()).status().await.is_ok()
}

/// Returns the rows per second of a `COPY` of `n_rows` bars: into a table without an index, and into a
/// table with the timestamp as key. Returns `None` if `PostgreSQL` is not installed.
pub(crate) async fn copy(options: &Options, n_rows: usize) -> Outcome<Option<[f64; 2]>> {
    if !is_installed().await {
        return Ok(None);
    }
    let server = Server::start(options).await?;
    let mut market = Market::new();
    let mut parts = Vec::new();
    for _ in 0..n_rows.div_ceil(PART_ROWS) {
        parts.push(market.csv(PART_ROWS));
    }
    let mut rates = [0.0; 2];
    for (rate, (table, key)) in rates.iter_mut().zip([("plain", ""), ("keyed", " PRIMARY KEY")]) {
        let mut session = Session::open(server.address).await?;
        session.create(table, key).await?;
        let began = Instant::now();
        session.copy(&format!("COPY {table} FROM STDIN (FORMAT csv)"), &parts).await?;
        *rate = per_second(parts.len() * PART_ROWS, began.elapsed());
    }
    server.stop().await?;
    Ok(Some(rates))
}

/// Compares the CSV download of all rows of a service with `COPY` of a plain table. Both are on the same
/// server. Returns no figures if `PostgreSQL` is not installed.
pub(crate) async fn bulk_csv(options: &Options) -> Outcome<Vec<Row>> {
    if !is_installed().await {
        return Ok(Vec::new());
    }
    let server = Server::start(options).await?;
    let mut bench = Bench::start(options, Some(server.url())).await?;
    let loaded = ingest::load(&bench, options.n_rows).await?;
    let mut session = Session::open(server.address).await?;
    session.create("plain", " PRIMARY KEY").await?;
    let mut market = Market::new();
    let parts: Vec<_> =
        (0..options.n_rows.div_ceil(PART_ROWS)).map(|_| market.csv(PART_ROWS)).collect();
    session.copy("COPY plain FROM STDIN (FORMAT csv)", &parts).await?;
    session.run("VACUUM ANALYZE plain").await?;
    let path = format!("/api/rows/bulk_download/?dataset={}&output=csv", loaded.dataset);
    let request = Request::get(&path, &bench.key);
    let (mut best, mut by_hand) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..N_TAKES {
        let mut connection = bench.connect().await?;
        let began = Instant::now();
        let drained = connection.drain(&request, b'\n').await?;
        let took = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let n_copied = session.copy_out(COPY_OUT).await?;
        let copied_in = began.elapsed().as_secs_f64();
        if drained.status != 200 || drained.n_marks != loaded.n_rows + 1 || n_copied < loaded.n_rows
        {
            return Err(format!("{} and {n_copied} rows came", drained.n_marks).into());
        }
        note(&format!("csv: {took:.3} s from the service, {copied_in:.3} s by COPY"))?;
        (best, by_hand) = (best.min(took), by_hand.min(copied_in));
    }
    bench.stop().await?;
    server.stop().await?;
    let ratio = best / by_hand;
    let name = "bulk_download as csv out of PostgreSQL, time over COPY of plain rows to CSV";
    let value = format!("{best:.2} s / {by_hand:.2} s = {ratio:.2}");
    Ok(vec![Row::new(name, value, "1 at most", ratio <= 1.0)])
}

impl Server {
    /// Returns the address of the database.
    pub(crate) fn url(&self) -> String {
        format!("postgres://bench@{}/postgres", self.address)
    }

    /// Returns the processor time of all processes of the server together.
    pub(crate) fn cpu(&self) -> Outcome<Duration> {
        let pid = self.running.id().ok_or("the server has ended")?;
        let of_server = CpuTime::of(pid)?;
        let mut cpu = of_server.own + of_server.of_children;
        for entry in fs::read_dir("/proc")? {
            let Ok(child) = entry?.file_name().to_string_lossy().parse() else { continue };
            // Skips processes that exit meanwhile.
            if let Ok(usage) = CpuTime::of(child)
                && usage.parent == pid
            {
                cpu += usage.own;
            }
        }
        Ok(cpu)
    }

    /// Kills the server, since its data is no longer needed.
    pub(crate) async fn stop(mut self) -> Outcome<()> {
        Ok(self.running.kill().await?)
    }

    /// Starts a server and waits until it accepts connections.
    pub(crate) async fn start(options: &Options) -> Outcome<Self> {
        let folder = options.make_folder()?;
        let is_root = fs::metadata("/proc/self")?.uid() == 0;
        if is_root {
            chown(folder.path(), Some(NOBODY), Some(NOBODY))?;
        }
        let command = |program: &str| {
            let mut command = Command::new(program);
            command.stdout(Stdio::null()).stderr(Stdio::null()).current_dir("/");
            if is_root {
                command.uid(NOBODY).gid(NOBODY);
            }
            command
        };
        let data = folder.path().join("data");
        let made = command("initdb")
            .args(["--auth", "trust", "--username", "bench", "--encoding", "UTF8", "--pgdata"])
            .arg(&data)
            .status()
            .await?;
        if !made.success() {
            return Err(format!("initdb ended with {made}").into());
        }
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
        let address = listener.local_addr()?;
        drop(listener);
        let mut running = command("postgres");
        running.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &address.port().to_string()]);
        running.arg("-k").arg(folder.path()).kill_on_drop(true);
        let server = Self { running: running.spawn()?, address, _folder: folder };
        let began = Instant::now();
        while Session::open(address).await.is_err() {
            if began.elapsed() > WITHIN {
                return Err("PostgreSQL did not start".into());
            }
            sleep(Duration::from_millis(20)).await;
        }
        Ok(server)
    }
}

/// A connection to the server, with version 3 of the protocol.
struct Session {
    stream: TcpStream,
}

impl Session {
    async fn open(address: SocketAddr) -> Outcome<Self> {
        let mut session = Self { stream: TcpStream::connect(address).await? };
        let mut start = 196_608_u32.to_be_bytes().to_vec();
        start.extend_from_slice(b"user\0bench\0database\0postgres\0\0");
        let length = u32::try_from(start.len() + 4)?;
        session.stream.write_all(&length.to_be_bytes()).await?;
        session.stream.write_all(&start).await?;
        session.await_kind(b'Z').await?;
        Ok(session)
    }

    /// Runs a statement that returns no rows.
    async fn run(&mut self, statement: &str) -> Outcome<()> {
        self.send(b'Q', &[statement.as_bytes(), b"\0"].concat()).await?;
        self.await_kind(b'Z').await
    }

    /// Creates a table of bars.
    async fn create(&mut self, table: &str, key: &str) -> Outcome<()> {
        let columns: Vec<_> =
            COLUMNS.iter().map(|name| format!("{name} double precision")).collect();
        self.run(&format!("CREATE TABLE {table} (ts timestamptz{key}, {})", columns.join(", ")))
            .await
    }

    /// Runs a `COPY` from the server to this process. Returns the number of rows.
    async fn copy_out(&mut self, statement: &str) -> Outcome<usize> {
        self.send(b'Q', &[statement.as_bytes(), b"\0"].concat()).await?;
        let mut stream = BufReader::with_capacity(READ_BYTES, &mut self.stream);
        let (mut n_rows, mut body) = (0, Vec::new());
        loop {
            let found = stream.read_u8().await?;
            let length = usize::try_from(stream.read_u32().await?)?.saturating_sub(4);
            body.resize(length, 0);
            stream.read_exact(&mut body).await?;
            match found {
                b'd' => n_rows += 1,
                b'E' => return Err(String::from_utf8_lossy(&body).replace('\0', " ").into()),
                b'Z' => return Ok(n_rows),
                _ => {}
            }
        }
    }

    async fn copy(&mut self, statement: &str, parts: &[String]) -> Outcome<()> {
        self.send(b'Q', &[statement.as_bytes(), b"\0"].concat()).await?;
        self.await_kind(b'G').await?;
        for part in parts {
            self.send(b'd', part.as_bytes()).await?;
        }
        self.send(b'c', b"").await?;
        self.await_kind(b'Z').await
    }

    async fn send(&mut self, kind: u8, body: &[u8]) -> Outcome<()> {
        let length = u32::try_from(body.len() + 4)?.to_be_bytes();
        self.stream.write_all(&[&[kind], length.as_slice(), body].concat()).await?;
        Ok(())
    }

    /// Reads messages up to the first message of the given kind.
    async fn await_kind(&mut self, kind: u8) -> Outcome<()> {
        loop {
            let found = self.stream.read_u8().await?;
            let length = usize::try_from(self.stream.read_u32().await?)?.saturating_sub(4);
            let mut body = vec![0; length];
            self.stream.read_exact(&mut body).await?;
            if found == b'E' {
                return Err(String::from_utf8_lossy(&body).replace('\0', " ").into());
            }
            if found == kind {
                return Ok(());
            }
        }
    }
}
