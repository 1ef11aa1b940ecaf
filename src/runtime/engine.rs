//! The engine: compiles programs, keeps what it compiled, and runs guests, a few at a time.

use std::{convert::Infallible, error::Error as StdError, fmt, io, num::NonZeroU32, sync::Arc};

use tokio::{
    sync::{Semaphore, oneshot},
    task::{JoinError, spawn_blocking},
};
use wasmtime::{
    Config, Engine, ExternType, InstanceAllocationStrategy, InstancePre, Linker, Module,
    PoolingAllocationConfig,
};

use crate::{
    cache::{Cache, Capacity},
    guest::{self, Abandoned, Guest, START},
    memory::TABLE_ELEMENTS_MAX,
    program::{Program, ProgramKey},
    run::{Finished, Run},
    ticker::Ticker,
};

/// The stack a guest's calls may take: what the engine gives by default, and eight times the stack
/// of a thread in WASI's C library.
const STACK_BYTES: usize = 512 * 1024;

/// What the host's own functions may take of a guest's stack beyond that. A debug build has large
/// frames; the engine's default is a little less.
const HOST_STACK_BYTES: usize = 2 * 1024 * 1024;

/// The largest module accepted. Functions are some ten kilobytes in C and a few megabytes in Go or
/// Python; compiling takes time and memory in proportion.
const MODULE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Compiled modules kept, by number and by size. Compiled code is some three times its module.
const KEPT: Capacity = Capacity { n_values_max: 64, bytes_max: 256 * 1024 * 1024 };

/// Tables a module may have: C has one, languages with references a few.
const TABLES_MAX: u32 = 4;

/// The size of a 32-bit address space. What a guest may really take is up to its limits; so much
/// is set aside in addresses alone, which lets the processor check its accesses.
const ADDRESS_SPACE_BYTES: usize = 1 << 32;

/// Runs programs. Cheap to clone: all clones share one engine and its limits.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

/// How a runtime is sized.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeOptions {
    /// How many guests run at once. Who comes when all places are taken waits for one.
    pub runs_max: NonZeroU32,
    /// How deep a guest's calls may go.
    pub stack_bytes: usize,
    /// The largest module accepted.
    pub module_bytes_max: usize,
    /// How many compiled modules are kept.
    pub kept_modules_max: usize,
    /// How many bytes of compiled code are kept.
    pub kept_bytes_max: usize,
}

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The engine refused its options or found too little address space.
    #[error("set up the WebAssembly engine")]
    Engine {
        /// The engine's reason.
        #[source]
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The system refused a thread.
    #[error("start the thread that interrupts guests")]
    Ticker {
        /// The system's reason.
        #[source]
        source: io::Error,
    },
}

/// Why a program cannot be run, ever.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum ProgramError {
    /// It is larger than accepted.
    #[error("take a module of {n_bytes} bytes, more than {n_bytes_max}")]
    TooLarge {
        /// Its size.
        n_bytes: usize,
        /// What is accepted.
        n_bytes_max: usize,
    },
    /// It is no valid module, or asks for more than a guest can have.
    #[error("compile the module")]
    Compile {
        /// The engine's reason.
        #[source]
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// It imports what WASI preview 1 does not have.
    #[error("offer the module what it imports")]
    Import {
        /// The engine's reason, which names the import.
        #[source]
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// It is a library, not a command.
    #[error("find the function {START} that a WASI command exports")]
    NoStart,
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
        #[source]
        source: io::Error,
    },
    /// The thread that ran the guest panicked, or the program is shutting down.
    #[error("finish the run")]
    Lost {
        /// Which of the two.
        #[source]
        source: Option<JoinError>,
    },
}

struct Inner {
    engine: Engine,
    linker: Linker<Guest>,
    programs: Cache<ProgramKey, InstancePre<Guest>, ProgramError>,
    places: Arc<Semaphore>,
    ticker: Ticker,
    module_bytes_max: usize,
}

impl RuntimeOptions {
    /// The usual sizes for `runs_max` guests at once: a stack of 512 KiB, modules up to 32 MiB, 64
    /// of them kept compiled in at most 256 MiB.
    #[must_use]
    pub const fn for_runs(runs_max: NonZeroU32) -> Self {
        Self {
            runs_max,
            stack_bytes: STACK_BYTES,
            module_bytes_max: MODULE_BYTES_MAX,
            kept_modules_max: KEPT.n_values_max,
            kept_bytes_max: KEPT.bytes_max,
        }
    }
}

