//! Input, limits and outcome of a run.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use wasmtime::Trap;

use crate::files::{Files, FilesLimits};

/// Default entry point: the function that a WASI command exports.
pub const START: &str = "_start";

/// Unit of requested memory limits: a page of WebAssembly.
pub const PAGE_BYTES: usize = 64 * 1024;

/// Input of a guest.
#[derive(Debug, Clone)]
pub struct Run {
    /// Argument 0 of the guest: the method of the function.
    pub name: String,
    /// Exported function to start, usually [`START`]. A component always starts at `wasi:cli/run`.
    pub entry: String,
    /// Arguments after the name.
    pub arguments: Vec<String>,
    /// Environment variables. The guest does not see the variables of the host.
    pub environment: BTreeMap<String, String>,
    /// Bytes that the guest reads from standard input.
    pub stdin: Vec<u8>,
    /// Directory that the guest sees as `/`; `None` if it has no files.
    pub files: Option<Files>,
    /// Limits of time, memory, fuel and output.
    pub limits: Limits,
    /// Client that requested the run. The client's share of concurrent compilations is limited. Empty if
    /// unknown.
    pub client: Arc<str>,
}

/// Limits of a guest. Its stack has 512 KiB, and the limits of tables are the same for all guests, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum time from start to end, including sleeps. Compilation and the wait for a free slot do not
    /// count.
    pub wall: Duration,
    /// Maximum size of the linear memory. Growth beyond it is denied. A module with a larger initial
    /// size does not start.
    pub memory_bytes: usize,
    /// Maximum size of standard output and error together. A guest that writes more is stopped, and its
    /// output up to the limit is returned.
    pub output_bytes: usize,
    /// Maximum number of units of work, about one for each instruction. `None` sets no limit, which
    /// makes the guest faster.
    pub fuel: Option<u64>,
}

/// Limits of a request; `None` leaves a limit to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestedLimits {
    /// Time limit, see [`Limits::wall`].
    pub wall: Option<Duration>,
    /// Memory limit, see [`Limits::memory_bytes`].
    pub memory_bytes: Option<usize>,
    /// Fuel limit, see [`Limits::fuel`].
    pub fuel: Option<u64>,
}

impl RequestedLimits {
    /// Converts the numbers of a request to limits. Zero requests no limit. Memory is given in pages of
    /// [`PAGE_BYTES`].
    #[must_use]
    pub fn from_numbers(run_time_ms: u64, n_pages: u64, fuel: u64) -> Self {
        let some = |number: u64| (number > 0).then_some(number);
        let bytes = |n: u64| usize::try_from(n).unwrap_or(usize::MAX).saturating_mul(PAGE_BYTES);
        Self {
            wall: some(run_time_ms).map(Duration::from_millis),
            memory_bytes: some(n_pages).map(bytes),
            fuel: some(fuel),
        }
    }
}

impl Limits {
    /// Returns these limits, each lowered to the requested limit if that is lower. A request never
    /// raises a limit.
    #[must_use]
    pub fn lowered(self, asked: RequestedLimits) -> Self {
        Self {
            wall: asked.wall.map_or(self.wall, |wall| wall.min(self.wall)),
            memory_bytes: asked
                .memory_bytes
                .map_or(self.memory_bytes, |n| n.min(self.memory_bytes)),
            output_bytes: self.output_bytes,
            fuel: match (self.fuel, asked.fuel) {
                (Some(ours), Some(asked)) => Some(ours.min(asked)),
                (ours, asked) => ours.or(asked),
            },
        }
    }
}

/// Outcome of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// Bytes that the guest wrote to standard output.
    pub stdout: Vec<u8>,
    /// Standard error. If the runtime stopped the guest, the last line is the reason (`runtime: time
    /// limit of 5s reached`), which is the same on every worker.
    pub stderr: Vec<u8>,
    /// Exit code of the guest, or [`RunEnd::exit_code`] if the runtime stopped it.
    pub exit_code: i32,
    /// Outcome of the run.
    pub ended: RunEnd,
    /// Time that passed during the run.
    pub wall: Duration,
    /// Processor time. For a guest in this process it includes host calls.
    pub cpu_user: Duration,
    /// Processor time spent in the kernel; zero for a guest in this process.
    pub cpu_system: Duration,
    /// Peak size of the guest's memory.
    pub memory_peak_bytes: usize,
}

