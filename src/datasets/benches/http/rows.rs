//! Selection of figures, and their table.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use tempfile::TempDir;

use crate::{
    Outcome, download, formats, ingest, page, postgres,
    program::{Bench, Loaded},
    replicas, stored, stream, writers,
};

/// Names of the figures, in the order of measurement: reads follow compaction and have no other
/// load.
const NAMES: [&str; 11] = [
    "insert", "disk", "open", "page", "download", "gzip", "formats", "writers", "stream",
    "postgres", "replicas",
];

/// Default number of rows of the large dataset.
const ROWS_DEFAULT: usize = 5_000_000;

/// A line of the table.
#[derive(Debug)]
pub(crate) struct Row {
    name: String,
    value: String,
    bar: String,
    /// `None` without a bar.
    is_met: Option<bool>,
}

/// Options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    names: Vec<String>,
    /// Rows of the large dataset.
    pub(crate) n_rows: usize,
    /// Path of the service's program.
    pub(crate) program: PathBuf,
    /// Parent of temporary directories; `None` for the system's default.
    pub(crate) folder: Option<PathBuf>,
}

impl Row {
    /// Creates a figure with a bar.
    pub(crate) fn new(name: &str, value: String, bar: &str, is_met: bool) -> Self {
        Self { name: name.to_owned(), value, bar: bar.to_owned(), is_met: Some(is_met) }
    }

    /// Creates a figure without a bar.
    pub(crate) fn plain(name: &str, value: String) -> Self {
        Self { name: name.to_owned(), value, bar: String::new(), is_met: None }
    }
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut options =
            Self { names: Vec::new(), n_rows: ROWS_DEFAULT, program: PathBuf::new(), folder: None };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
            match argument.as_str() {
                // Cargo passes this option to every bench.
                "--bench" => {}
                "--rows" => options.n_rows = value()?.replace('_', "").parse()?,
                "--program" => options.program = from_root(value()?.into()),
                "--folder" => options.folder = Some(value()?.into()),
                name if NAMES.contains(&name) => options.names.push(argument),
                _ => return Err(format!("{argument} is none of {}", NAMES.join(", ")).into()),
            }
        }
        if options.names.is_empty() {
            options.names.extend(NAMES.map(str::to_owned));
        }
        if !options.program.is_file() {
            return Err("give the built program: --program target/release/triptych".into());
        }
        Ok(options)
    }

    /// Creates a temporary directory.
    pub(crate) fn make_folder(&self) -> Outcome<TempDir> {
        let made = self.folder.as_ref().map_or_else(TempDir::new, TempDir::new_in);
        Ok(made?)
    }

    fn wants(&self, name: &str) -> bool {
        self.names.iter().any(|one| one == name)
    }
}

/// Resolves a path relative to the working directory or the root of the workspace, since cargo runs
/// benches in the directory of their crate.
fn from_root(path: PathBuf) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if path.exists() || !root.join(&path).exists() { path } else { root.join(path) }
}

/// Measures the figures named by `arguments`, or all by default, and prints the table. Fails if any
/// misses its bar.
pub(crate) async fn measure(arguments: impl Iterator<Item = String>) -> Outcome<ExitCode> {
    let options = Options::read(arguments)?;
    let mut rows = Vec::new();
    if let Err(error) = take(&options, &mut rows).await {
        rows.push(Row::new("the service", format!("failed: {error}"), "figures", false));
    }
    table(&rows)?;
    let is_met = rows.iter().all(|row| row.is_met != Some(false));
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

async fn take(options: &Options, rows: &mut Vec<Row>) -> Outcome<()> {
    let mut bench = Bench::start(options, None).await?;
    // All reads need a filled dataset.
    note("== insert")?;
    let loaded: Loaded = ingest::load(&bench, options.n_rows).await?;
    if options.wants("insert") {
        rows.push(loaded.row());
    }
    for name in NAMES.iter().skip(1).filter(|name| options.wants(name)) {
        note(&format!("== {name}"))?;
        let taken = match *name {
            "postgres" => postgres::bulk_csv(options).await,
            "replicas" => replicas::all(options).await,
            "formats" => formats::all(&bench, options).await,
            "writers" => writers::both(&bench).await,
            "page" => page::against_memory(&bench, &loaded).await,
            "stream" => stream::all(&bench).await,
            "disk" => stored::disk(&mut bench, &loaded).await,
            "open" => stored::open(&mut bench, &loaded).await,
            "download" => download::plain(&mut bench, &loaded).await,
            _ => download::gzip(&mut bench, &loaded).await,
        };
        push(rows, name, taken);
    }
    bench.stop().await
}

/// Adds figures. A failed one does not affect the others.
fn push(rows: &mut Vec<Row>, name: &str, taken: Outcome<Vec<Row>>) {
    match taken {
        Ok(taken) => rows.extend(taken),
        Err(error) => rows.push(Row::new(name, format!("failed: {error}"), "a figure", false)),
    }
}

/// Prints a line about the current measurement.
pub(crate) fn note(line: &str) -> Outcome<()> {
    Ok(writeln!(io::stdout(), "{line}")?)
}

/// Converts a count to a float. Counts are small enough to be exact.
pub(crate) fn float(n: usize) -> f64 {
    f64::from(u32::try_from(n / 1000).unwrap_or(u32::MAX)) * 1000.0
        + f64::from(u32::try_from(n % 1000).unwrap_or_default())
}

/// Returns a rate per second.
pub(crate) fn per_second(n: usize, time: Duration) -> f64 {
    float(n) / time.as_secs_f64().max(1e-9)
}

/// Formats a rate in millions of rows.
pub(crate) fn millions(rate: f64) -> String {
    format!("{:.2} M rows/s", rate / 1e6)
}

/// Converts bytes to MiB.
pub(crate) fn mib(n_bytes: u64) -> f64 {
    float(usize::try_from(n_bytes / 1024).unwrap_or_default()) / 1024.0
}

/// Returns a percentile of `sorted`.
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
