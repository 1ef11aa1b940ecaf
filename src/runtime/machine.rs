//! An engine with its settings and its compiled programs.

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use task::cache::{Cache, Capacity};
use wasmtime::{
    Enabled, Engine, InstanceAllocationStrategy, Linker, PoolingAllocationConfig, component,
};

use crate::compiler::Compiler;
use crate::disk::Disk;
use crate::error::{CompileError, CompileStep, ProgramError, RunError, RuntimeError};
use crate::guest::{self, Guest, Ready};
use crate::load::{self, CompiledCode};
use crate::memory::{INSTANCES_MAX, MEMORIES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};
use crate::options::RuntimeOptions;
use crate::program::{Program, ProgramKey};
use crate::settings::{Fuel, MemoryPlace, Settings};
use crate::single_flight::{Demand, SingleFlight};
use crate::ticker::Ticker;

/// Address space reserved for one memory: all of its 32-bit addresses, so that the processor checks
/// accesses. The memory itself is bounded by the limits of a guest.
const ADDRESS_SPACE_BYTES: usize = 1 << 32;

/// Bytes of a memory that are zeroed and reused for the next guest: as many as a small program touches.
/// Returning these pages to the system would cost more time than the program itself.
const MEMORY_KEPT_BYTES: usize = 256 * 1024;

/// Capacity of the cache of compiled modules. The cache can hold one of the largest modules, since
/// compiled code has about three times the size of its module.
const KEPT: Capacity = Capacity { n_values_max: 64, bytes_max: 512 * 1024 * 1024 };

/// Bytes of a table that are zeroed and reused for the next guest.
const TABLE_KEPT_BYTES: usize = 16 * 1024;

/// An engine, its linkers and its compiled programs.
pub(crate) struct Machine {
    engine: Engine,
    settings: Settings,
    commands: Linker<Guest>,
    components: component::Linker<Guest>,
    programs: Cache<ProgramKey, Arc<Ready>>,
    pending: SingleFlight<ProgramKey, Arc<Ready>>,
    compiler: Arc<Compiler>,
    pub(crate) ticker: Ticker,
    disk: Option<Arc<Disk>>,
    module_bytes_max: usize,
    short_cpu: Duration,
}

impl Machine {
    /// Sets up an engine that looks up compiled code on `disk` and compiles the rest with `compiler`.
    ///
    /// # Errors
    /// [`RuntimeError`] if the engine cannot be set up.
    pub(crate) fn new(
        options: &RuntimeOptions,
        fuel: Fuel,
        disk: Option<Arc<Disk>>,
        compiler: Arc<Compiler>,
    ) -> Result<Self, RuntimeError> {
        let refused =
            |error: wasmtime::Error| RuntimeError::Engine { source: error.into_boxed_dyn_error() };
        let settings = Settings { fuel, memory: MemoryPlace::Reserved };
        let (engine, settings) = match running_engine(settings, options) {
            Ok(engine) => (engine, settings),
            Err(error) => {
                tracing::debug!(cause = %format!("{error:#}"), "cannot reserve address space for guests");
                let settings = Settings { memory: MemoryPlace::OnDemand, ..settings };
                (running_engine(settings, options).map_err(refused)?, settings)
            }
        };
        let mut commands = Linker::new(&engine);
        guest::commands::offer(&mut commands).map_err(refused)?;
        let mut components = component::Linker::new(&engine);
        guest::components::offer(&mut components).map_err(refused)?;
        let ticker =
            Ticker::start(engine.clone()).map_err(|source| RuntimeError::Ticker { source })?;
        Ok(Self {
            engine,
            settings,
            commands,
            components,
            programs: Cache::new(KEPT),
            pending: SingleFlight::new(),
            compiler,
            ticker,
            disk,
            module_bytes_max: options.module_bytes_max,
            short_cpu: options.short_cpu,
        })
    }

    /// Returns the compiled `program`, after compiling it for `client` if necessary. Blocks for at most
    /// `within`, or until shortly after `is_gone` returns true.
    ///
    /// # Errors
    /// [`RunError::Program`] if the program is invalid, or other errors if this host cannot compile it
    /// now.
    pub(crate) fn ready(
        self: &Arc<Self>,
        program: &Program,
        client: &Arc<str>,
        within: Duration,
        is_gone: &mut dyn FnMut() -> bool,
    ) -> Result<Arc<Ready>, RunError> {
        if let Some(ready) = self.compiled_before(program) {
            return Ok(ready);
        }
        let (n_bytes, n_bytes_max) = (program.bytes.len(), self.module_bytes_max);
        if n_bytes > n_bytes_max {
            return Err(ProgramError::TooLarge { n_bytes, n_bytes_max }.into());
        }
        let (machine, compiled, client) = (Arc::clone(self), program.clone(), Arc::clone(client));
        let work = move |demand: &Demand| machine.prepare(&compiled, &client, demand);
        self.pending.wait(program.key, within, is_gone, work).map_err(|error| match error {
            CompileError::Program(error) => error.into(),
            CompileError::Child(source) => RunError::Compiler { source },
            CompileError::Busy => RunError::ProcessorsBusy { within: self.compiler.within },
            CompileError::Unwanted(step) => RunError::NotCompiled { within, step },
            CompileError::Panicked => RunError::Lost { source: None },
        })
    }

