//! Selection and printing of the benchmark's rows.

use std::io::Write as _;

use tokio::runtime::Runtime;

use crate::{Outcome, crashes, large, requests, synthesis, topics};

/// Names of the rows, in order of execution.
const ROWS: [&str; 6] = ["synthesis", "requests", "submissions", "topics", "large", "crashes"];

/// Runs the rows named in `arguments`, or all rows if there are none.
pub(crate) fn measure(runtime: &Runtime, arguments: impl Iterator<Item = String>) -> Outcome<()> {
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
pub(crate) fn print(what: &str, figure: &str, bar: &str) -> Outcome<()> {
    writeln!(std::io::stdout(), "{what:<58} {figure:<34} bar {bar}")?;
    Ok(())
}
