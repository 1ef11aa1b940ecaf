//! One engine with its settings, and the programs it has compiled.

use std::{
    error::Error as StdError,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use wasmtime::{
    Config, Enabled, Engine, InstanceAllocationStrategy, Linker, Module, PoolingAllocationConfig,
    component::{self, Component},
};

use crate::{
    cache::{Cache, Capacity},
    disk::Disk,
    engine::{ProgramError, RuntimeError, RuntimeOptions},
    guest::{self, Guest, Ready},
    memory::{INSTANCES_MAX, MEMORIES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX},
    program::{Program, ProgramKey},
    ticker::{Ticker, Ticking},
};

/// What the host's own functions may take of a guest's stack beyond its limit. A debug build has
/// large frames; the engine's default is a little less.
const HOST_STACK_BYTES: usize = 2 * 1024 * 1024;

/// The size of a 32-bit address space. What a guest may really take is up to its limits; so much
/// is set aside in addresses alone, which lets the processor check its accesses.
const ADDRESS_SPACE_BYTES: usize = 1 << 32;

/// What is kept of a memory once its guest has ended, zeroed, for the next one: what a small
/// program touches. Given back and asked for again, its pages would cost more than the program.
const MEMORY_KEPT_BYTES: usize = 256 * 1024;

/// What is kept of a table, likewise.
const TABLE_KEPT_BYTES: usize = 16 * 1024;

/// Whether an engine counts what a guest does. That makes each guest slower, so it is an engine of
/// its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fuel {
    /// Guests have fuel, and end when it is used up.
    Counted,
    /// Guests have all the fuel they want.
    Free,
}

/// An engine, what it offers to guests, and what it has compiled.
pub(crate) struct Machine {
    engine: Engine,
    commands: Linker<Guest>,
    components: component::Linker<Guest>,
    programs: Cache<ProgramKey, Arc<Ready>, ProgramError>,
    ticker: Ticker,
    disk: Option<Arc<Disk>>,
    module_bytes_max: usize,
    short_cpu: Duration,
    n_prepared: AtomicUsize,
}

impl Machine {
    /// Sets up an engine that finds compiled code on `disk`, if there is one.
    ///
    /// # Errors
    /// [`RuntimeError`] if the engine or the system refuses.
    pub(crate) fn new(
        options: &RuntimeOptions,
        fuel: Fuel,
        disk: Option<Arc<Disk>>,
    ) -> Result<Self, RuntimeError> {
        let refused =
            |error: wasmtime::Error| RuntimeError::Engine { source: error.into_boxed_dyn_error() };
        let mut config = config(options);
        config.consume_fuel(fuel == Fuel::Counted);
        config.cache(disk.as_ref().map(|disk| disk.cache()));
        let engine = Engine::new(&config).map_err(refused)?;
        let mut commands = Linker::new(&engine);
        guest::commands::offer(&mut commands).map_err(refused)?;
        let mut components = component::Linker::new(&engine);
        guest::components::offer(&mut components).map_err(refused)?;
        let ticker =
            Ticker::start(engine.clone()).map_err(|source| RuntimeError::Ticker { source })?;
        let kept =
            Capacity { n_values_max: options.kept_modules_max, bytes_max: options.kept_bytes_max };
        Ok(Self {
            engine,
            commands,
            components,
            programs: Cache::new(kept),
            ticker,
            disk,
            module_bytes_max: options.module_bytes_max,
            short_cpu: options.short_cpu,
            n_prepared: AtomicUsize::new(0),
        })
    }

    /// Keeps deadlines seen until the answer is dropped.
    pub(crate) fn tick(&self) -> Ticking {
        self.ticker.tick()
    }

    /// How many programs it was made ready for: compiled, or found compiled on the disk.
    pub(crate) fn n_prepared(&self) -> usize {
        self.n_prepared.load(Ordering::Relaxed)
    }

    /// Returns `program`, compiled: now, or once before. Blocks while it is compiled.
    ///
    /// # Errors
    /// [`ProgramError`] if it cannot be run.
    pub(crate) fn ready(&self, program: &Program) -> Result<Arc<Ready>, ProgramError> {
        self.programs.get_or_make(program.key(), || self.prepare(program), |ready| ready.n_bytes())
    }

    /// Returns `program` if it is compiled already.
    pub(crate) fn compiled_before(&self, program: &Program) -> Option<Arc<Ready>> {
        self.programs.get(program.key())
    }

    fn prepare(&self, program: &Program) -> Result<Arc<Ready>, ProgramError> {
        let (n_bytes, n_bytes_max) = (program.bytes().len(), self.module_bytes_max);
        if n_bytes > n_bytes_max {
            return Err(ProgramError::TooLarge { n_bytes, n_bytes_max });
        }
        let import = |error| ProgramError::Import { source: shared(error) };
        let ready = if program.is_component() {
            let component = self.compiled(program, Component::from_binary)?;
            Ready::component(&self.components, &component, self.short_cpu).map_err(import)?
        } else {
            let module = self.compiled(program, Module::from_binary)?;
            Ready::command(&self.commands, &module, self.short_cpu).map_err(import)?
        };
        self.n_prepared.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(ready))
    }

    fn compiled<T>(
        &self,
        program: &Program,
        compile: impl FnOnce(&Engine, &[u8]) -> wasmtime::Result<T>,
    ) -> Result<T, ProgramError> {
        let compile = || compile(&self.engine, program.bytes());
        let compiled = match &self.disk {
            Some(disk) => disk.compiled(&self.engine, program, compile),
            None => compile(),
        };
        compiled.map_err(|error| ProgramError::Compile { source: shared(error) })
    }
}

fn config(options: &RuntimeOptions) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    let runs_max = options.runs_max.get();
    pool.total_core_instances(runs_max.saturating_mul(INSTANCES_MAX))
        .total_component_instances(runs_max)
        .total_memories(runs_max.saturating_mul(MEMORIES_MAX))
        .total_tables(runs_max.saturating_mul(TABLES_MAX))
        .total_stacks(runs_max)
        .max_core_instances_per_component(INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memory_size(ADDRESS_SPACE_BYTES)
        .linear_memory_keep_resident(MEMORY_KEPT_BYTES)
        .table_keep_resident(TABLE_KEPT_BYTES)
        .pagemap_scan(Enabled::Auto);
    let mut config = Config::new();
    config
        .allocation_strategy(InstanceAllocationStrategy::Pooling(pool))
        .epoch_interruption(true)
        .max_wasm_stack(options.stack_bytes)
        .async_stack_size(options.stack_bytes.saturating_add(HOST_STACK_BYTES))
        .wasm_backtrace_max_frames(None)
        // Results are compared between machines: a NaN has one spelling, SIMD one meaning.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true);
    config
}

fn shared(error: wasmtime::Error) -> Arc<dyn StdError + Send + Sync> {
    Arc::from(error.into_boxed_dyn_error())
}
