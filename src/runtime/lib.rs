//! A function, contained: runs a WebAssembly module and says what it left behind.
//!
//! [`Runtime`](engine::Runtime) executes a [`Program`](program::Program), a WASI preview 1 command
//! or a preview 2 component, with the arguments, environment and standard input of a
//! [`Run`](run::Run), and answers with a [`RunOutcome`](run::RunOutcome). A guest has no network, no
//! files but those of a folder made for it, and no more of the host's environment than it is given;
//! its time, memory, stack, output and files are limited, and it ends soon after the future that
//! waits for it is dropped. Programs are compiled in child processes, which have limits, too
//! ([`compiler`]). [`bls`] is the command line of the upstream's runtime. Absent on
//! purpose: where modules come from, and what a cluster makes of their results. Nothing outside
//! this room names the engine.

pub mod bls;
pub mod compiler;
pub mod engine;
pub mod error;
pub mod files;
pub mod options;
pub mod program;
pub mod run;

mod disk;
mod driver;
mod exit;
mod guest;
mod host_call;
mod load;
mod machine;
mod memory;
mod output;
mod quota;
mod seal;
mod settings;
mod single_flight;
mod system;
mod ticker;
