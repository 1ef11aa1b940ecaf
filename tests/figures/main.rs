//! Measures the screen and compares it with fixed bars, and with btop and htop if they are installed:
//! `cargo bench --bench screen [-- NAME…]`.
//!
//! The program runs in a terminal of 200 columns and 60 rows with real services. It is observed from
//! outside: its output with the time of each write, the resulting screen and `/proc`. Each frame begins
//! with the mark of synchronized output, by which it is counted.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a failed measurement ends the benchmark, also in the harness"
)]

mod burst;
mod follow;
mod idle;
mod keys;
mod memory;
mod paint;
mod rows;
#[expect(dead_code, reason = "the benchmark uses a part of the tests' harness")]
mod support;
mod usage;

use std::env;
use std::io::{self, Write as _};
use std::process::ExitCode;

use test_bench::{Row, exit_code, print_table};
use tokio::runtime::{Builder, Runtime};

/// Size of the terminal.
const SIZE: (u16, u16) = (200, 60);

/// Name and function of a group of measurements.
type Group = (&'static str, fn(&Runtime) -> Vec<Row>);

/// The groups in order.
const GROUPS: [Group; 10] = [
    ("paint", paint::first),
    ("keys", keys::latency),
    ("frames", keys::frames),
    ("compared", keys::compared),
    ("quiet", idle::quiet),
    ("stream", idle::with_a_stream),
    ("storm", idle::storm),
    ("burst", burst::burst),
    ("memory", memory::resident),
    ("quit", paint::quit),
];

fn main() -> io::Result<ExitCode> {
    // Cargo passes `--bench` to every benchmark.
    let names: Vec<_> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(unknown) = names.iter().find(|one| GROUPS.iter().all(|(name, _)| name != one)) {
        let known = GROUPS.map(|(name, _)| name).join(", ");
        writeln!(io::stderr(), "unknown name {unknown}, expected {known}")?;
        return Ok(ExitCode::FAILURE);
    }
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut is_met = true;
    for (name, measure) in GROUPS {
        if names.is_empty() || names.iter().any(|one| one == name) {
            is_met &= print_table(&measure(&runtime))?;
        }
    }
    runtime.shutdown_background();
    Ok(exit_code(is_met))
}
