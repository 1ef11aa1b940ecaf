//! Prints figures of a catalog with a million datasets over HTTP, each with the limit that it must meet:
//! `catalog [--datasets N]`.
//!
//! The service runs in this process, and requests are sent over one plain socket. Two keys read: one key
//! holds the tag `public`, which all datasets have, the other key holds a private tag of a few datasets.
//! The datasets are created over HTTP, a thousand per request.

mod connection;
mod measure;
mod names;

fn main() -> test_bench::Outcome<()> {
    measure::run()
}
