//! What the tests share: the program in a terminal, the program as a stack, HTTP, processes.

pub(crate) mod cluster;
pub(crate) mod command;
pub(crate) mod cut;
pub(crate) mod datasets;
pub(crate) mod http;
pub(crate) mod passed_on;
pub(crate) mod process;
pub(crate) mod pty;
pub(crate) mod running;
pub(crate) mod scenarios;
pub(crate) mod shelf;
pub(crate) mod started;
pub(crate) mod strict;
pub(crate) mod svg;
pub(crate) mod up;
pub(crate) mod wait;

/// The program.
pub(crate) const TRIPTYCH: &str = env!("CARGO_BIN_EXE_triptych");

/// The same program under its shorter name.
pub(crate) const TUI: &str = env!("CARGO_BIN_EXE_tui");

/// The folder of caches that all tests share: functions are compiled once, and not in the tester's
/// own folders.
pub(crate) const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// The root of our sources.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
