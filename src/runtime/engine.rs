//! The engine: compiles programs, keeps what it compiled, and runs guests, a few at a time.

use std::{
    convert::Infallible, error::Error as StdError, fmt, io, num::NonZeroU32, path::PathBuf,
    sync::Arc, time::Duration,
};

use parking_lot::{Mutex, MutexGuard};
use task::cache::Capacity;
use tokio::{
    sync::{
        Semaphore,
        oneshot::{self, error::TryRecvError},
    },
    task::{JoinError, spawn_blocking},
};

use crate::{
    compiler::{CompileIn, Compiler},
    disk::Disk,
    driver::FirstPoll,
    guest::{self, Abandoned, Ready},
    machine::{Fuel, Machine},
    output::Streams,
    program::Program,
    run::{Run, RunOutcome},
};

/// The stack a guest's calls may take: what the engine gives by default, and eight times the stack
/// of a thread in WASI's C library.
const STACK_BYTES: usize = 512 * 1024;

/// The largest module accepted. Functions are some ten kilobytes in C and a few megabytes in Go or
/// Python; compiling takes time and memory in proportion.
const MODULE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// Compiled modules kept, by number and by size. Compiled code is some three times its module.
const KEPT: Capacity = Capacity { n_values_max: 64, bytes_max: 256 * 1024 * 1024 };

/// The most time a program has to be compiled in: longer than a head waits for it by default.
const COMPILE_WITHIN: Duration = Duration::from_mins(1);

/// Up to what it took last, of the processor's time, a program is begun on a thread that does other
/// things: a tenth of what such a thread may then be held up.
const SHORT_CPU: Duration = Duration::from_millis(1);

/// Runs programs. Cheap to clone: all clones share one engine and its limits.
#[derive(Clone)]
pub struct Runtime(Arc<Inner>);

/// How a runtime is sized.
#[derive(Debug, Clone)]
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
    /// A program whose last run took no more of the processor's time than this is begun on the
    /// thread that asks for its next one.
    pub short_cpu: Duration,
    /// Where compiled code is kept beyond the life of this runtime, shared with all others that
    /// are given this folder. None: nowhere. A folder that cannot be used, or that other users
    /// may write to, is not used, with a warning in the log.
    pub compiled_folder: Option<PathBuf>,
    /// Where programs are compiled.
    pub compile_in: CompileIn,
    /// How long compiling one program may take. The limits of a run apply only
    /// afterwards.
    pub compile_within: Duration,
}

/// Why there is no runtime.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RuntimeError {
    /// The engine refused its options or found too little address space.
    #[error("set up the WebAssembly engine")]
    Engine {
        /// The engine's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The system refused a thread.
    #[error("start the thread that interrupts guests")]
    Ticker {
        /// The system's reason.
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
        /// The size of the module.
        n_bytes: usize,
        /// What is accepted.
        n_bytes_max: usize,
    },
    /// It is no valid module, or has more of something than is compiled.
    #[error("compile the module")]
    Compile {
        /// The compiler's reason.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// Compiling it takes too long. For some minutes it is refused at once.
    #[error("compile the module within {within:?}: make its functions smaller")]
    CompileTime {
        /// How long it may take.
        within: Duration,
    },
    /// Compiling it takes too much memory. For some minutes it is refused at once.
    #[error("compile the module in {n_bytes} bytes of address space: make its functions smaller")]
    CompileMemory {
        /// How much it may take.
        n_bytes: u64,
    },
    /// It imports what WASI does not have, or is a component without `wasi:cli/run`.
    #[error("offer the module what it imports")]
    Import {
        /// The engine's reason, which names the import.
        source: Arc<dyn StdError + Send + Sync>,
    },
    /// It is a library, not a command.
    #[error("find the function {entry} that a WASI command exports")]
    NoStart {
        /// What was looked for.
        entry: String,
    },
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
        source: io::Error,
    },
    /// The system refused the folder of a guest.
    #[error("make the guest's folder")]
    Files {
        /// The system's reason.
        source: io::Error,
    },
    /// The engine that counts fuel could not be set up.
    #[error("give the guest fuel")]
    Fuel {
        /// The engine's reason.
        source: Box<dyn StdError + Send + Sync>,
    },
    /// The process that compiles could not be started, or failed.
    #[error("start the compiler")]
    Compiler {
        /// What went wrong.
        source: Arc<io::Error>,
    },
    /// Others were compiled for all that time.
    #[error("compile the module within {within:?}: the compilers were busy with others; try again")]
    CompilersBusy {
        /// How long compiling may take.
        within: Duration,
    },
    /// The thread that ran the guest panicked, or the program is shutting down.
    #[error("finish the run")]
    Lost {
        /// Which of the two.
        source: Option<JoinError>,
    },
}

