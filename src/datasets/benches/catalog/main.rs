//! Prints the figures of a catalogue of a million datasets over HTTP, each beside its bar:
//! `catalog [--datasets N]`.
//!
//! The service is in this process; the requests come over one connection of a plain socket. Two keys
//! ask: one holds `public`, which all datasets carry, and one holds a private tag that a few carry.
//! Creating them goes through the service, a thousand in a request.

mod connection;
mod measure;
mod names;

fn main() -> measure::Outcome<()> {
    measure::run()
}
