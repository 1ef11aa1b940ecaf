//! PostgreSQL for tests: a new database for each, on a throw-away server.
//!
//! The first test process of a run starts the server, the others of the same source tree join it, and
//! `server.sh` ends it half a minute after the last of them ended, however that happened. Where the address
//! of a server is in `TRIPTYCH_TEST_POSTGRES`, that one is used and left alone. `POSTGRES_BIN` names the
//! folder of another version's programs.
//!
//! ```no_run
//! # fn test() {
//! let Some(url) = test_postgres::new_database() else { return };
//! # }
//! ```

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what tests share")]
#![expect(clippy::expect_used, reason = "as above")]
#![expect(clippy::panic, reason = "as above")]
#![expect(
    clippy::zombie_processes,
    reason = "the script that watches the test processes outlives them"
)]
#![expect(clippy::disallowed_methods, reason = "there is no runtime to sleep on")]

use std::{
    env, fs,
    fs::{File, OpenOptions},
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io::{Read as _, Seek as _, Write as _},
    net::{TcpListener, TcpStream},
    os::unix::{fs::OpenOptionsExt as _, process::CommandExt as _},
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::{
        Once, OnceLock,
        atomic::{AtomicU32, Ordering},
    },
    thread,
    time::Duration,
};

use sqlx::{AssertSqlSafe, Connection as _, PgConnection};
use tokio::runtime::Builder;

/// Folders in which distributions put the programs of a server, each with a folder for every version.
const INSTALLED: [&str; 4] =
    ["/usr/lib/postgresql", "/usr/pgsql", "/opt/homebrew/opt", "/usr/local/opt"];

/// The script that starts, watches and ends the server.
const SCRIPT: &str = include_str!("server.sh");

/// Folder of the server that this process uses.
static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// The pause between two looks whether the server has started.
const PAUSE: Duration = Duration::from_millis(20);

/// Returns the address of a new and empty database; `None` if there is no server to be had, which the
/// first call of a process reports in a line. The server drops it when the process has ended.
///
/// Blocks, and may be called from a task, too.
pub fn new_database() -> Option<String> {
    /// Counts the databases of this process.
    static N_DATABASES: AtomicU32 = AtomicU32::new(0);
    let server = server()?;
    let nth = N_DATABASES.fetch_add(1, Ordering::Relaxed);
    let name = format!("test_{}_{nth}", process::id());
    run(&format!("{server}/postgres"), &format!("CREATE DATABASE {name} TEMPLATE template0"));
    Some(format!("{server}/{name}"))
}

/// Returns the address of a new and empty database behind `PgBouncer` in transaction mode; `None` if there is
/// none to be had.
///
/// Blocks, and may be called from a task, too.
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

/// Writes the database at `url` to the file at `path` as statements, for [`stored_database`].
///
/// Blocks.
pub fn dump(url: &str, path: &Path) {
    let mut dump = Command::new("pg_dump");
    dump.args(["--no-owner", "--no-privileges", "--inserts", "--rows-per-insert=100", url]);
    let output = dump.stdin(Stdio::null()).stderr(Stdio::inherit()).output().unwrap();
    assert!(output.status.success(), "pg_dump: {}", output.status);
    // Without comments, commands of psql, and settings that older servers do not know.
    let text = String::from_utf8(output.stdout).unwrap();
    let skipped = ["--", "\\", "SET "];
    let lines = text.lines().filter(|line| !line.is_empty());
    let lines = lines.filter(|line| !skipped.iter().any(|start| line.starts_with(start)));
    let lines: Vec<&str> = lines.collect();
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

/// Returns the address of a new database that has what [`dump`] wrote to the file at `path`; `None` if
/// there is no server to be had.
///
/// Blocks, and may be called from a task, too.
pub fn stored_database(path: &Path) -> Option<String> {
    let url = new_database()?;
    run(&url, &fs::read_to_string(path).unwrap());
    Some(url)
}

/// Runs statements, separated by semicolons, in the database at `url`.
///
/// Blocks, and may be called from a task, too.
pub fn run(url: &str, sql: &str) {
    with_connection(url, async |mut connection| {
        sqlx::raw_sql(AssertSqlSafe(sql)).execute(&mut connection).await.expect(sql);
    });
}

/// Returns the first value of the first row of a query in the database at `url`, which is a number.
///
/// Blocks, and may be called from a task, too.
pub fn number(url: &str, sql: &str) -> i64 {
    with_connection(url, async |mut connection| {
        sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut connection).await.expect(sql)
    })
}

/// Runs `work` with a connection to the database at `url`, on a thread that has a runtime.
///
/// Blocks, and may be called from a task, too.
pub fn with_connection<T: Send>(url: &str, work: impl AsyncFnOnce(PgConnection) -> T + Send) -> T {
    let connect = || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { work(PgConnection::connect(url).await.unwrap()).await })
    };
    thread::scope(|scope| scope.spawn(connect).join().unwrap())
}

/// Returns the folder of the programs of PostgreSQL; `None` if it is not installed.
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

/// The address of the server without a database, such as `postgres://user:password@host:port`.
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
    // The tree may be that of another user, who has a server of another name.
    let mut hash = DefaultHasher::new();
    (env!("CARGO_MANIFEST_DIR"), env::var_os("USER"), &programs).hash(&mut hash);
    let path = env::temp_dir().join(format!("triptych-postgres-{:016x}", hash.finish()));
    let mut options = OpenOptions::new();
    let options = options.create(true).truncate(false).read(true).write(true).mode(0o600);
    let mut known = options.open(path).unwrap();
    // Until the file is closed: one process starts the server, and the others wait for it.
    known.lock().unwrap();
    let mut folder = String::new();
    known.read_to_string(&mut folder).unwrap();
    Some(join(Path::new(&folder)).unwrap_or_else(|| start(&programs, &mut known)))
}

/// Writes a line to the terminal, and not by `eprintln`, whose text the harness shows of failed tests only.
fn report(line: &str) {
    static REPORTED: Once = Once::new();
    REPORTED.call_once(|| {
        std::io::stderr().write_all(format!("{line}\n").as_bytes()).unwrap();
    });
}

/// Joins the users of the server in `folder`, and returns its address; `None` if it does not run.
fn join(folder: &Path) -> Option<String> {
    File::create(folder.join("users").join(process::id().to_string())).ok()?;
    let address = fs::read_to_string(folder.join("address")).ok()?;
    let (_, place) = address.rsplit_once('@')?;
    TcpStream::connect(place).ok()?;
    FOLDER.get_or_init(|| folder.to_owned());
    Some(address)
}

/// Starts a server, and writes its folder to the file `known`.
fn start(programs: &Path, known: &mut File) -> String {
    let folder = tempfile::Builder::new().prefix("triptych-postgres-").tempdir().unwrap().keep();
    fs::create_dir(folder.join("users")).unwrap();
    // Another process may take the port before the server does: then starting it fails, and so do tests.
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
    // It outlives this process and its group, whose interrupts are not for it.
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
    fn each_database_is_new_and_empty() {
        let databases: Option<Vec<_>> = (0..2).map(|_| new_database()).collect();
        for url in databases.into_iter().flatten() {
            run(&url, "CREATE TABLE things (id bigint PRIMARY KEY)");
            assert_eq!(number(&url, "SELECT count(*) FROM things"), 0);
        }
    }
}
