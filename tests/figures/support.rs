//! What the integration tests share, as far as the figures need it.

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
#[path = "../it/support/started.rs"]
pub(crate) mod started;
#[path = "../it/support/wait.rs"]
pub(crate) mod wait;

/// The program.
pub(crate) const TRIPTYCH: &str = env!("CARGO_BIN_EXE_triptych");

/// The folder of caches that all runs share: functions are compiled once.
pub(crate) const CACHE: &str = env!("CARGO_TARGET_TMPDIR");

/// The root of our sources.
pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
