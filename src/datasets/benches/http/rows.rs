//! Selects the figures to measure and prints their table.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use tempfile::TempDir;
use test_bench::{Row, exit_code, note, print_table};

use crate::program::{Bench, Loaded};
use crate::{
    Outcome, download, formats, ingest, page, postgres, replicas, stored, stream, writers,
};

/// Names of the figures, in the order of measurement. Reads are measured after compaction and without
/// other load.
const NAMES: [&str; 11] = [
    "insert", "disk", "open", "page", "download", "gzip", "formats", "writers", "stream",
    "postgres", "replicas",
];

/// Default number of rows of the large dataset.
const ROWS_DEFAULT: usize = 5_000_000;

/// Options of the command line.
#[derive(Debug)]
pub(crate) struct Options {
    names: Vec<String>,
    /// Number of rows of the large dataset.
    pub(crate) n_rows: usize,
    /// Path of the program that runs the service.
    pub(crate) program: PathBuf,
    /// Directory for temporary directories; `None` for the system's default.
    pub(crate) folder: Option<PathBuf>,
}

impl Options {
    fn read(mut arguments: impl Iterator<Item = String>) -> Outcome<Self> {
        let mut options =
            Self { names: Vec::new(), n_rows: ROWS_DEFAULT, program: PathBuf::new(), folder: None };
        while let Some(argument) = arguments.next() {
            let mut value = || arguments.next().ok_or(format!("{argument} takes a value"));
            match argument.as_str() {
                // Ignores an argument that cargo passes to every benchmark.
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

/// Resolves a path relative to the working directory. If there is no such file, resolves the path
/// relative to the root of the workspace, since cargo runs benchmarks in the directory of their crate.
fn from_root(path: PathBuf) -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    if path.exists() || !root.join(&path).exists() { path } else { root.join(path) }
}

/// Measures the figures that `arguments` name, or all figures, and prints the table. Fails if a figure
/// misses its limit.
pub(crate) async fn measure(arguments: impl Iterator<Item = String>) -> Outcome<ExitCode> {
    let options = Options::read(arguments)?;
    let mut rows = Vec::new();
    if let Err(error) = take(&options, &mut rows).await {
        rows.push(Row::failed("the service", &error));
    }
    note("")?;
    Ok(exit_code(print_table(&rows)?))
}

async fn take(options: &Options, rows: &mut Vec<Row>) -> Outcome<()> {
    let mut bench = Bench::start(options, None).await?;
    // Measures inserts in any case, since all reads need the rows.
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

/// Adds the figures of a measurement, or a line that the measurement failed. Other measurements
/// continue.
fn push(rows: &mut Vec<Row>, name: &str, taken: Outcome<Vec<Row>>) {
    match taken {
        Ok(taken) => rows.extend(taken),
        Err(error) => rows.push(Row::failed(name, &error)),
    }
}

/// Formats a number of rows per second in millions.
pub(crate) fn millions(rate: f64) -> String {
    format!("{:.2} M rows/s", rate / 1e6)
}
