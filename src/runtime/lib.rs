//! Runs WebAssembly modules in a sandbox.
//!
//! [`Runtime`](engine::Runtime) executes a [`Program`](program::Program), a WASI preview 1 command
//! or a preview 2 component, with the arguments, environment and standard input of a
//! [`Run`](run::Run), and returns a [`RunOutcome`](run::RunOutcome). A guest has no network, only the
//! files of its own directory, and only the environment variables of its run. Its time, memory, stack,
//! output and files are limited, and it ends soon after its future is dropped. Programs are compiled in
//! child processes with limits ([`compiler`]). [`bls`] is the command line of the upstream runtime.
//! Fetching modules and comparing results are left to other crates. Only this crate depends on the
//! engine.
//!
//! ```no_run
//! # use runtime::run::Run;
//! # fn example(run: Run) -> Result<(), Box<dyn std::error::Error>> {
//! use runtime::{compiler::CompileIn, engine::Runtime, options::RuntimeOptions, program::Program};
//! use std::num::NonZeroU32;
//!
//! let options = RuntimeOptions::for_runs(NonZeroU32::MIN, CompileIn::ThisProcess);
//! let runtime = Runtime::new(options)?;
//! let outcome = runtime.execute_here(&Program::new(std::fs::read("hello.wasm")?), run)?;
//! println!("exit code {}", outcome.exit_code);
//! # Ok(())
//! # }
//! ```

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
mod settings;
mod single_flight;
mod system;
mod ticker;
