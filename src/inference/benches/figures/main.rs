//! Prints figures of a prediction network with their targets: `figures [ROW]…`, where a row is
//! `synthesis`, `requests`, `submissions`, `topics`, `large` or `crashes`.
//!
//! `crashes` starts this program again as the service, so that it can kill the service.

mod crashes;
mod large;
mod network;
mod requests;
mod rows;
mod synthesis;
mod topics;

use std::env;

use test_bench::Outcome;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match env::var(crashes::FOLDER) {
        Ok(folder) => runtime.block_on(crashes::serve(folder.as_ref())),
        Err(_) => rows::measure(&runtime, env::args().skip(1)),
    }
}
