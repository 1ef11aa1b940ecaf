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
    #[error("module has {n_bytes} bytes, maximum is {n_bytes_max}")]
    TooLarge {
        /// The size of the module.
        n_bytes: usize,
        /// What is accepted.
        n_bytes_max: usize,
    },
    /// It is no valid module, or has more of something than is compiled.
    #[error("module cannot be compiled")]
    Compile {
        /// The compiler's reason.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// Compiling it takes too long. For some minutes it is refused at once.
    #[error(
        "compiling the module takes longer than {within:?}: make its functions smaller, or raise \
         --compile-limit"
    )]
    CompileTime {
        /// How long it may take.
        within: Duration,
    },
    /// Compiling it takes too much memory. For some minutes it is refused at once.
    #[error(
        "compiling the module takes more than {n_bytes} bytes of address space: make its functions \
         smaller"
    )]
    CompileMemory {
        /// How much it may take.
        n_bytes: u64,
    },
    /// It imports what WASI does not have, or is a component without `wasi:cli/run`.
    #[error("module does not fit what functions are offered")]
    Import {
        /// The engine's reason, which names the import.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// It is a library, not a command.
    #[error("module does not export the function {entry}, as a WASI command does")]
    NoStart {
        /// What was looked for.
        entry: String,
    },
}

/// What a program that is not compiled yet waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, derive_more::Display)]
pub enum CompileStep {
    /// Another process of this machine, which compiles it.
    #[display("another process on this machine is compiling it")]
    Elsewhere,
    /// One of the places to compile.
    #[display("other modules are compiled first")]
    Queued,
    /// Its own compiler.
    #[display("its compilation is in progress")]
    Compiling,
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
    #[error("the compiler failed")]
    Compiler {
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// Its time to be compiled was up, most of which the processors spent on other work.
    #[error(
        "module was not compiled within {within:?}, since the processors were busy with other work: \
         try again, or raise --compile-limit"
    )]
    ProcessorsBusy {
        /// How long compiling can take.
        within: Duration,
    },
    /// It is not compiled yet, after as long as a run waits for that.
    #[error("module is not compiled after {within:?}: {step}; try again later")]
    NotCompiled {
        /// How long the run waited.
        within: Duration,
        /// What is being waited for.
        step: CompileStep,
    },
    /// The thread that ran the guest panicked, or the program is shutting down.
    #[error("finish the run")]
    Lost {
        /// Which of the two.
        source: Option<JoinError>,
    },
}
