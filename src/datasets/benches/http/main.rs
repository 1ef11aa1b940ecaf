//! Prints the figures of the dataset service over HTTP, each beside its bar: `http --program PATH
//! [ROW]… [--rows N] [--folder DIR] [--peers PYTHON] [--ingest-rate ROWS]`.
//!
//! The service is the program at `PATH`, in a process of its own, with a folder of its own. The load
//! comes from here over plain sockets, so that no client's cost is taken for the service's. What the
//! store does without HTTP is told by the bench `figures`, and its rate of ingest may be given with
//! `--ingest-rate` to be held against the peers'.

mod connection;
mod download;
mod formats;
mod ingest;
mod market;
mod memory;
mod page;
mod peers;
mod postgres;
mod program;
mod replicas;
mod rows;
mod stored;
mod stream;
mod writers;

use std::{env, error::Error, process::ExitCode};

/// What a figure comes to, or what kept it from being taken.
type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Outcome<ExitCode> {
    let driver = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if memory::is_asked() {
        return driver.block_on(memory::serve());
    }
    driver.block_on(rows::measure(env::args().skip(1)))
}
