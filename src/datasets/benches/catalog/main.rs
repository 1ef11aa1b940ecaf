//! Prints figures of a catalog of a million datasets over HTTP, each with its bar: `catalog
//! [--datasets N]`.
//!
//! The service is in this process, and the requests arrive over one connection of a plain socket.
//! Of two keys, one holds `public`, which all datasets have, and one holds a private tag that a few
//! have. The datasets are created through the service, a thousand per request.

mod connection;
mod measure;
mod names;

fn main() -> test_bench::Outcome<()> {
    measure::run()
}
