//! Engine settings that compiled code depends on.

use std::num::NonZeroUsize;

use wasmtime::{Config, Engine};

/// Stack size of a guest: the engine's default, and eight times the stack of a thread in WASI's C
/// library.
const STACK_BYTES: usize = 512 * 1024;

/// Stack size of the host's functions, in addition to the guest's limit. The engine's default is a
/// little less, but a debug build has large frames.
const HOST_STACK_BYTES: usize = 2 * 1024 * 1024;

/// Fuel mode of an engine. Counting fuel makes guests slower, so it needs a separate engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fuel {
    /// Guests consume fuel and are stopped when it is used up.
    Counted,
    /// Fuel is not counted.
    Free,
}

/// Engine settings that compiled code depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) fuel: Fuel,
    /// Allocation of the guests' memories.
    pub(crate) memory: MemoryPlace,
}

/// Allocation of guests' memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MemoryPlace {
    /// In address space that is reserved in advance for all possible addresses, so that the processor
    /// checks accesses.
    Reserved,
    /// Allocated when a guest starts or grows. The guest's code then has to check accesses, which makes
    /// the guest slower. For processes with a limited address space, as set by `ulimit -v`.
    OnDemand,
}

impl Settings {
    /// Returns an engine that only compiles, for engines with the same settings. It reserves no
    /// addresses.
    ///
    /// # Errors
    /// If the engine rejects the settings.
    pub(crate) fn compiling_engine(self) -> wasmtime::Result<Engine> {
        Engine::new(&self.config())
    }

    /// Returns the part of the configuration that compiled code depends on.
    pub(crate) fn config(self) -> Config {
        let Self { fuel, memory } = self;
        let mut config = Config::new();
        if memory == MemoryPlace::OnDemand {
            config.memory_reservation(0).memory_reservation_for_growth(0).memory_guard_size(0);
        }
        config
            .consume_fuel(fuel == Fuel::Counted)
            .epoch_interruption(true)
            .max_wasm_stack(STACK_BYTES)
            .async_stack_size(STACK_BYTES + HOST_STACK_BYTES)
            // One frame suffices: the innermost one identifies a failed host call.
            .wasm_backtrace_max_frames(Some(NonZeroUsize::MIN))
            // Results are compared between machines, so NaN and SIMD must be deterministic.
            .cranelift_nan_canonicalization(true)
            .relaxed_simd_deterministic(true);
        config
    }
}