impl Runtime {
    /// Sets up an engine. It sets aside 4 GiB of addresses, not of memory, for each run at once.
    ///
    /// # Errors
    /// [`RuntimeError`] if the engine or the system refuses.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let refused =
            |error: wasmtime::Error| RuntimeError::Engine { source: error.into_boxed_dyn_error() };
        let engine = Engine::new(&config(options)).map_err(refused)?;
        let mut linker = Linker::new(&engine);
        guest::offer_wasi(&mut linker).map_err(refused)?;
        let ticker =
            Ticker::start(engine.clone()).map_err(|source| RuntimeError::Ticker { source })?;
        let kept =
            Capacity { n_values_max: options.kept_modules_max, bytes_max: options.kept_bytes_max };
        Ok(Self(Arc::new(Inner {
            engine,
            linker,
            programs: Cache::new(kept),
            places: Arc::new(Semaphore::new(usize::try_from(options.runs_max.get()).unwrap_or(1))),
            ticker,
            module_bytes_max: options.module_bytes_max,
        })))
    }

    /// Runs `program` to its end and returns what it left behind, however it ended: a guest that
    /// fails or breaks a limit is a [`Finished`] too.
    ///
    /// Waits for a place while `runs_max` guests run, however many callers wait already: bounding
    /// those is up to them. A program is compiled on its first run, once however many ask; that is
    /// not cut short. Cancel-safe: dropping the future ends the guest within some 10 ms. Needs a
    /// tokio runtime around it.
    ///
    /// # Errors
    /// [`RunError::Program`] if the module cannot be run at all, otherwise if this host cannot.
    pub async fn execute(&self, program: &Program, run: Run) -> Result<Finished, RunError> {
        let place = Arc::clone(&self.0.places).acquire_owned().await;
        let (waiting, abandoned) = oneshot::channel::<Infallible>();
        let (inner, program) = (Arc::clone(&self.0), program.clone());
        let work = spawn_blocking(move || {
            let finished = inner.run(&program, run, abandoned);
            drop(place);
            finished
        });
        let finished = work.await.map_err(|source| RunError::Lost { source: Some(source) })?;
        drop(waiting);
        finished
    }
}

impl Inner {
    fn run(&self, program: &Program, run: Run, abandoned: Abandoned) -> Result<Finished, RunError> {
        let ready =
            self.programs.get_or_make(program.key(), || self.prepare(program), n_code_bytes)?;
        let _ticking = self.ticker.tick();
        guest::run(&ready, run, abandoned)
            .map_err(|source| RunError::Clock { source })?
            .ok_or(RunError::Lost { source: None })
    }

    fn prepare(&self, program: &Program) -> Result<InstancePre<Guest>, ProgramError> {
        let (n_bytes, n_bytes_max) = (program.bytes().len(), self.module_bytes_max);
        if n_bytes > n_bytes_max {
            return Err(ProgramError::TooLarge { n_bytes, n_bytes_max });
        }
        let module = Module::from_binary(&self.engine, program.bytes())
            .map_err(|error| ProgramError::Compile { source: shared(error) })?;
        let is_start = |export: ExternType| {
            export.func().is_some_and(|f| f.params().len() == 0 && f.results().len() == 0)
        };
        if !module.get_export(START).is_some_and(is_start) {
            return Err(ProgramError::NoStart);
        }
        self.linker
            .instantiate_pre(&module)
            .map_err(|error| ProgramError::Import { source: shared(error) })
    }
}

fn config(options: RuntimeOptions) -> Config {
    let mut pool = PoolingAllocationConfig::new();
    let runs_max = options.runs_max.get();
    pool.total_core_instances(runs_max)
        .total_memories(runs_max)
        .total_tables(runs_max.saturating_mul(TABLES_MAX))
        .total_stacks(runs_max)
        .max_tables_per_module(TABLES_MAX)
        .table_elements(TABLE_ELEMENTS_MAX)
        .max_memory_size(ADDRESS_SPACE_BYTES);
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

fn n_code_bytes(program: &InstancePre<Guest>) -> usize {
    let image = program.module().image_range();
    image.end.addr().saturating_sub(image.start.addr())
}

fn shared(error: wasmtime::Error) -> Arc<dyn StdError + Send + Sync> {
    Arc::from(error.into_boxed_dyn_error())
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_places_free = self.0.places.available_permits();
        f.debug_struct("Runtime").field("n_places_free", &n_places_free).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
