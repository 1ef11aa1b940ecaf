//! Integration tests of the program as its users see it.
//!
//! `tidy` checks our own sources. All other tests start the executables and examine HTTP responses, the
//! cells of a terminal, output and processes. Tests of a single crate are in that crate.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in the harness"
)]

mod accounts;

mod completion;
mod datasets;
mod doctor;
mod functions;
mod hostile;
mod inference;
mod monitoring;
mod nodes;
mod responses;
mod screen;
mod secrets;
mod startup;
mod support;
mod tidy;
mod up;
mod watch;