    /// Returns true if the code of `program` is in memory or on the disk.
    pub(crate) fn is_compiled(&self, program: &Program) -> bool {
        let is_kept = |disk: &Arc<Disk>| disk.holds(&self.engine, program);
        self.compiled_before(program).is_some() || self.disk.as_ref().is_some_and(is_kept)
    }

    /// Returns the compiled `program` if it is in memory.
    pub(crate) fn compiled_before(&self, program: &Program) -> Option<Arc<Ready>> {
        self.programs.get(&program.key)
    }

    fn prepare(
        &self,
        program: &Program,
        client: &Arc<str>,
        demand: &Demand,
    ) -> Result<Arc<Ready>, CompileError> {
        // Another caller might have compiled it in the meantime.
        if let Some(ready) = self.compiled_before(program) {
            return Ok(ready);
        }
        demand.note_step(CompileStep::Elsewhere);
        let found = self
            .disk
            .as_ref()
            .map(|disk| disk.find_or_take_turn(&self.engine, program, &|| demand.is_wanted()));
        let found = found.unwrap_or(Err(None));
        let is_new = found.is_err();
        let (code, _turn) = match found {
            Ok(code) => (code, None),
            Err(_) if !demand.is_wanted() => return Err(CompileError::Unwanted(demand.step())),
            Err(turn) => {
                let (engine, settings) = (&self.engine, self.settings);
                (self.compiler.compile(engine, settings, program, client, demand)?, turn)
            }
        };
        let linked = self.link(program, &code);
        if let Err(error @ ProgramError::Import { .. }) = &linked {
            self.compiler.note_refusal(program, client, error);
        }
        let ready = Arc::new(linked.map_err(CompileError::Program)?);
        // Only code that can run is kept, since new code evicts other code from the disk.
        if let Some(disk) = self.disk.as_ref().filter(|_| is_new) {
            disk.keep(&self.engine, program, &code);
        }
        self.programs.put(program.key, Arc::clone(&ready), ready.n_bytes());
        Ok(ready)
    }

    /// Loads compiled code and links its imports.
    fn link(&self, program: &Program, code: &CompiledCode) -> Result<Ready, ProgramError> {
        let compile = |error| ProgramError::Compile { source: shared(error) };
        let import = |error| ProgramError::Import { source: shared(error) };
        if program.is_component() {
            let component = load::component(&self.engine, code).map_err(compile)?;
            Ready::component(&self.components, &component, self.short_cpu).map_err(import)
        } else {
            let module = load::module(&self.engine, code).map_err(compile)?;
            // The functions of WASI preview 0 have other types and are not offered.
            if module.imports().any(|import| import.module() == "wasi_unstable") {
                let hint = "`wasi_unstable` is not supported: build the module for wasm32-wasip1";
                return Err(import(wasmtime::Error::msg(hint)));
            }
            Ready::command(&self.commands, &module, self.short_cpu).map_err(import)
        }
    }
}

/// Returns an engine that can run guests.
///
/// # Errors
/// If the engine rejects its settings, or there is too little address space.
fn running_engine(settings: Settings, options: &RuntimeOptions) -> wasmtime::Result<Engine> {
    let mut config = settings.config();
    if settings.memory == MemoryPlace::Reserved {
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool(options)));
    }
    Engine::new(&config)
}

fn pool(options: &RuntimeOptions) -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    let runs_max = options.runs_max.get();
    pool.total_core_instances(runs_max.saturating_mul(INSTANCES_MAX))
        .total_component_instances(runs_max)
        // One more for the garbage-collected objects of each guest.
        .total_memories(runs_max.saturating_mul(MEMORIES_MAX.saturating_add(1)))
        .total_gc_heaps(runs_max)
        .total_tables(runs_max.saturating_mul(TABLES_MAX))
        .total_stacks(runs_max)
        .max_core_instances_per_component(INSTANCES_MAX)
        .max_memories_per_component(MEMORIES_MAX)
        .max_memories_per_module(MEMORIES_MAX)
        .max_tables_per_component(TABLES_MAX)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memory_size(ADDRESS_SPACE_BYTES)
        .linear_memory_keep_resident(MEMORY_KEPT_BYTES)
        .table_keep_resident(TABLE_KEPT_BYTES)
        .pagemap_scan(Enabled::Auto);
    pool
}

fn shared(error: wasmtime::Error) -> Arc<dyn StdError + Send + Sync> {
    Arc::from(error.into_boxed_dyn_error())
}
