//! Building blocks for tasks, time and files that every service uses.
//!
//! - [`group`]: tasks that are stopped and awaited together. [`backoff`]: pauses between retries.
//!   [`wait`]: waiting for a condition with a deadline.
//! - [`clock`]: date and elapsed time, which tests can control. [`steady_date`]: a date that ignores
//!   brief jumps of the clock.
//! - [`file`](mod@file): atomic, durable writes. [`private`]: files and directories for their owner
//!   only. [`lock`]: locks between processes.
//! - [`cache`]: a bounded LRU cache. [`tally`]: counts per holder with limits.
//! - [`causes`]: an error with its sources as one text. [`process`]: figures about processes.
//!   [`traces`]: propagation of traces between nodes and services.
//!
//! ```
//! # tokio::runtime::Runtime::new().unwrap().block_on(async {
//! let group = task::group::Group::default();
//! let stopped = group.clone();
//! group.spawn_to_end("flush", async move { stopped.stopped().await });
//! group.shutdown().await; // asks the task to stop and waits for it
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
