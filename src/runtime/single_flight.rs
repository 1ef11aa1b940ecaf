//! Deduplication of concurrent work: it is done once, in its own thread, as long as any caller waits.

use std::collections::HashMap;
use std::hash::Hash;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;
use std::{io, thread};

use parking_lot::{Condvar, Mutex};
use tokio::time::Instant;

use crate::error::{CompileError, CompileStep};

/// Interval at which waiting threads check that they are still wanted.
pub(crate) const WANTED_EVERY: Duration = Duration::from_millis(20);

/// Work in progress, by key.
#[derive(Debug)]
pub(crate) struct SingleFlight<K, V> {
    jobs: Arc<Mutex<HashMap<K, Arc<Job<V>>>>>,
}

/// Callers that wait for work, and the current step of the work.
#[derive(Debug)]
pub(crate) struct Demand(Mutex<DemandState>);

#[derive(Debug)]
struct DemandState {
    n_waiting: usize,
    step: CompileStep,
}

#[derive(Debug)]
struct Job<V> {
    demand: Demand,
    /// `None` while the work is in progress.
    outcome: Mutex<Option<Result<V, CompileError>>>,
    changed: Condvar,
}

impl<K, V> SingleFlight<K, V>
where
    K: Eq + Hash + Copy + Send + 'static,
    V: Clone + Send + 'static,
{
    pub(crate) fn new() -> Self {
        Self { jobs: Arc::default() }
    }

    /// Returns the value of `key`, either from work in progress or from `work`, which is then started.
    /// Blocks for at most `within`, or until shortly after `is_gone` returns true.
    ///
    /// The last caller to stop waiting blocks until the work has stopped.
    ///
    /// # Errors
    /// The error of the work, or [`CompileError::Unwanted`] if this caller stopped waiting.
    pub(crate) fn wait(
        &self,
        key: K,
        within: Duration,
        is_gone: &mut dyn FnMut() -> bool,
        work: impl FnOnce(&Demand) -> Result<V, CompileError> + Send + 'static,
    ) -> Result<V, CompileError> {
        let until = Instant::now().checked_add(within);
        let job = self.join(key, work).map_err(|error| CompileError::Child(Arc::new(error)))?;
        let mut outcome = job.outcome.lock();
        let mut has_given_up = false;
        loop {
            if let Some(outcome) = &*outcome {
                return outcome.clone();
            }
            let is_late = until.is_some_and(|until| Instant::now() >= until);
            if !has_given_up && (is_late || is_gone()) {
                has_given_up = true;
                job.demand.0.lock().n_waiting -= 1;
            }
            // If other callers still wait for the work, this caller can return before the work stops.
            if has_given_up && job.demand.is_wanted() {
                return Err(CompileError::Unwanted(job.demand.step()));
            }
            job.changed.wait_for(&mut outcome, WANTED_EVERY);
        }
    }

    fn join(
        &self,
        key: K,
        work: impl FnOnce(&Demand) -> Result<V, CompileError> + Send + 'static,
    ) -> io::Result<Arc<Job<V>>> {
        let mut jobs = self.jobs.lock();
        // Work without callers will soon stop without a value, so new callers start it again.
        if let Some(job) = jobs.get(&key) {
            let mut demand = job.demand.0.lock();
            if demand.n_waiting > 0 {
                demand.n_waiting += 1;
                drop(demand);
                return Ok(Arc::clone(job));
            }
        }
        let (demand, outcome, changed) = (Demand::new(), Mutex::default(), Condvar::new());
        let job = Arc::new(Job { demand, outcome, changed });
        let (all, own) = (Arc::clone(&self.jobs), Arc::clone(&job));
        // The new thread needs the lock to remove the job, so it cannot do so before the insertion below.
        thread::Builder::new().name("wasm-compile".to_owned()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&own.demand)));
            all.lock().retain(|_, job| !Arc::ptr_eq(job, &own));
            *own.outcome.lock() = Some(outcome.unwrap_or(Err(CompileError::Panicked)));
            own.changed.notify_all();
        })?;
        jobs.insert(key, Arc::clone(&job));
        Ok(job)
    }
}

impl Demand {
    /// Returns the demand of one caller.
    pub(crate) const fn new() -> Self {
        Self(Mutex::new(DemandState { n_waiting: 1, step: CompileStep::Compiling }))
    }

    /// Returns true if a caller waits.
    pub(crate) fn is_wanted(&self) -> bool {
        self.0.lock().n_waiting > 0
    }

    /// Returns the current step.
    pub(crate) fn step(&self) -> CompileStep {
        self.0.lock().step
    }

    /// Records the current step.
    pub(crate) fn note_step(&self, step: CompileStep) {
        self.0.lock().step = step;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    use super::*;

    /// Longer than any wait here.
    const LONG: Duration = Duration::from_mins(1);

    #[test]
    fn concurrent_callers_wait_for_one_computation() {
        const N_THREADS: usize = 8;
        let pending = SingleFlight::<u8, usize>::new();
        let (n_made, start) =
            (Arc::new(AtomicUsize::new(0)), Arc::new(Barrier::new(N_THREADS + 1)));
        let ask = || {
            let (n_made, begin) = (Arc::clone(&n_made), Arc::clone(&start));
            pending.wait(1, LONG, &mut || false, move |_| {
                begin.wait();
                Ok(n_made.fetch_add(1, Ordering::SeqCst))
            })
        };
        // The work waits until all callers have joined.
        thread::scope(|scope| {
            let threads: Vec<_> = (0..N_THREADS).map(|_| scope.spawn(ask)).collect();
            let job = loop {
                if let Some(job) = pending.jobs.lock().get(&1) {
                    break Arc::clone(job);
                }
                thread::yield_now();
            };
            while job.demand.0.lock().n_waiting < N_THREADS {
                thread::yield_now();
            }
            (0..N_THREADS).for_each(|_| drop(scope.spawn(|| start.wait())));
            for thread in threads {
                assert_eq!(thread.join().unwrap().unwrap(), 0);
            }
        });
        assert_eq!(n_made.load(Ordering::SeqCst), 1);
        assert!(pending.jobs.lock().is_empty());
    }

    #[test]
    fn last_caller_returns_after_abandoned_work_has_stopped() {
        let pending = SingleFlight::<u8, ()>::new();
        let has_ended = Arc::new(AtomicBool::new(false));
        let ended = Arc::clone(&has_ended);
        let work = move |wanted: &Demand| {
            while wanted.is_wanted() {
                thread::yield_now();
            }
            ended.store(true, Ordering::SeqCst);
            Ok(())
        };
        let within = Duration::from_millis(50);
        assert!(pending.wait(1, within, &mut || false, work).is_ok());
        assert!(has_ended.load(Ordering::SeqCst));
        let work = |wanted: &Demand| {
            while wanted.is_wanted() {}
            Ok(())
        };
        let again = pending.wait(1, LONG, &mut || true, work);
        assert!(again.is_ok(), "the work has ended");
    }

    #[test]
    fn panic_of_a_computation_wakes_its_callers() {
        let pending = SingleFlight::<u8, ()>::new();
        let panics = pending.wait(1, LONG, &mut || false, |_| panic!("as expected here"));
        assert!(matches!(panics, Err(CompileError::Panicked)));
        assert!(pending.wait(1, LONG, &mut || false, |_| Ok(())).is_ok());
    }
}
