//! Which figures are taken, and the table of what came of them.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    Outcome, download, formats, ingest, page, peers, postgres,
    program::{Bench, Loaded},
    replicas, stored, stream, writers,
};

/// The figures, in the order in which they are taken: reads are of what is packed, and alone.
const NAMES: [&str; 11] = [
    "insert", "disk", "open", "page", "download", "gzip", "formats", "writers", "stream",
    "postgres", "replicas",
];

/// Rows of the large dataset unless told otherwise, by the issue.
const ROWS_DEFAULT: usize = 5_000_000;

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    value: String,
    bar: String,
    /// None where there is no bar.
    is_met: Option<bool>,
}

/// What is asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    names: Vec<String>,
    /// Rows of the large dataset.
    pub(crate) n_rows: usize,
    /// The service's program.
    pub(crate) program: PathBuf,
    /// Where folders are made; none for the system's place.
    pub(crate) folder: Option<PathBuf>,
    /// The interpreter that has the peers; none to leave them out.
    pub(crate) peers: Option<PathBuf>,
    /// Rows a second that the store takes in process, as the bench `figures` says.
    pub(crate) ingest_rate: Option<f64>,
}

/// What was measured of us and is held against the peers.
#[derive(Debug, Default)]
pub(crate) struct Rates {
    /// Rows a second of an insert over HTTP.
    pub(crate) insert: Option<f64>,
    /// Rows a second of a download as JSON.
    pub(crate) json: Option<f64>,
    /// Rows a second of a download as CSV.
    pub(crate) csv: Option<f64>,
}

impl Row {
    /// A figure with a bar.
    pub(crate) fn new(name: &str, value: String, bar: &str, is_met: bool) -> Self {
        Self { name: name.to_owned(), value, bar: bar.to_owned(), is_met: Some(is_met) }
    }

    /// A figure that is only told.
    pub(crate) fn told(name: &str, value: String) -> Self {
        Self { name: name.to_owned(), value, bar: String::new(), is_met: None }
    }
}

impl Asked {
    fn read(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut asked = Self {
            names: Vec::new(),
            n_rows: ROWS_DEFAULT,
            program: PathBuf::new(),
            folder: None,
            peers: None,
            ingest_rate: None,
        };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
            match argument.as_str() {
                // Cargo says so to every bench.
                "--bench" => {}
                "--rows" => asked.n_rows = value()?.replace('_', "").parse()?,
                "--program" => asked.program = from_root(value()?.into()),
                "--folder" => asked.folder = Some(value()?.into()),
                "--peers" => asked.peers = Some(from_root(value()?.into())),
                "--ingest-rate" => asked.ingest_rate = Some(value()?.parse()?),
                name if NAMES.contains(&name) => asked.names.push(argument),
                _ => return Err(format!("{argument} is none of {}", NAMES.join(", ")).into()),
            }
        }
        if asked.names.is_empty() {
            asked.names.extend(NAMES.map(str::to_owned));
        }
        if !asked.program.is_file() {
            return Err("give the built program: --program target/release/triptych".into());
        }
        Ok(asked)
    }

    /// A new folder where folders are made.
    pub(crate) fn make_folder(&self) -> Outcome<TempDir> {
        let made = self.folder.as_ref().map_or_else(TempDir::new, TempDir::new_in);
        Ok(made?)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name)
    }
}

/// A path as it is written, or from the root of the workspace: cargo runs benches in their room.
fn from_root(path: PathBuf) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if path.exists() || !root.join(&path).exists() { path } else { root.join(path) }
}

/// Takes the figures that `arguments` name, all of them if they name none, and prints the table.
/// Fails if any misses its bar.
pub(crate) async fn measure(arguments: impl Iterator<Item = String>) -> Outcome<ExitCode> {
    let asked = Asked::read(arguments)?;
    let (mut rows, mut rates) = (Vec::new(), Rates::default());
    if let Err(error) = take(&asked, &mut rows, &mut rates).await {
        rows.push(Row::new("the service", format!("failed: {error}"), "figures", false));
    }
    if let Some(python) = &asked.peers {
        note("== peers")?;
        let peers = peers::against(python, &asked, &rates).await;
        push(&mut rows, "peers", peers);
    }
    table(&rows)?;
    let is_met = rows.iter().all(|row| row.is_met != Some(false));
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn take(asked: &Asked, rows: &mut Vec<Row>, rates: &mut Rates) -> Outcome<()> {
    let mut bench = Bench::start(asked, None).await?;
    // Whatever is asked for, there has to be something to read.
    note("== insert")?;
    let loaded: Loaded = ingest::load(&bench, asked.n_rows).await?;
    rates.insert = Some(loaded.rate);
    if asked.wants("insert") {
        rows.push(loaded.row());
    }
    for name in NAMES.iter().skip(1).filter(|name| asked.wants(name)) {
        note(&format!("== {name}"))?;
        let taken = match *name {
            "postgres" => postgres::bulk_csv(asked).await,
            "replicas" => replicas::all(asked).await,
            "formats" => formats::all(&bench, asked).await,
            "writers" => writers::both(&bench).await,
            "page" => page::against_memory(&bench, &loaded).await,
            "stream" => stream::all(&bench).await,
            "disk" => stored::disk(&mut bench, &loaded).await,
            "open" => stored::open(&mut bench, &loaded).await,
            "download" => download::plain(&mut bench, &loaded, rates).await,
            _ => download::gzip(&mut bench, &loaded).await,
        };
        push(rows, name, taken);
    }
    bench.stop().await
}

/// Adds what was taken. One figure that cannot be taken keeps no other from being.
fn push(rows: &mut Vec<Row>, name: &str, taken: Outcome<Vec<Row>>) {
    match taken {
        Ok(taken) => rows.extend(taken),
        Err(error) => rows.push(Row::new(name, format!("failed: {error}"), "a figure", false)),
    }
}

/// Writes a line of what is being measured.
pub(crate) fn note(line: &str) -> Outcome<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// A count as a float. Counts here are far below where that loses anything.
pub(crate) fn float(n: usize) -> f64 {
    f64::from(u32::try_from(n / 1000).unwrap_or(u32::MAX)) * 1000.0
        + f64::from(u32::try_from(n % 1000).unwrap_or_default())
}

/// So many a second.
pub(crate) fn per_second(n: usize, time: Duration) -> f64 {
    float(n) / time.as_secs_f64().max(1e-9)
}

/// A rate in millions of rows.
pub(crate) fn millions(rate: f64) -> String {
    format!("{:.2} M rows/s", rate / 1e6)
}

/// Bytes as MiB, to be read.
pub(crate) fn mib(n_bytes: u64) -> f64 {
    float(usize::try_from(n_bytes / 1024).unwrap_or_default()) / 1024.0
}

/// The value below which `percent` of `sorted` lie.
pub(crate) fn at(sorted: &[Duration], percent: usize) -> Duration {
    let idx = (sorted.len() * percent / 100).min(sorted.len().saturating_sub(1));
    sorted.get(idx).copied().unwrap_or_default()
}

fn table(rows: &[Row]) -> Outcome<()> {
    let width = |of: fn(&Row) -> &String| {
        rows.iter().map(|row| of(row).chars().count()).max().unwrap_or_default()
    };
    let (names, values, bars) =
        (width(|row| &row.name), width(|row| &row.value), width(|row| &row.bar));
    let mut stdout = io::stdout().lock();
    writeln!(stdout)?;
    for Row { name, value, bar, is_met } in rows {
        let verdict = match is_met {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        writeln!(stdout, "{name:names$}  {value:values$}  {bar:bars$}  {verdict}")?;
    }
    Ok(())
}
