//! Prints the figures of a cluster on loopback with their limits: `figures [ROW]… [--soak-s N]
//! [--stubs N] [--program PATH]`.
//!
//! Head, workers, echo and external runtime are this program in separate processes. The load comes
//! from here over plain sockets, so that the cost of a client is not included.

mod cluster;
mod compiled;
mod echo;
mod first_call;
mod heads;
mod http;
mod idle;
mod latency;
mod nodes;
mod part;
mod pressure;
mod process;
mod rate;
mod rows;
mod soak;
mod soak_usage;
mod stubs;

use std::env;
use std::process::ExitCode;

use test_bench::Outcome;

fn main() -> Outcome<ExitCode> {
    if part::is_runtime() {
        return Ok(part::runtime());
    }
    let part = env::var(process::PART).ok();
    let driver = part::driver(part.as_deref())?;
    match part {
        Some(part) => driver.block_on(part::serve(&part)),
        None => driver.block_on(rows::measure(env::args().skip(1))),
    }
}
