//! Derives the end of a run from the engine's result.

use wasmtime::{ThrownException, Trap};
use wasmtime_wasi::I32Exit;

use crate::memory::{DeniedGrowth, MemoryLimit};
use crate::output::Written;
use crate::quota::FilesFull;
use crate::run::{Limits, RunEnd};

/// Reason for the end of a call into a guest.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The guest returned a code, or the engine or the guest stopped the call.
    Ended(wasmtime::Result<i32>),
    /// The time limit was reached.
    Deadline,
}

impl Stop {
    /// Returns the error of the host that stopped the guest, or `None` if its own code trapped or threw
    /// an exception.
    pub(crate) fn host_error(&self) -> Option<&wasmtime::Error> {
        let Self::Ended(Err(error)) = self else { return None };
        Some(error).filter(|error| !error.is::<Trap>() && !error.is::<ThrownException>())
    }
}

/// End of a run with its exit code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Exit {
    pub(crate) ended: RunEnd,
    pub(crate) code: i32,
}

impl Exit {
    /// Derives the exit from the engine's result and the limits that were reached.
    pub(crate) fn new(stop: &Stop, memory: &MemoryLimit, written: &Written) -> Self {
        let error = match stop {
            Stop::Deadline => return Self::by_runtime(RunEnd::TimedOut),
            Stop::Ended(Ok(code)) => return Self::by_guest(*code, memory),
            Stop::Ended(Err(error)) => error,
        };
        if let Some(I32Exit(code)) = error.downcast_ref() {
            return Self::by_guest(*code, memory);
        }
        if let Some(Trap::OutOfFuel) = error.downcast_ref() {
            return Self::by_runtime(RunEnd::OutOfFuel);
        }
        if let Some(FilesFull(limits)) = error.downcast_ref() {
            return Self::by_runtime(RunEnd::FilesFull(*limits));
        }
        if written.is_cut {
            return Self::by_runtime(RunEnd::OutputFull);
        }
        if memory.denied.is_some() {
            return Self::by_runtime(RunEnd::OutOfMemory);
        }
        if error.is::<ThrownException>() {
            return Self::by_runtime(RunEnd::Thrown);
        }
        Self::by_runtime(RunEnd::Trapped(error.downcast_ref().copied()))
    }

    fn by_guest(code: i32, memory: &MemoryLimit) -> Self {
        let is_starved = code != 0 && memory.denied.is_some();
        Self { ended: if is_starved { RunEnd::OutOfMemory } else { RunEnd::Exited }, code }
    }

    const fn by_runtime(ended: RunEnd) -> Self {
        Self { ended, code: ended.exit_code() }
    }
}

/// Returns [`RunEnd::reason`], or a more specific text for a guest that could not start.
pub(crate) fn reason(ended: RunEnd, limits: &Limits, memory: &MemoryLimit) -> Option<String> {
    if ended == RunEnd::OutOfMemory && memory.denied == Some(DeniedGrowth::AtStart) {
        return Some(format!(
            "runtime: memory limit of {} bytes is below the module's first size\n",
            memory.bytes_max
        ));
    }
    ended.reason(limits)
}
