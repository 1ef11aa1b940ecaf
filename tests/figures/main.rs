//! Prints the figures of the screen, each beside its bar and beside btop and htop where those are
//! installed: `cargo bench --bench screen [-- NAME…]`.
//!
//! The program runs in a terminal of 200 columns and 60 rows, against real services of ours, and is
//! looked at from outside: the bytes it writes and when, the screen they make, what `/proc` says of
//! it. Each frame of ours starts with the mark of synchronized output, by which frames are counted.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a figure that cannot be taken ends the bench, also in what tests share"
)]

mod burst;
mod follow;
mod idle;
mod keys;
mod memory;
mod paint;
mod rows;
#[expect(dead_code, reason = "the figures need a part of what the tests share")]
mod support;
mod usage;

use std::{
    env,
    io::{self, Write as _},
    process::ExitCode,
};

use tokio::runtime::{Builder, Runtime};

use crate::rows::Row;

/// The size at which all is measured.
const SIZE: (u16, u16) = (200, 60);

/// A group of figures: its name, and what takes them.
type Group = (&'static str, fn(&Runtime) -> Vec<Row>);

/// The groups, in the order in which they are taken.
const GROUPS: [Group; 9] = [
    ("paint", paint::first),
    ("keys", keys::latency),
    ("frames", keys::frames),
    ("quiet", idle::quiet),
    ("stream", idle::with_a_stream),
    ("storm", idle::storm),
    ("burst", burst::burst),
    ("memory", memory::held),
    ("quit", paint::quit),
];

fn main() -> io::Result<ExitCode> {
    // Cargo says `--bench` to every bench.
    let asked: Vec<_> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    if let Some(unknown) = asked.iter().find(|one| GROUPS.iter().all(|(name, _)| name != one)) {
        let names = GROUPS.map(|(name, _)| name).join(", ");
        writeln!(io::stderr(), "{unknown} is none of {names}")?;
        return Ok(ExitCode::FAILURE);
    }
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let mut is_met = true;
    for (name, measure) in GROUPS {
        if asked.is_empty() || asked.iter().any(|one| one == name) {
            for row in measure(&runtime) {
                writeln!(io::stdout(), "{row}")?;
                is_met &= row.is_met;
            }
        }
    }
    runtime.shutdown_background();
    Ok(if is_met { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
