//! One execution: what goes in, what bounds it, and what comes out.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use wasmtime::Trap;

use crate::files::Files;

/// The function that a WASI command exports, and where a guest starts unless told otherwise.
pub const START: &str = "_start";

/// The unit in which requests limit memory: a page of WebAssembly.
pub const PAGE_BYTES: usize = 64 * 1024;

/// What a guest is given.
#[derive(Debug, Clone)]
pub struct Run {
    /// The name the guest is called by, its argument 0: the method of the function.
    pub name: String,
    /// The exported function it starts at, usually [`START`]. A component always starts at
    /// `wasi:cli/run`.
    pub entry: String,
    /// The arguments after the name.
    pub arguments: Vec<String>,
    /// The whole environment: the guest sees nothing of the host's.
    pub environment: BTreeMap<String, String>,
    /// The standard input.
    pub stdin: Vec<u8>,
    /// The folder it sees as `/`. None: it has no files at all.
    pub files: Option<Files>,
    /// What the guest may use.
    pub limits: Limits,
    /// Who has it run: the programs of one client are compiled few at a time. Empty where there are no
    /// clients.
    pub client: Arc<str>,
}

/// What a guest may use. Its stack is bounded for all guests, by
/// [`RuntimeOptions::stack_bytes`](crate::options::RuntimeOptions::stack_bytes), and so are its
/// tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The time from start to end, asleep or not. Compiling and waiting for a turn do not count.
    pub wall: Duration,
    /// Linear memory. Growth beyond is denied to the guest; a module whose first size is larger
    /// does not start.
    pub memory_bytes: usize,
    /// Standard output and error together. The guest ends where it writes more, and what it wrote
    /// up to the limit is kept.
    pub output_bytes: usize,
    /// Units of work, about one for each instruction. None: as many as its time allows, and a guest
    /// that is not counted is faster.
    pub fuel: Option<u64>,
}

/// Limits that a request asks for. None leaves one to the host.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RequestedLimits {
    /// The time limit, as in [`Limits::wall`].
    pub wall: Option<Duration>,
    /// The memory limit, as in [`Limits::memory_bytes`].
    pub memory_bytes: Option<usize>,
    /// The fuel limit, as in [`Limits::fuel`].
    pub fuel: Option<u64>,
}

impl RequestedLimits {
    /// Reads numbers of a request; 0 asks for no limit. A page has [`PAGE_BYTES`].
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
    /// These limits, each lowered to what was asked for. What was asked never raises one.
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

/// What a guest left behind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunOutcome {
    /// What it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to its standard error. Where the runtime ended it, the last line says why
    /// (`runtime: time limit of 5s reached`), in the same words on every worker.
    pub stderr: Vec<u8>,
    /// Its own exit code, or, where the runtime ended it, the one of the list at
    /// [`RunEnd::exit_code`].
    pub exit_code: i32,
    /// How it ended.
    pub ended: RunEnd,
    /// How long it took.
    pub wall: Duration,
    /// The processor's time it took. Of a guest in this process, with what the host did in its calls.
    pub cpu_user: Duration,
    /// CPU time spent in the kernel; zero for a guest in this process.
    pub cpu_system: Duration,
    /// The largest size of its memory.
    pub memory_peak_bytes: usize,
}

/// How a guest ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RunEnd {
    /// The guest returned or called `exit`.
    Exited,
    /// At its time limit.
    TimedOut,
    /// With its fuel used up.
    OutOfFuel,
    /// Badly, after it was denied memory, or before it started where its first size is denied. If
    /// it chose an exit code itself, it keeps that.
    OutOfMemory,
    /// At its output limit.
    OutputFull,
    /// With more files, or larger ones, than it may have.
    FilesFull,
    /// By doing what WebAssembly forbids; `None` in a call of the host.
    Trapped(Option<Trap>),
    /// With an exception that it did not catch.
    Thrown,
}

impl RunEnd {
    /// The line that tells the user why the host ended a guest. None if the guest ended by itself.
    ///
    /// It depends on nothing but the limits and the guest, so that equal results stay equal.
    #[must_use]
    pub fn reason(self, limits: &Limits) -> Option<String> {
        let reason = match self {
            Self::Exited => return None,
            Self::TimedOut => format!("time limit of {:?} reached", limits.wall),
            Self::OutOfFuel => format!("fuel limit of {} reached", limits.fuel.unwrap_or(0)),
            Self::OutOfMemory => format!("memory limit of {} bytes reached", limits.memory_bytes),
            Self::OutputFull => format!("output limit of {} bytes reached", limits.output_bytes),
            Self::FilesFull => "limit of files reached".to_owned(),
            Self::Trapped(trap) => format!("trap: {}", describe_trap(trap).1),
            Self::Thrown => "exception was not caught".to_owned(),
        };
        Some(format!("runtime: {reason}\n"))
    }

    /// The exit code of a guest that the runtime ended, as the upstream runtime numbers them: 1
    /// fuel, 2 stack, 3 memory access, 4 alignment, 5 table access, 6 empty element, 7 call type,
    /// 8 overflow, 9 division by zero, 10 conversion, 11 unreachable, 15 time limit, 16 memory
    /// limit, 255 the rest (limits of output and files included). 0 for one that ended by
    /// itself.
    #[must_use]
    pub const fn exit_code(self) -> i32 {
        match self {
            Self::Exited => 0,
            Self::OutOfFuel => 1,
            Self::TimedOut => 15,
            Self::OutOfMemory => 16,
            Self::OutputFull | Self::FilesFull | Self::Thrown => 255,
            Self::Trapped(trap) => describe_trap(trap).0,
        }
    }
}

/// The exit code of a trap and what it is called, as bls-runtime has both.
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
