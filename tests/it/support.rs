//! What the tests share: the program in a terminal, the program as a stack, HTTP, processes.

pub(crate) mod http;
pub(crate) mod process;
pub(crate) mod pty;
pub(crate) mod started;
pub(crate) mod svg;
pub(crate) mod up;
pub(crate) mod wait;

/// The program.
pub(crate) const TRIPTYCH: &str = env!("CARGO_BIN_EXE_triptych");

/// The same program under its shorter name.
pub(crate) const TUI: &str = env!("CARGO_BIN_EXE_tui");

/// The root of our sources.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
