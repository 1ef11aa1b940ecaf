//! Why there is no runtime, no program or no run.

use std::{error::Error as StdError, io, sync::Arc, time::Duration};

use tokio::task::JoinError;

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The engine refused its options or found too little address space.
    #[error("set up the WebAssembly engine")]
    Engine {
        /// The engine's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The system refused a thread.
    #[error("start the thread that interrupts guests")]
    Ticker {
        /// The system's reason.
        source: io::Error,
    },
}

/// Why a program cannot be run, ever.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is larger than accepted.
    #[error("take a module of {n_bytes} bytes, more than {n_bytes_max}")]
    TooLarge {
        /// The size of the module.
        n_bytes: usize,
        /// What is accepted.
        n_bytes_max: usize,
    },
    /// It is no valid module, or has more of something than is compiled.
    #[error("compile the module")]
    Compile {
        /// The compiler's reason.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// Compiling it takes too long. For some minutes it is refused at once.
    #[error("compile the module within {within:?}: make its functions smaller")]
    CompileTime {
        /// How long it may take.
        within: Duration,
    },
    /// Compiling it takes too much memory. For some minutes it is refused at once.
    #[error("compile the module in {n_bytes} bytes of address space: make its functions smaller")]
    CompileMemory {
        /// How much it may take.
        n_bytes: u64,
    },
    /// It imports what WASI does not have, or is a component without `wasi:cli/run`.
    #[error("offer the module what it imports")]
    Import {
        /// The engine's reason, which names the import.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// It is a library, not a command.
    #[error("find the function {entry} that a WASI command exports")]
    NoStart {
        /// What was looked for.
        entry: String,
    },
}

/// Why a run did not happen.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The program is at fault: it fails on every worker alike.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The system refused what a run needs.
    #[error("give the guest a clock")]
    Clock {
        /// The system's reason.
        source: io::Error,
    },
    /// The system refused the folder of a guest.
    #[error("make the guest's folder")]
    Files {
        /// The system's reason.
        source: io::Error,
    },
    /// The engine that counts fuel could not be set up.
    #[error("give the guest fuel")]
    Fuel {
        /// The engine's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The process that compiles could not be started, or failed.
    #[error("start the compiler")]
    Compiler {
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// Others were compiled for all that time.
    #[error("compile the module within {within:?}: the compilers were busy with others; try again")]
    CompilersBusy {
        /// How long compiling may take.
        within: Duration,
    },
    /// The thread that ran the guest panicked, or the program is shutting down.
    #[error("finish the run")]
    Lost {
        /// Which of the two.
        source: Option<JoinError>,
    },
}
