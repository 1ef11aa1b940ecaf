//! Measures how many guests run per second.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use std::{fmt, io, thread};

use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, timeout_at};

use runtime::engine::Runtime;
use runtime::error::RunError;
use runtime::program::Program;
use runtime::run::Run;

/// The smallest WASI command: a page of memory, an imported function and a `_start` that returns.
const TRIVIAL: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x08\x02\x60\x01\x7f\0\x60\0\0\
    \x02\x24\x01\x16wasi_snapshot_preview1\x09proc_exit\0\0\
    \x03\x02\x01\x01\
    \x05\x03\x01\0\x01\
    \x07\x13\x02\x06memory\x02\0\x06_start\0\x01\
    \x0a\x04\x01\x02\0\x0b";

/// Number of runs and their duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Rate {
    /// Number of guests that ran to their end.
    pub(crate) n_runs: usize,
    /// Time from the first start to the last end.
    pub(crate) elapsed: Duration,
}

/// A failed measurement.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// A guest could not be run.
    #[error("guest could not be run")]
    Run(#[from] RunError),
    /// A guest failed.
    #[error("guest exited with code {exit_code}")]
    Guest {
        /// Exit code.
        exit_code: i32,
    },
    /// The system refused a thread.
    #[error("thread could not be started")]
    Thread(#[from] io::Error),
    /// A thread or a task panicked.
    #[error("runs did not finish")]
    Lost {
        /// Error of the task.
        source: Option<JoinError>,
    },
}

impl Rate {
    /// Returns the number of guests per second.
    pub(crate) fn per_second(self) -> f64 {
        // A bench makes so few runs that a float represents their number exactly.
        let n_runs = f64::from(u32::try_from(self.n_runs).unwrap_or(u32::MAX));
        n_runs / self.elapsed.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.0} runs/s ({} in {:.2?})", self.per_second(), self.n_runs, self.elapsed)
    }
}

/// Returns the smallest program.
pub(crate) fn trivial() -> Program {
    Program::new(TRIVIAL)
}

/// Load of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Load {
    /// Number of concurrent threads or callers.
    pub(crate) n_at_once: NonZeroUsize,
    /// Time during which runs are started.
    pub(crate) period: Duration,
}

/// Runs `program` repeatedly on threads and returns the rate. The time of compilation is not included.
/// Blocks. Must not be called on a thread that drives futures.
///
/// # Errors
/// [`BenchError`] if a run fails.
pub(crate) fn measure_threads(
    runtime: &Runtime,
    program: &Program,
    run: &Run,
    load: Load,
) -> Result<Rate, BenchError> {
    let Load { n_at_once, period } = load;
    succeed(runtime.execute_here(program, run.clone())?.exit_code)?;
    let (is_over, n_runs) = (AtomicBool::new(false), AtomicUsize::new(0));
    let repeat = || -> Result<(), BenchError> {
        while !is_over.load(Ordering::Relaxed) {
            succeed(runtime.execute_here(program, run.clone())?.exit_code)?;
            n_runs.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    };
    let began = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> = (0..n_at_once.get())
            .map(|_| thread::Builder::new().spawn_scoped(scope, repeat))
            .collect::<Result<_, _>>()?;
        thread::park_timeout(period);
        while began.elapsed() < period {
            thread::park_timeout(period.saturating_sub(began.elapsed()));
        }
        is_over.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Err(BenchError::Lost { source: None })))
    })?;
    Ok(Rate { n_runs: n_runs.into_inner(), elapsed: began.elapsed() })
}

/// Runs `program` repeatedly for concurrent callers, as a node does, and returns the rate. The time of
/// compilation is not included.
///
/// # Errors
/// [`BenchError`] if a run fails.
pub(crate) async fn measure_callers(
    runtime: &Runtime,
    program: &Program,
    run: &Run,
    load: Load,
) -> Result<Rate, BenchError> {
    let Load { n_at_once, period } = load;
    succeed(runtime.execute(program, run.clone()).await?.exit_code)?;
    let began = Instant::now();
    let mut callers = JoinSet::new();
    for _ in 0..n_at_once.get() {
        let (runtime, program, run) = (runtime.clone(), program.clone(), run.clone());
        callers.spawn(async move {
            let mut n_runs = 0;
            while let Ok(finished) =
                timeout_at(began + period, runtime.execute(&program, run.clone())).await
            {
                succeed(finished?.exit_code)?;
                n_runs += 1;
            }
            Ok::<usize, BenchError>(n_runs)
        });
    }
    let mut n_runs = 0;
    while let Some(caller) = callers.join_next().await {
        n_runs += caller.map_err(|source| BenchError::Lost { source: Some(source) })??;
    }
    Ok(Rate { n_runs, elapsed: began.elapsed() })
}

fn succeed(exit_code: i32) -> Result<(), BenchError> {
    if exit_code == 0 { Ok(()) } else { Err(BenchError::Guest { exit_code }) }
}
