//! PostgreSQL for tests: a new database for each test on a temporary server.
//!
//! The first test process of a run starts the server. Other test processes of the same source tree share
//! the server. `server.sh` stops it half a minute after the last of these processes has exited.
//! `TRIPTYCH_TEST_POSTGRES` is the address of another server to use instead. `POSTGRES_BIN` is the
//! directory of PostgreSQL's programs, to test with another version than the installed one.
//!
//! ```no_run
//! # fn test() {
//! let Some(url) = test_postgres::new_database() else { return };
//! # }
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in the harness")]
#![expect(clippy::expect_used, reason = "as above")]
#![expect(clippy::panic, reason = "as above")]
#![expect(
    clippy::zombie_processes,
    reason = "the script that watches the test processes outlives them"
)]
#![expect(clippy::disallowed_methods, reason = "there is no runtime to sleep on")]

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{Read as _, Seek as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Once, OnceLock};
use std::time::Duration;
use std::{env, fs, thread};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::runtime::Builder;

/// Directories in which distributions install the server, with one subdirectory per version.
const INSTALLED: [&str; 4] =
    ["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt", "/usr/local/opt"];

/// Script that starts and stops the server.
const SCRIPT: &str = include_str!("server.sh");

/// Directory of the server that this process uses.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// Pause between two checks that the server has started.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the address of a new, empty database. Returns `None` if no server is available, which the first
/// call of a process reports on standard error. The database is dropped after the process has exited.
///
/// Blocks, but can be called from a task.
pub fn new_database() -> Option<String> {
    /// Number of databases that this process has created.
    static N_DATABASES: AtomicU32 = AtomicU32::new(0);
    let server = server()?;
    let nth = N_DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{nth}", process::id());
    run(&format!("{server}/postgres"), &format!("CREATE DATABASE {name} TEMPLATE template0"));
    Some(format!("{server}/{name}"))
}

/// Returns the address of a new, empty database behind `PgBouncer` in transaction mode, or `None` if
/// it is unavailable.
///
/// Blocks, but can be called from a task.
pub fn new_pooled_database() -> Option<String> {
    let url = new_database()?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let folder = FOLDER.get()?;
    let Ok(address) = fs::read_to_string(folder.join("pooled")) else {
        report("tests on PgBouncer are skipped: pgbouncer is not installed");
        return None;
    };
    Some(format!("{address}/{name}"))
}

/// Dumps the database at `url` as SQL to the file at `path`, for [`stored_database`].
///
/// Blocks.
pub fn dump(url: &str, path: &Path) {
    let mut dump = Command::new("pg_dump");
    dump.args(["--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=100", url]);
    let output = dump.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "pg_dump: {}", output.status);
    // Omits comments, commands of psql, and settings that older servers do not support.
    let text = String::from_utf8(output.stdout).unwrap();
    let skipped = ["--", "\\", "SET "];
    let lines = text.lines().filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !skipped.iter().any(|start| line.starts_with(start)));
    let lines: Vec<&str> = lines.collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Returns the address of a new database with the contents that [`dump`] wrote to the file at `path`, or
/// `None` if no server is available.
///
/// Blocks, but can be called from a task.
pub fn stored_database(path: &Path) -> Option<String> {
    let url = new_database()?;
    run(&url, &fs::read_to_string(path).unwrap());
    Some(url)
}

/// Runs statements, separated by semicolons, in the database at `url`.
///
/// Blocks, but can be called from a task.
pub fn run(url: &str, sql: &str) {
    with_connection(url, async |mut connection| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.expect(sql);
    });
}

/// Runs a query in the database at `url` and returns the number that it selects.
///
/// Blocks, but can be called from a task.
pub fn number(url: &str, sql: &str) -> i64 {
    with_connection(url, async |mut connection| {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.expect(sql)
    })
}

/// Runs `work` with a connection to the database at `url`, on a thread with its own runtime.
///
/// Blocks, but can be called from a task.
pub fn with_connection<T: Send>(url: &str, work: impl AsyncFnOnce(PgConnection) -> T + Send) -> T {
    let connect = || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(PgConnection::connect(url).await.unwrap()).await })
    };
    thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

/// Returns the directory with PostgreSQL's programs, or `None` if it is not installed.
pub fn programs() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("POSTGRES_BIN") {
        return Some(folder.into());
    }
    let on_path = env::var_os("PATH").unwrap_or_default();
    let installed = INSTALLED.into_iter().filter_map(|folder| fs::read_dir(folder).ok());
    let mut versions: Vec<_> =
        installed.flatten().flatten().map(|version| version.path().join("bin")).collect();
    versions.sort();
    let mut folders = env::split_paths(&on_path).chain(versions.into_iter().rev());
    folders.find(|folder| folder.join("initdb").is_file() && folder.join("pg_ctl").is_file())
}

