//! The databases that people would take instead, doing the same on the same machine in the same run.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
};

use serde_json::Value;
use tempfile::TempDir;
use tokio::process::Command;

use crate::{
    Outcome,
    rows::{Asked, Rates, Row, millions, note},
};

/// The peers, in the language they are all spoken to in.
const SCRIPT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/benches/peers.py");

/// How many times as fast as `DuckDB` rows should go in, in process.
const INGEST_BAR: f64 = 5.0;

/// What a peer came to.
#[derive(Debug)]
struct Measured {
    peer: String,
    what: String,
    rate: f64,
}

/// Measures the peers, and holds what was measured of us against them.
pub(crate) async fn against(python: &Path, asked: &Asked, rates: &Rates) -> Outcome<Vec<Row>> {
    let folder = match &asked.folder {
        Some(within) => TempDir::new_in(within)?,
        None => TempDir::new()?,
    };
    let script = PathBuf::from(SCRIPT);
    let output = Command::new(python)
        .arg(script)
        .arg("--rows")
        .arg(asked.n_rows.to_string())
        .arg("--folder")
        .arg(folder.path())
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .kill_on_drop(true)
        .output()
        .await?;
    let mut measured = Vec::new();
    let mut rows = Vec::new();
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        note(line)?;
        let told: Value = serde_json::from_str(line)?;
        let text = |name: &str| told[name].as_str().unwrap_or_default().to_owned();
        let (peer, what) = (text("peer"), text("what"));
        match told["rows_per_s"].as_f64() {
            Some(rate) => measured.push(Measured { peer, what, rate }),
            None => rows.push(Row::told(&format!("{peer}, {what}"), text("failed"))),
        }
    }
    if !output.status.success() || measured.is_empty() {
        return Err(format!("the peers ended with {}", output.status).into());
    }
    rows.extend(measured.iter().map(|one| one.row(asked, rates)));
    Ok(rows)
}

impl Measured {
    /// The ratio of us to this peer, with a bar where the issue has one.
    fn row(&self, asked: &Asked, rates: &Rates) -> Row {
        let Self { peer, what, rate } = self;
        let ratio = |ours: f64| {
            let value = format!("{} / {} = {:.1}", millions(ours), millions(*rate), ours / rate);
            (value, ours / rate)
        };
        let is_rival = matches!(peer.as_str(), "duckdb" | "chdb");
        match (what.as_str(), asked.ingest_rate) {
            ("ingest" | "ingest with buckets", Some(ours)) => {
                let (value, ratio) = ratio(ours);
                let name = format!("ingest in process / {peer}, {what}, durable batches of 1 000");
                if (peer.as_str(), what.as_str()) == ("duckdb", "ingest with buckets") {
                    Row::new(&name, value, "5 at least", ratio >= INGEST_BAR)
                } else {
                    Row::told(&name, value)
                }
            }
            ("ingest" | "ingest with buckets", None) => {
                let name = format!("bulk_insert over HTTP / {peer} in process, {what}");
                Row::told(&name, rates.insert.map_or_else(|| millions(*rate), |ours| ratio(ours).0))
            }
            (form, _) => {
                let ours = if form == "json" { rates.json } else { rates.csv };
                let name = format!("bulk_download / {peer}, one thread, {form}");
                match ours {
                    Some(ours) if is_rival => {
                        let (value, ratio) = ratio(ours);
                        Row::new(&name, value, "above 1", ratio > 1.0)
                    }
                    Some(ours) => Row::told(&name, ratio(ours).0),
                    None => Row::told(&name, millions(*rate)),
                }
            }
        }
    }
}
