//! Prints figures of a prediction network with their targets: `figures [ROW]…`, where a row is
//! `synthesis`, `requests`, `submissions`, `topics`, `large` or `crashes`.
//!
//! `crashes` starts this program again as the service, so that it can kill the service.

mod crashes;
mod large;
mod network;
mod requests;
mod synthesis;
mod topics;

use std::env;
use std::io::Write as _;

use test_bench::Outcome;
use tokio::runtime::{Builder, Runtime};

fn main() -> Outcome<()> {
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    match env::var(crashes::FOLDER) {
        Ok(folder) => runtime.block_on(crashes::serve(folder.as_ref())),
        Err(_) => measure(&runtime, env::args().skip(1)),
    }
}

/// Names of the rows, in order of execution.
const ROWS: [&str; 6] = ["synthesis", "requests", "submissions", "topics", "large", "crashes"];

/// Runs the rows named in `arguments`, or all rows if there are none.
fn measure(runtime: &Runtime, arguments: impl Iterator<Item = String>) -> Outcome<()> {
    let asked: Vec<String> = arguments.filter(|row| !row.starts_with("--")).collect();
    for row in ROWS.iter().filter(|row| asked.is_empty() || asked.iter().any(|a| a == *row)) {
        match *row {
            "synthesis" => synthesis::measure()?,
            "requests" => runtime.block_on(requests::latest())?,
            "submissions" => runtime.block_on(requests::submissions())?,
            "topics" => runtime.block_on(topics::measure())?,
            "large" => runtime.block_on(large::measure())?,
            _ => runtime.block_on(crashes::measure())?,
        }
    }
    Ok(())
}

/// Prints a figure with its target.
fn print(what: &str, figure: &str, bar: &str) -> Outcome<()> {
    writeln!(std::io::stdout(), "{what:<58} {figure:<34} bar {bar}")?;
    Ok(())
}
