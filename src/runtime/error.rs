//! Errors of the runtime, of programs and of runs.

use std::error::Error as StdError;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinError;

/// Failure to set up a runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The engine rejected its options, there is too little address space, or its thread could not be
    /// started.
    #[error("cannot set up the WebAssembly engine")]
    Engine {
        /// Reason of the engine or of the system.
        source: Box<dyn StdError + Send + Sync>,
    },
}

/// Reason why a program can never be run.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// The module exceeds the maximum size.
    #[error("module has {n_bytes} bytes, maximum is {n_bytes_max}")]
    TooLarge {
        /// Size of the module.
        n_bytes: usize,
        /// The maximum size.
        n_bytes_max: usize,
    },
    /// The module is invalid or has too many functions.
    #[error("module cannot be compiled")]
    Compile {
        /// The compiler's reason.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// Compilation exceeds its time limit. For some minutes, the program is refused without another
    /// attempt.
    #[error(
        "compilation of the module exceeds {within:?}: make its functions smaller, or raise \
         --compile-limit"
    )]
    CompileTime {
        /// The time limit.
        within: Duration,
    },
    /// Compilation needs too much memory. For some minutes, the program is refused without another
    /// attempt.
    #[error(
        "compilation of the module exceeds {n_bytes} bytes of address space: make its functions \
         smaller"
    )]
    CompileMemory {
        /// Maximum memory of the compiler.
        n_bytes: u64,
    },
    /// An import is not offered, or a component does not export `wasi:cli/run`. For some minutes, the
    /// program is refused without another attempt.
    #[error("imports or exports of the module are not supported")]
    Import {
        /// The engine's reason, which names the import.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// The module is a library, not a command.
    #[error("module does not export the function {entry} of a WASI command")]
    NoStart {
        /// Name of the missing export.
        entry: String,
    },
}

/// Failure to compile a program.
#[derive(Debug, Clone)]
pub(crate) enum CompileError {
    /// The program is the cause.
    Program(ProgramError),
    /// The child could not be started, or failed.
    Child(Arc<io::Error>),
    /// The time limit was reached while the processors were busy with other work.
    Busy,
    /// The thread that compiles has panicked.
    Panicked,
}

/// Reason why a run did not take place.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RunError {
    /// The program is invalid. The program fails on every worker.
    #[error(transparent)]
    Program(#[from] ProgramError),
    /// The guest's directory could not be created.
    #[error("cannot create the guest's directory")]
    Files {
        /// The system's reason.
        source: io::Error,
    },
    /// This host cannot run the guest.
    #[error("{what}")]
    Host {
        /// Description of the failure.
        what: &'static str,
        /// Reason of the engine or of the system.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The compilation reached its time limit while the processors were busy with other work.
    #[error(
        "module was not compiled within {within:?}, since the processors were busy with other work: \
         try again, or raise --compile-limit"
    )]
    ProcessorsBusy {
        /// The time limit.
        within: Duration,
    },
    /// The program was not compiled within the time that a run waits.
    #[error("module is not compiled after {within:?}; try again later")]
    NotCompiled {
        /// Time that the run waited.
        within: Duration,
    },
    /// The thread that ran the guest panicked, or the process is shutting down.
    #[error("run was aborted")]
    Lost {
        /// The panic, if known.
        source: Option<JoinError>,
    },
}
