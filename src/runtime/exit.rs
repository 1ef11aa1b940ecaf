//! How a guest ended, read from what the engine says.

use wasmtime::Trap;
use wasmtime_wasi::I32Exit;

use crate::{
    memory::{Denied, MemoryLimit},
    output::Written,
    run::{Ended, Limits, Trapped},
};

/// Where the call into a guest stopped.
#[derive(Debug)]
pub(crate) enum Stop {
    /// It returned, or the engine or the guest ended it.
    Ended(wasmtime::Result<()>),
    /// Its time was up.
    Deadline,
}

/// How a guest ended, and with which code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) ended: Ended,
    pub(crate) code: i32,
}

impl Exit {
    /// Weighs what the engine says against the limits that were reached.
    pub(crate) fn of(stop: &Stop, memory: &MemoryLimit, written: &Written) -> Self {
        let error = match stop {
            Stop::Deadline => return Self::by_runtime(Ended::TimedOut),
            Stop::Ended(Ok(())) => return Self { ended: Ended::Exited, code: 0 },
            Stop::Ended(Err(error)) => error,
        };
        if let Some(I32Exit(code)) = error.downcast_ref() {
            let is_starved = *code != 0 && memory.denied().is_some();
            let ended = if is_starved { Ended::OutOfMemory } else { Ended::Exited };
            return Self { ended, code: *code };
        }
        if written.is_cut {
            return Self::by_runtime(Ended::OutputFull);
        }
        if memory.denied().is_some() {
            return Self::by_runtime(Ended::OutOfMemory);
        }
        if error.downcast_ref::<Trap>().is_none() {
            tracing::debug!("a guest failed outside of its own code: {error:#}");
        }
        Self::by_runtime(Ended::Trapped(trapped(error.downcast_ref())))
    }

    const fn by_runtime(ended: Ended) -> Self {
        Self { ended, code: ended.exit_code() }
    }
}

/// The line that tells the user why the runtime ended a guest. None if the guest ended by itself.
///
/// It depends on nothing but the limits and the module, so that equal results stay equal.
pub(crate) fn reason(ended: Ended, limits: &Limits, memory: &MemoryLimit) -> Option<String> {
    let reason = match ended {
        Ended::Exited => return None,
        Ended::TimedOut => format!("time limit of {:?} reached", limits.wall),
        Ended::OutOfMemory if memory.denied() == Some(Denied::AtStart) => {
            format!("memory limit of {} bytes is below the module's first size", memory.bytes_max())
        }
        Ended::OutOfMemory => format!("memory limit of {} bytes reached", memory.bytes_max()),
        Ended::OutputFull => format!("output limit of {} bytes reached", limits.output_bytes),
        Ended::Trapped(trapped) => format!("trap: {trapped}"),
    };
    Some(format!("runtime: {reason}\n"))
}

fn trapped(trap: Option<&Trap>) -> Trapped {
    match trap {
        Some(Trap::StackOverflow) => Trapped::StackExhausted,
        Some(Trap::MemoryOutOfBounds) => Trapped::MemoryOutOfBounds,
        Some(Trap::HeapMisaligned) => Trapped::Misaligned,
        Some(Trap::TableOutOfBounds) => Trapped::TableOutOfBounds,
        Some(Trap::IndirectCallToNull) => Trapped::UninitializedElement,
        Some(Trap::BadSignature) => Trapped::BadSignature,
        Some(Trap::IntegerOverflow) => Trapped::IntegerOverflow,
        Some(Trap::IntegerDivisionByZero) => Trapped::DivisionByZero,
        Some(Trap::BadConversionToInteger) => Trapped::BadConversion,
        Some(Trap::UnreachableCodeReached) => Trapped::Unreachable,
        _ => Trapped::Other,
    }
}