/// Ways in which a run can end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// The guest returned or called `exit`.
    Exited,
    /// The time limit was reached.
    TimedOut,
    /// No fuel was left.
    OutOfFuel,
    /// The guest failed after memory was denied, or could not start with its initial memory. An exit
    /// code that the guest chose itself is preserved.
    OutOfMemory,
    /// The output limit was reached.
    OutputFull,
    /// One of these limits of files was exceeded.
    FilesFull(FilesLimits),
    /// The guest trapped; `None` if the trap occurred in a host call.
    Trapped(Option<Trap>),
    /// The guest did not catch an exception.
    Thrown,
}

impl RunEnd {
    /// Returns a line with the reason why the host stopped a guest, or `None` if the guest exited.
    ///
    /// The line depends only on the limits and the guest, so that equal results of several workers stay
    /// equal.
    #[must_use]
    pub fn reason(self, limits: &Limits) -> Option<String> {
        let reason = match self {
            Self::Exited => return None,
            Self::TimedOut => format!("time limit of {:?} reached", limits.wall),
            Self::OutOfFuel => format!("fuel limit of {} reached", limits.fuel.unwrap_or(0)),
            Self::OutOfMemory => format!("memory limit of {} bytes reached", limits.memory_bytes),
            Self::OutputFull if limits.output_bytes == usize::MAX => {
                "standard output or error is closed or full".to_owned()
            }
            Self::OutputFull => format!("output limit of {} bytes reached", limits.output_bytes),
            Self::FilesFull(FilesLimits { n_files_max, bytes_max }) => {
                format!("limit of {n_files_max} files or of {bytes_max} bytes in files reached")
            }
            Self::Trapped(trap) => format!("trap: {}", describe_trap(trap).1),
            Self::Thrown => "exception was not caught".to_owned(),
        };
        Some(format!("runtime: {reason}\n"))
    }

    /// Returns the exit code of a guest that the runtime stopped, as in the upstream runtime: 1 fuel, 2
    /// stack, 3 memory access, 4 alignment, 5 table access, 6 empty element, 7 call type, 8 overflow, 9
    /// division by zero, 10 conversion, 11 unreachable, 15 time limit, 16 memory limit, 255 every other
    /// reason (including the limits of output and files). Returns 0 for a guest that exited.
    #[must_use]
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Exited => 0,
            Self::OutOfFuel => 1,
            Self::TimedOut => 15,
            Self::OutOfMemory => 16,
            Self::OutputFull | Self::FilesFull(_) | Self::Thrown => 255,
            Self::Trapped(trap) => describe_trap(trap).0,
        }
    }
}

/// Returns the exit code and the name of a trap as in bls-runtime.
const fn describe_trap(trap: Option<Trap>) -> (i32, &'static str) {
    match trap {
        Some(Trap::StackOverflow) => (2, "call stack exhausted"),
        Some(Trap::MemoryOutOfBounds) => (3, "out of bounds memory access"),
        Some(Trap::HeapMisaligned) => (4, "unaligned atomic access"),
        Some(Trap::TableOutOfBounds) => (5, "out of bounds table access"),
        Some(Trap::IndirectCallToNull) => (6, "uninitialized element"),
        Some(Trap::BadSignature) => (7, "indirect call type mismatch"),
        Some(Trap::IntegerOverflow) => (8, "integer overflow"),
        Some(Trap::IntegerDivisionByZero) => (9, "integer divide by zero"),
        Some(Trap::BadConversionToInteger) => (10, "invalid conversion to integer"),
        Some(Trap::UnreachableCodeReached) => (11, "unreachable instruction executed"),
        _ => (255, "execution failed"),
    }
}

#[cfg(test)]
mod tests;
