//! What an engine is set to, as far as compiled code depends on it.

use std::num::NonZeroUsize;

use wasmtime::{Config, Engine};

/// What the host's own functions may take of a guest's stack beyond its limit. A debug build has
/// large frames; the engine's default is a little less.
const HOST_STACK_BYTES: usize = 2 * 1024 * 1024;

/// Whether an engine counts what a guest does. That makes each guest slower, so it is an engine of
/// its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fuel {
    /// Guests have fuel, and end when it is used up.
    Counted,
    /// Guests have all the fuel they want.
    Free,
}

/// What an engine is set to, as far as compiled code depends on it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    /// How deep a guest's calls may go.
    pub(crate) stack_bytes: usize,
    /// Whether guests have fuel.
    pub(crate) fuel: Fuel,
    /// Where memories of guests are.
    pub(crate) memory: MemoryPlace,
}

/// Where an engine has the memories of its guests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryPlace {
    /// In address space that is set aside at the start, all that a guest could name: the processor
    /// checks its accesses.
    Reserved,
    /// In memory that is asked for when a guest starts or grows: its code checks its accesses, which
    /// makes it slower. For a process whose address space is limited, as by `ulimit -v`.
    OnDemand,
}

impl Settings {
    /// Returns an engine that compiles for those with the same settings, and cannot run anything: it
    /// sets no addresses aside.
    ///
    /// # Errors
    /// The engine's, if it refuses its settings.
    pub(crate) fn compiling_engine(self) -> wasmtime::Result<Engine> {
        Engine::new(&self.config())
    }

    /// What compiled code depends on, the same in engines that run and in those that only compile.
    pub(crate) fn config(self) -> Config {
        let Self { stack_bytes, fuel, memory } = self;
        let mut config = Config::new();
        if memory == MemoryPlace::OnDemand {
            config.memory_reservation(0).memory_reservation_for_growth(0).memory_guard_size(0);
        }
        config
            .consume_fuel(fuel == Fuel::Counted)
            .epoch_interruption(true)
            .max_wasm_stack(stack_bytes)
            .async_stack_size(stack_bytes.saturating_add(HOST_STACK_BYTES))
            // The innermost frame tells which host call a guest failed in.
            .wasm_backtrace_max_frames(Some(NonZeroUsize::MIN))
            // Results are compared between machines: a NaN has one spelling, SIMD one meaning.
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true);
        config
    }
}
