//! Prints figures of a catalog of a million datasets over HTTP, each with its bar, the bound that it
//! must meet: `catalog [--datasets N]`.
//!
//! The service runs in this process. The requests arrive over one connection of a plain socket. There
//! are two keys: one holds `public`, which all datasets have, the other a private tag of a few datasets.
//! The datasets are created through the service, a thousand per request.

mod connection;
mod measure;
mod names;

fn main() -> test_bench::Outcome<()> {
    measure::run()
}
