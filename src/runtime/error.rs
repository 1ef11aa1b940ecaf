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
    /// The engine rejected its options, or there is too little address space.
    #[error("cannot set up the WebAssembly engine")]
    Engine {
        /// The engine's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The thread that interrupts guests could not be started.
    #[error("cannot start the thread that interrupts guests")]
    Ticker {
        /// The system's reason.
        source: io::Error,
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

/// Step of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum CompileStep {
    /// Another process on this machine compiles the program.
    #[display("another process on this machine is compiling it")]
    Elsewhere,
    /// The compilation waits for a permit.
    #[display("other modules are compiled first")]
    Queued,
    /// The compiler runs.
    #[display("its compilation is in progress")]
    Compiling,
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
    /// No caller waited any longer when the compilation was at this step.
    Unwanted(CompileStep),
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
    /// The guest's clock could not be set up.
    #[error("cannot set up the guest's clock")]
    Clock {
        /// The system's reason.
        source: io::Error,
    },
    /// The guest's directory could not be created.
    #[error("cannot create the guest's directory")]
    Files {
        /// The system's reason.
        source: io::Error,
    },
    /// The engine that counts fuel could not be set up.
    #[error("cannot set up the engine that counts fuel")]
    Fuel {
        /// The engine's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The child process that compiles could not be started, or failed.
    #[error("compiler failed")]
    Compiler {
        /// The error of the process.
        source: Arc<io::Error>,
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
    #[error("module is not compiled after {within:?}: {step}; try again later")]
    NotCompiled {
        /// Time that the run waited.
        within: Duration,
        /// Current step of the compilation.
        step: CompileStep,
    },
    /// The thread that ran the guest panicked, or the process is shutting down.
    #[error("run was aborted")]
    Lost {
        /// The panic, if known.
        source: Option<JoinError>,
    },
}
