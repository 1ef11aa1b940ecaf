//! Periodic interruption of running guests.

use std::io;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};
use wasmtime::Engine;

/// Time for which a guest computes before it yields. Deadlines and cancellations are noticed with at
/// most this delay. A shorter time would interrupt every guest more often.
const TICK: Duration = Duration::from_millis(10);

/// A thread that advances the engine's epoch while guests run. It sleeps after a tick in which no guest
/// ran. Dropping this value stops the thread.
#[derive(Debug)]
pub(crate) struct Ticker {
    shared: Arc<SharedTicker>,
    thread: Option<JoinHandle<()>>,
}

/// Keeps the thread advancing the epoch until dropped.
#[derive(Debug)]
pub(crate) struct Ticking(Arc<SharedTicker>);

#[derive(Debug, Default)]
struct SharedTicker {
    state: Mutex<TickerState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct TickerState {
    n_running: usize,
    /// Number of guests started so far. The thread compares it with the number at the last tick, to
    /// detect that a guest has started.
    n_started: u64,
    /// True while the thread sleeps.
    is_asleep: bool,
    is_stopping: bool,
}

impl Ticker {
    /// Starts the thread.
    ///
    /// # Errors
    /// If the thread cannot be started.
    pub(crate) fn start(engine: Engine) -> io::Result<Self> {
        let shared = Arc::new(SharedTicker::default());
        let ticks = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("wasm-ticker".to_owned())
            .spawn(move || ticks.tick_until_stopped(&engine))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Advances the epoch until the returned guard is dropped.
    pub(crate) fn tick(&self) -> Ticking {
        let mut state = self.shared.state.lock();
        state.n_running += 1;
        state.n_started = state.n_started.wrapping_add(1);
        if state.is_asleep {
            self.shared.changed.notify_one();
        }
        Ticking(Arc::clone(&self.shared))
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.shared.state.lock().is_stopping = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the ticker of the WebAssembly runtime panicked");
        }
    }
}

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.state.lock().n_running -= 1;
    }
}

impl SharedTicker {
    fn tick_until_stopped(&self, engine: &Engine) {
        let mut state = self.state.lock();
        let mut n_seen = state.n_started;
        while !state.is_stopping {
            if state.n_running == 0 && state.n_started == n_seen {
                state.is_asleep = true;
                self.changed.wait(&mut state);
                state.is_asleep = false;
            } else {
                n_seen = state.n_started;
                self.changed.wait_for(&mut state, TICK);
                engine.increment_epoch();
            }
        }
    }
}
