//! An engine with its settings and its compiled programs.

use std::collections::HashMap;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::{BoxFuture, Shared, WeakShared};
use parking_lot::Mutex;
use task::cache::{Cache, Capacity};
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use wasmtime::{
    Enabled, Engine, InstanceAllocationStrategy, Linker, PoolingAllocationConfig, component,
};

use crate::compiler::Compiler;
use crate::disk::Disk;
use crate::error::{CompileError, ProgramError, RunError, RuntimeError};
use crate::guest::{self, Guest, Ready};
use crate::load::{self, CompiledCode};
use crate::memory::{INSTANCES_MAX, MEMORIES_MAX, TABLE_ELEMENTS_MAX, TABLES_MAX};
use crate::options::RuntimeOptions;
use crate::program::{Program, ProgramKey};
use crate::settings::{Fuel, MemoryPlace, Settings};
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
    /// Compilations in progress. Each stops when no caller waits for it any more.
    pending: Mutex<HashMap<ProgramKey, WeakShared<Preparing>>>,
    compiler: Arc<Compiler>,
    pub(crate) ticker: Ticker,
    disk: Option<Arc<Disk>>,
    module_bytes_max: usize,
    short_cpu: Duration,
}

/// Compilation of a program.
type Preparing = BoxFuture<'static, Result<Arc<Ready>, CompileError>>;

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
        let ticker = Ticker::start(engine.clone())
            .map_err(|source| RuntimeError::Engine { source: source.into() })?;
        Ok(Self {
            engine,
            settings,
            commands,
            components,
            programs: Cache::new(KEPT),
            pending: Mutex::default(),
            compiler,
            ticker,
            disk,
            module_bytes_max: options.module_bytes_max,
            short_cpu: options.short_cpu,
        })
    }

    /// Returns the compiled `program`, after compiling it for `client` if necessary. Waits for at most
    /// `within`. Cancel-safe.
    ///
    /// # Errors
    /// [`RunError::Program`] if the program is invalid, or other errors if this host cannot compile it
    /// now.
    pub(crate) async fn ready(
        self: &Arc<Self>,
        program: &Program,
        client: &Arc<str>,
        within: Duration,
    ) -> Result<Arc<Ready>, RunError> {
        if let Some(ready) = self.compiled_before(program) {
            return Ok(ready);
        }
        let (n_bytes, n_bytes_max) = (program.bytes.len(), self.module_bytes_max);
        if n_bytes > n_bytes_max {
            return Err(ProgramError::TooLarge { n_bytes, n_bytes_max }.into());
        }
        let prepared = timeout(within, self.preparing(program, client)).await;
        prepared.map_err(|_| RunError::NotCompiled { within })?.map_err(|error| match error {
            CompileError::Program(error) => error.into(),
            CompileError::Child(source) => {
                RunError::Host { what: "compiler failed", source: source.into() }
            }
            CompileError::Busy => RunError::ProcessorsBusy { within: self.compiler.within },
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

    /// Returns the compilation of `program`, which all callers share.
    fn preparing(self: &Arc<Self>, program: &Program, client: &Arc<str>) -> Shared<Preparing> {
        let mut pending = self.pending.lock();
        pending.retain(|_, preparing| preparing.upgrade().is_some());
        if let Some(preparing) = pending.get(&program.key).and_then(WeakShared::upgrade) {
            return preparing;
        }
        let (machine, compiled, client) = (Arc::clone(self), program.clone(), Arc::clone(client));
        let preparing = async move { machine.prepare(compiled, client).await }.boxed().shared();
        pending.extend(preparing.downgrade().map(|preparing| (program.key, preparing)));
        preparing
    }

    async fn prepare(
        self: Arc<Self>,
        program: Program,
        client: Arc<str>,
    ) -> Result<Arc<Ready>, CompileError> {
        // Another caller might have compiled it in the meantime.
        if let Some(ready) = self.compiled_before(&program) {
            return Ok(ready);
        }
        let found = match &self.disk {
            Some(disk) => disk.find_or_take_turn(&self.engine, &program).await,
            None => Err(None),
        };
        let is_new = found.is_err();
        let (code, turn) = match found {
            Ok(code) => (code, None),
            Err(turn) => {
                let compiling =
                    self.compiler.compile(&self.engine, self.settings, &program, &client);
                (compiling.await?, turn)
            }
        };
        let load = move || {
            let ready = self.load(&program, &code, is_new);
            drop(turn);
            ready
        };
        spawn_blocking(load)
            .await
            .map_err(|_| CompileError::Panicked)?
            .map_err(CompileError::Program)
    }

    /// Loads compiled code, which is stored on the disk if it is new. Blocks.
    fn load(
        &self,
        program: &Program,
        code: &CompiledCode,
        is_new: bool,
    ) -> Result<Arc<Ready>, ProgramError> {
        let linked = self.link(program, code);
        if let Err(error @ ProgramError::Import { .. }) = &linked {
            self.compiler.note_refusal(program, error);
        }
        let ready = Arc::new(linked?);
        // Only code that can run is kept, since new code evicts other code from the disk.
        if let Some(disk) = self.disk.as_ref().filter(|_| is_new) {
            disk.keep(&self.engine, program, code);
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
