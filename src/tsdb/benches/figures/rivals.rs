//! Measures other databases with the same buckets, in the same run.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;
use tempfile::TempDir;

use test_bench::Outcome;

/// Python script that measures the other databases, all of which have Python packages.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers.py");

/// Result of the ingest into another database.
pub(crate) struct Rival {
    pub(crate) peer: String,
    /// Name of the database, and a note on whether it maintains buckets.
    pub(crate) what: String,
    /// Number of rows ingested per second.
    pub(crate) rate: f64,
}

/// Measures each database for a few seconds, in a directory next to the store.
pub(crate) fn ingest(python: &Path, folder: &Path, n_rows: usize) -> Outcome<Vec<Rival>> {
    let folder = TempDir::new_in(folder)?;
    let output = Command::new(python)
        .args([SCRIPT, "--peers", "duckdb,chdb", "--parts", "ingest", "--seconds", "5"])
        .args(["--rows", &n_rows.to_string(), "--folder"])
        .arg(folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    let mut rivals = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let result: Value = serde_json::from_str(line)?;
        let text = |name: &str| result[name].as_str().unwrap_or_default().to_owned();
        let rate = result["rows_per_s"].as_f64().ok_or_else(|| text("failed"))?;
        rivals.push(Rival { peer: text("peer"), what: text("what"), rate });
    }
    if output.status.success() { Ok(rivals) } else { Err("the peers failed".into()) }
}
