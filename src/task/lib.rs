//! Building blocks for tasks, time and files, used by every service.
//!
//! - [`group`]: tasks that are stopped and awaited together. [`backoff`]: pauses between attempts.
//!   [`wait`]: waiting for a condition with a deadline.
//! - [`clock`]: date and elapsed time, both of which tests can control. [`steady_date`]: a date
//!   that ignores brief jumps of the clock.
//! - [`file`](mod@file): atomic, durable writes. [`private`]: files and directories that only
//!   their owner can read. [`lock`]: locks between processes.
//! - [`cache`]: a bounded LRU cache. [`tally`]: counts for each holder, with limits.
//! - [`causes`]: an error and its sources as a single text. [`process`]: child processes,
//!   figures about processes, and the cryptography provider. [`traces`]: propagation of traces between nodes and services.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let group = task::group::Group::default();
//! let stopped = group.clone();
//! group.spawn_to_end("flush", async move { stopped.stopped().await });
//! group.shutdown().await; // tells the task to stop and waits for it
//! # });
//! ```

pub mod backoff;
pub mod cache;
pub mod causes;
pub mod clock;
pub mod file;
pub mod group;
pub mod lock;
pub mod private;
pub mod process;
pub mod steady_date;
pub mod tally;
pub mod traces;
pub mod wait;