struct Inner {
    options: RuntimeOptions,
    disk: Option<Arc<Disk>>,
    compiler: Arc<Compiler>,
    machine: Arc<Machine>,
    /// Set up by the first guest that has fuel.
    fueled: Mutex<Option<Arc<Machine>>>,
    places: Arc<Semaphore>,
    /// Held while a guest is begun on a thread that drives futures: one at a time.
    beginning: Mutex<()>,
}

/// How often programs were made ready to run for the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compilations {
    /// How many were compiled.
    pub n_compiled: usize,
    /// How many were found compiled on the disk.
    pub n_found: usize,
}

impl RuntimeOptions {
    /// The usual sizes for `runs_max` guests at once: a stack of 512 KiB, modules up to 32 MiB, 64
    /// of them kept compiled in at most 256 MiB, none on the disk; compiling takes a minute at most;
    /// a run up to 1 ms is short.
    #[must_use]
    pub const fn for_runs(runs_max: NonZeroU32, compile_in: CompileIn) -> Self {
        Self {
            runs_max,
            stack_bytes: STACK_BYTES,
            module_bytes_max: MODULE_BYTES_MAX,
            kept_modules_max: KEPT.n_values_max,
            kept_bytes_max: KEPT.bytes_max,
            short_cpu: SHORT_CPU,
            compiled_folder: None,
            compile_in,
            compile_within: COMPILE_WITHIN,
        }
    }
}

