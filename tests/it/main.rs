//! The one integration test binary: the real program, from outside.
//!
//! `tidy` reads our own sources. Everything else starts the executables that Cargo built, and looks
//! at what a user sees: HTTP answers, the cells of a terminal, processes that are gone. What a room
//! does inside is tested beside it.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod accounts;
mod answers;
mod completion;
mod datasets;
mod doctor;
mod functions;
mod hostile;
mod inference;
mod monitoring;
mod nodes;
mod screen;
mod secrets;
mod startup;
mod support;
mod tidy;
mod up;
