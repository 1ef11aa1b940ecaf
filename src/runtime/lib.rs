//! A function, contained: runs a WebAssembly module and says what it left behind.
//!
//! [`Runtime`](engine::Runtime) executes a [`Program`](program::Program), a WASI preview 1 command,
//! with the arguments, environment and standard input of a [`Run`](run::Run), and answers with a
//! [`Finished`](run::Finished). A guest has no files, no network and no more of the host's
//! environment than it is given; its time, memory, stack and output are limited, and it ends soon
//! after the future that waits for it is dropped. Absent on purpose: where modules come from, and
//! what a cluster makes of their results. Nothing outside this room names the engine.

pub mod engine;
pub mod program;
pub mod run;

mod cache;
mod exit;
mod guest;
mod memory;
mod output;
mod ticker;
