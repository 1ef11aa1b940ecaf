//! Prints figures of a catalog of a million datasets over HTTP, each with the limit that it must meet:
//! `catalog [--datasets N]`.
//!
//! The service runs in this process. The requests are sent over one plain socket. There are two keys
//! that read: one holds the tag `public`, which all datasets have, the other holds a private tag of a
//! few datasets. The datasets are created through the service, a thousand per request.

mod connection;
mod measure;
mod names;

fn main() -> test_bench::Outcome<()> {
    measure::run()
}
