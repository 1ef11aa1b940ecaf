//! The part of the integration tests' harness that the measurements use.

#[path = "../it/support/command.rs"]
pub(crate) mod command;
#[path = "../it/support/datasets.rs"]
pub(crate) mod datasets;
#[path = "../it/support/http.rs"]
pub(crate) mod http;
#[path = "../it/support/process.rs"]
pub(crate) mod process;
#[path = "../it/support/pty.rs"]
pub(crate) mod pty;
#[path = "../it/support/running.rs"]
pub(crate) mod running;
#[path = "../it/support/wait.rs"]
pub(crate) mod wait;

/// Path of the program.
pub(crate) const TRIPTYCH: &str = env!("CARGO_BIN_EXE_triptych");

/// Cache directory that all runs share, so that functions are compiled once.
pub(crate) const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// Root of the repository.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