/// Returns the address of the server without the name of a database:
/// `postgres://user:password@host:port`.
fn server() -> Option<&'static str> {
    static SERVER: OnceLock<Option<String>> = OnceLock::new();
    SERVER.get_or_init(find_server).as_deref()
}

fn find_server() -> Option<String> {
    if let Ok(address) = env::var("TRIPTYCH_TEST_POSTGRES") {
        return Some(address);
    }
    let Some(programs) = programs() else {
        report("tests on PostgreSQL are skipped: initdb is not installed");
        return None;
    };
    // The name contains the user, since another user of the same source tree has another server.
    let mut hash = DefaultHasher::new();
    (env!("CARGO_MANIFEST_DIR"), env::var_os("USER"), &programs).hash(&mut hash);
    let path = env::temp_dir().join(format!("triptych-postgres-{:016x}", hash.finish()));
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let mut known = options.open(path).unwrap();
    // The lock is held until the file is closed, so that one process starts the server while other
    // processes wait.
    known.lock().unwrap();
    let mut folder = String::new();
    known.read_to_string(&mut folder).unwrap();
    Some(join(Path::new(&folder)).unwrap_or_else(|| start(&programs, &mut known)))
}

/// Writes a line to standard error, but only once. `eprintln` would be hidden by the test harness if the
/// test succeeds.
fn report(line: &str) {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
    });
}

/// Registers this process as a user of the server in `folder`. Returns the address of the server, or
/// `None` if it is not running.
fn join(folder: &Path) -> Option<String> {
    File::create(folder.join("users").join(process::id().to_string())).ok()?;
    let address = fs::read_to_string(folder.join("address")).ok()?;
    let (_, place) = address.rsplit_once('@')?;
    TcpStream::connect(place).ok()?;
    FOLDER.get_or_init(|| folder.to_owned());
    Some(address)
}

/// Starts a server and writes the path of its directory to the file `known`.
fn start(programs: &Path, known: &mut File) -> String {
    let folder = tempfile::Builder::new().prefix("triptych-postgres-").tempdir().unwrap().keep();
    fs::create_dir(folder.join("users")).unwrap();
    // If another process takes one of the ports before the server does, the start and the tests fail.
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [port, pooled_port] = listeners.map(|it| it.local_addr().unwrap().port());
    let secret = fs::read_to_string("/proc/sys/kernel/random/uuid").unwrap_or_default();
    let mut hash = DefaultHasher::new();
    (&folder, secret).hash(&mut hash);
    let password = format!("{:016x}", hash.finish());
    let address = format!("postgres://postgres:{password}@127.0.0.1:{port}");
    let pgbouncer = format!(
        "[databases]\n* = host=127.0.0.1 port={port} user=postgres password={password}\n\
         [pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {pooled_port}\nunix_socket_dir =\n\
         auth_type = any\npool_mode = transaction\nmax_client_conn = 1000\ndefault_pool_size = 4\n"
    );
    for (name, text) in [
        ("pgbouncer.ini", pgbouncer.as_str()),
        ("pooled_port", &pooled_port.to_string()),
        ("password", &password),
        ("pgpass", &format!("127.0.0.1:{port}:*:postgres:{password}")),
        ("address", &address),
        ("server.sh", SCRIPT),
    ] {
        let mut options = OpenOptions::new();
        let mut file = options.create_new(true).write(true).mode(0o600).open(folder.join(name));
        file.as_mut().unwrap().write_all(text.as_bytes()).unwrap();
    }
    let log = File::create(folder.join("log")).unwrap();
    let mut script = Command::new("sh");
    script.arg(folder.join("server.sh")).arg(programs).arg(&folder).arg(port.to_string());
    // The script outlives this process and must not receive the interrupts of its process group.
    script.process_group(0).stdin(Stdio::null());
    let mut script =
        script.stdout(log.try_clone().unwrap()).stderr(log).spawn().expect("sh is installed");
    while !folder.join("ready").exists() {
        if let Some(status) = script.try_wait().unwrap() {
            let log = fs::read_to_string(folder.join("log"));
            let log = log.unwrap_or_else(|error| error.to_string());
            panic!("a PostgreSQL server starts in {}: {status}: {log}", folder.display());
        }
        thread::sleep(PAUSE);
    }
    known.set_len(0).unwrap();
    known.rewind().unwrap();
    known.write_all(folder.as_os_str().as_encoded_bytes()).unwrap();
    join(&folder).expect("the server has just started")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_new_test_database_is_empty() {
        let databases: Option<Vec<_>> = (0..2).map(|_| new_database()).collect();
        for url in databases.into_iter().flatten() {
            run(&url, "CREATE TABLE things (id bigint PRIMARY KEY)");
            assert_eq!(number(&url, "SELECT count(*) FROM things"), 0);
        }
    }
}
