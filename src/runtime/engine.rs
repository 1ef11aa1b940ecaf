//! The runtime: compiles programs, caches them and runs a limited number of guests concurrently.

use std::convert::Infallible;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use tokio::sync::oneshot::error::TryRecvError;
use tokio::sync::oneshot::{self};
use tokio::task::spawn_blocking;

use crate::compiler::Compiler;
use crate::disk::Disk;
use crate::driver::FirstPoll;
use crate::error::{RunError, RuntimeError};
use crate::guest::{self, Abandoned, Ready};
use crate::machine::Machine;
use crate::options::RuntimeOptions;
use crate::output::Streams;
use crate::program::Program;
use crate::run::{Run, RunOutcome};
use crate::settings::Fuel;

/// Time that a run waits for the compiler to start, in addition to the time limit of a compilation.
const TURN_WITHIN: Duration = Duration::from_secs(1);

/// Runs programs. Cheap to clone: all clones share one engine and its limits.
#[derive(Clone, derive_more::Debug)]
pub struct Runtime(#[debug(skip)] Arc<Inner>);

struct Inner {
    options: RuntimeOptions,
    disk: Option<Arc<Disk>>,
    compiler: Arc<Compiler>,
    machine: Arc<Machine>,
    /// Engine that counts fuel. Set up by the first guest with a fuel limit.
    fueled: Mutex<Option<Arc<Machine>>>,
    places: Arc<Semaphore>,
    /// Locked while a guest begins in a thread that drives futures, so that only one guest does so at a
    /// time.
    beginning: Mutex<()>,
}

/// Options of a compilation before a run.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// Client for which the program is compiled, as in [`Run::client`].
    pub client: Arc<str>,
    /// True if the runs have a fuel limit, which needs different code.
    pub has_fuel: bool,
    /// True if the caller waits until all earlier compilations are done and then for the compilation of
    /// this program. Otherwise the caller waits only for the time limit of a single compilation.
    pub is_patient: bool,
}

impl Runtime {
    /// Sets up an engine. It reserves 12 GiB of address space for each concurrent run. If a limit of the
    /// system prevents that, memory is allocated on demand and guests are slower.
    ///
    /// # Errors
    /// [`RuntimeError`] if the engine cannot be set up.
    pub fn new(options: RuntimeOptions) -> Result<Self, RuntimeError> {
        let disk = options.compiled_folder.as_deref().and_then(|folder| {
            Disk::open(folder)
                .inspect_err(|error| {
                    let cause = StdError::source(error).map(ToString::to_string);
                    tracing::warn!(%error, cause, "compiled code is not stored on the disk");
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

    /// Returns the number of further guests that could start now. The slot of a guest becomes free once
    /// the guest and the compiler that it waited for have stopped.
    pub fn n_free(&self) -> usize {
        self.0.places.available_permits()
    }

    /// Returns true if a run of `program` can start immediately because its code is in memory or on the
    /// disk. `has_fuel` is true for a run with a fuel limit.
    pub fn is_compiled(&self, program: &Program, has_fuel: bool) -> bool {
        if !has_fuel {
            return self.0.machine.is_compiled(program);
        }
        self.0.fueled.lock().as_ref().is_some_and(|machine| machine.is_compiled(program))
    }

    /// Compiles `program` unless its code is in memory or on the disk. All callers with the same program
    /// wait for one compilation, as do other processes that share the directory for compiled code.
    ///
    /// Cancel-safe: dropping the future stops the compiler if no other caller waits for it. Must be
    /// called in a tokio runtime.
    ///
    /// # Errors
    /// [`RunError::Program`] if the module is invalid, or other errors if this host cannot compile it in
    /// time.
    pub async fn prepare(&self, program: &Program, how: Preparation) -> Result<(), RunError> {
        let Preparation { client, has_fuel, is_patient } = how;
        let (waiting, mut abandoned) = oneshot::channel::<Infallible>();
        let (inner, program) = (Arc::clone(&self.0), program.clone());
        let work = spawn_blocking(move || {
            let machine = if has_fuel { inner.fueled()? } else { Arc::clone(&inner.machine) };
            let mut is_gone = || matches!(abandoned.try_recv(), Err(TryRecvError::Closed));
            let within = if is_patient { Duration::MAX } else { inner.ready_within() };
            machine.ready(&program, &client, within, &mut is_gone).map(drop)
        });
        let prepared = work.await.map_err(|source| RunError::Lost { source: Some(source) })?;
        drop(waiting);
        prepared
    }

    /// Runs `program` in this thread like [`Self::execute`], but does not wait for a free slot: the
    /// caller must observe `runs_max`. Blocks. Must not be called in a thread that drives futures.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_here(&self, program: &Program, run: Run) -> Result<RunOutcome, RunError> {
        let (_waiting, abandoned) = oneshot::channel::<Infallible>();
        self.0.run(program, run, Streams::Kept, abandoned)
    }

    /// Runs `program` in this thread with the standard streams of this process. The outcome therefore
    /// contains no output, and the input in `run` is ignored.
    ///
    /// # Errors
    /// As [`Self::execute`].
    pub fn execute_attached(&self, program: &Program, run: Run) -> Result<RunOutcome, RunError> {
        let (_waiting, abandoned) = oneshot::channel::<Infallible>();
        self.0.run(program, run, Streams::Process, abandoned)
    }

    /// Runs `program` to its end. A [`RunOutcome`] is also returned if the guest fails or exceeds a
    /// limit.
    ///
    /// Waits for a free slot while `runs_max` guests run. The number of waiting callers is not limited.
    /// A program is compiled once, on its first run. A command that uses no files and whose latest run
    /// was short starts in the calling thread. It moves to its own thread when it waits, or after about
    /// 10 ms. All other programs start in their own threads.
    ///
    /// Cancel-safe: dropping the future stops the guest within about 10 ms, and the compiler within
    /// about 20 ms unless other callers wait for it. The slot is occupied until then. Must be called in
    /// a tokio runtime.
    ///
    /// # Errors
    /// [`RunError::Program`] if the module is invalid, or other errors if this host cannot run it.
    pub async fn execute(&self, program: &Program, run: Run) -> Result<RunOutcome, RunError> {
        let place = Arc::clone(&self.0.places).acquire_owned().await;
        let (waiting, abandoned) = oneshot::channel::<Infallible>();
        let inner = Arc::clone(&self.0);
        let work = if let Some((ready, alone)) = inner.short(program, &run) {
            let ticking = inner.machine.ticker.tick();
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
        let ready = machine.ready(program, &run.client, self.ready_within(), &mut is_gone)?;
        ready.check_entry(&run.entry)?;
        let _ticking = machine.ticker.tick();
        guest::run(&ready, program, run, streams, abandoned)?.ok_or(RunError::Lost { source: None })
    }

    /// Returns the maximum time that a run waits until its program is compiled.
    fn ready_within(&self) -> Duration {
        self.compiler.within.saturating_add(TURN_WITHIN)
    }

    /// If `program` can begin in a thread that drives futures, returns its code and a lock that the
    /// caller must hold while the guest begins.
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

#[cfg(test)]
mod tests;
