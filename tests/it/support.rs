//! Harness of the integration tests, which runs the program in a terminal, as a command, as a service
//! and as a whole stack, sends HTTP requests and observes processes.

pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod datasets;
pub(crate) mod http;
pub(crate) mod process;
pub(crate) mod pty;
pub(crate) mod running;
pub(crate) mod scenarios;
pub(crate) mod server;
pub(crate) mod svg;
pub(crate) mod up;
pub(crate) mod wait;

/// Path of the main program.
pub(crate) const TRIPTYCH: &str = env!("CARGO_BIN_EXE_triptych");

/// Path of the program that opens the screen when it starts.
pub(crate) const TUI: &str = env!("CARGO_BIN_EXE_tui");

/// Cache directory shared by all tests, so that each function is compiled only once. The tester's own
/// cache is not used.
pub(crate) const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// Root of the repository.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