impl Runtime {
    /// Sets up an engine. It sets aside 8 GiB of addresses, not of memory, for each run at once; where
    /// a limit of the system keeps it from that, guests get memory as they ask for it, and are slower.
    ///
    /// # Errors
    /// [`RuntimeError`] if the engine or the system refuses.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let disk = options.compiled_folder.as_deref().and_then(|folder| {
            Disk::open(folder)
                .inspect_err(|error| {
                    let cause = StdError::source(error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "compiled code is not kept on the disk");
                })
                .ok()
        });
        let disk = disk.map(Arc::new);
        let compiler = Compiler::new(options.compile_in.clone(), options.compile_within);
        let compiler = Arc::new(compiler);
        let machine = Machine::new(&options, Fuel::Free, disk.clone(), Arc::clone(&compiler))?;
        Ok(Self(Arc::new(Inner {
            machine: Arc::new(machine),
            compiler,
            disk,
            fueled: Mutex::default(),
            places: Arc::new(Semaphore::new(usize::try_from(options.runs_max.get()).unwrap_or(1))),
            beginning: Mutex::default(),
            options,
        })))
    }

    /// How many more programs could run now. A place is free only once its guest, and the compiler it
    /// waited for, are gone.
    pub fn n_free(&self) -> usize {
        self.0.places.available_permits()
    }

    /// How many programs were compiled so far, and how many needed not be.
    pub fn compilations(&self) -> Compilations {
        let fueled = self.0.fueled.lock().as_ref().map_or(0, |machine| machine.n_prepared());
        let n_prepared = self.0.machine.n_prepared() + fueled;
        let n_found = self.0.disk.as_ref().map_or(0, |disk| disk.n_found());
        Compilations { n_compiled: n_prepared.saturating_sub(n_found), n_found }
    }

    /// Runs `program` on this thread, otherwise as [`Self::execute`] does, but for waiting for a
    /// place: `runs_max` is up to the caller. Blocks; not for a thread that drives futures.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_here(&self, program: &Program, run: Run) -> Result<RunOutcome, RunError> {
        let (_waiting, abandoned) = oneshot::channel::<Infallible>();
        self.0.run(program, run, Streams::Kept, abandoned)
    }

    /// Runs `program` on this thread with the standard streams of this process: its output, up to
    /// its limit, is not in what it left behind, and its input is not that of `run`.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_attached(&self, program: &Program, run: Run) -> Result<RunOutcome, RunError> {
        let (_waiting, abandoned) = oneshot::channel::<Infallible>();
        self.0.run(program, run, Streams::Process, abandoned)
    }

    /// Runs `program` to its end and returns what it left behind, however it ended: a guest that
    /// fails or breaks a limit is a [`RunOutcome`] too.
    ///
    /// Waits for a place while `runs_max` guests run, however many callers wait already: bounding
    /// those is up to them. A program is compiled on its first run, once however many ask. One whose
    /// last run was short begins on this thread, and leaves it after some 10 ms at most; all others
    /// run on threads of their own. Cancel-safe: dropping the future ends the guest within some 10 ms,
    /// and its compiler, if nobody else waits for that, within some 20 ms; the place is taken until
    /// then. Needs a tokio runtime around it.
    ///
    /// # Errors
    /// [`RunError::Program`] if the module cannot be run at all, otherwise if this host cannot.
    pub async fn execute(&self, program: &Program, run: Run) -> Result<RunOutcome, RunError> {
        let place = Arc::clone(&self.0.places).acquire_owned().await;
        let (waiting, abandoned) = oneshot::channel::<Infallible>();
        let inner = Arc::clone(&self.0);
        let work = if let Some((ready, alone)) = inner.short(program, &run) {
            let ticking = inner.machine.tick();
            let begun = guest::begin(ready, program.clone(), run, abandoned)?;
            drop(alone);
            let rest = match begun {
                FirstPoll::Ready(finished) => {
                    return finished?.ok_or(RunError::Lost { source: None });
                }
                FirstPoll::Panicked => return Err(RunError::Lost { source: None }),
                FirstPoll::Unfinished(rest) => rest,
            };
            let inner = Arc::clone(&inner);
            spawn_blocking(move || {
                let finished = rest.block_on();
                drop((ticking, place, inner));
                finished?.ok_or(RunError::Lost { source: None })
            })
        } else {
            let (inner, program) = (Arc::clone(&inner), program.clone());
            spawn_blocking(move || {
                let finished = inner.run(&program, run, Streams::Kept, abandoned);
                drop(place);
                finished
            })
        };
        let finished = work.await.map_err(|source| RunError::Lost { source: Some(source) })?;
        drop(waiting);
        finished
    }
}

impl Inner {
    fn run(
        &self,
        program: &Program,
        run: Run,
        streams: Streams,
        mut abandoned: Abandoned,
    ) -> Result<RunOutcome, RunError> {
        let fueled = if run.limits.fuel.is_some() { Some(self.fueled()?) } else { None };
        let machine = fueled.as_ref().unwrap_or(&self.machine);
        let mut is_gone = || matches!(abandoned.try_recv(), Err(TryRecvError::Closed));
        let ready = machine.ready(program, &run.client, &mut is_gone)?;
        ready.check_entry(&run.entry)?;
        let _ticking = machine.tick();
        guest::run(&ready, program, run, streams, abandoned)?.ok_or(RunError::Lost { source: None })
    }

    /// Returns `program` if it may begin on a thread that drives futures, and what it holds while it
    /// does.
    fn short(&self, program: &Program, run: &Run) -> Option<(Arc<Ready>, MutexGuard<'_, ()>)> {
        if run.limits.fuel.is_some() {
            return None;
        }
        let ready = self.machine.compiled_before(program)?;
        let is_fit = ready.is_short() && ready.check_entry(&run.entry).is_ok();
        let alone = is_fit.then(|| self.beginning.try_lock())??;
        Some((ready, alone))
    }

    fn fueled(&self) -> Result<Arc<Machine>, RunError> {
        let mut fueled = self.fueled.lock();
        if let Some(machine) = &*fueled {
            return Ok(Arc::clone(machine));
        }
        let compiler = Arc::clone(&self.compiler);
        let machine = Machine::new(&self.options, Fuel::Counted, self.disk.clone(), compiler)
            .map_err(|error| RunError::Fuel { source: Box::new(error) })?;
        Ok(Arc::clone(fueled.insert(Arc::new(machine))))
    }
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n_places_free = self.0.places.available_permits();
        f.debug_struct("Runtime").field("n_places_free", &n_places_free).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
