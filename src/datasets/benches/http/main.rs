//! Prints figures of the dataset service over HTTP, each with the limit that it must meet: `http
//! --program PATH [ROW]… [--rows N] [--folder DIR]`.
//!
//! The service is the program at `PATH`, which runs in its own process and directory. This process
//! generates the load over plain sockets, to minimize the cost of the client. The benchmark `figures` of
//! the crate `tsdb` measures the store without HTTP.

mod download;
mod formats;
mod ingest;
mod market;
mod memory;
mod page;
mod postgres;
mod program;
mod replicas;
mod rows;
mod stored;
mod stream;
mod writers;

use std::env;
use std::process::ExitCode;

use test_bench::Outcome;

fn main() -> Outcome<ExitCode> {
    let driver = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    if memory::is_reference() {
        return driver.block_on(memory::serve());
    }
    driver.block_on(rows::measure(env::args().skip(1)))
}
