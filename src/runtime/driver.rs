//! Timers for guests. Each thread that runs guests has a tokio runtime, the driver, which is created on
//! its first run.
//!
//! A guest that is usually short begins in the thread of its caller ([`begin`]). In the benchmark
//! `guests`, a single caller then ran 2543 trivial functions in a second, and 1532 without this.

use std::cell::RefCell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use tokio::runtime::{Builder, Runtime};

thread_local! {
    /// Driver of this thread; `None` while a guest runs in it.
    static DRIVER: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// An owned future that can move to another thread.
pub(crate) type Owned<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Outcome of the first poll of a future.
pub(crate) enum FirstPoll<T> {
    /// Output of a completed future.
    Ready(T),
    Unfinished(Unfinished<T>),
    Panicked,
}

/// A future in progress, with the driver of its timers.
pub(crate) struct Unfinished<T> {
    future: Owned<T>,
    driver: Runtime,
}

/// Runs `future` to completion in this thread, which must not drive futures itself.
///
/// The thread's driver runs the timers of the future, independently of the caller's runtime.
///
/// # Errors
/// If the driver cannot be created.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let driver = driver()?;
    let output = driver.block_on(future);
    DRIVER.set(Some(driver));
    Ok(output)
}

/// Polls `future` once in this thread, which may drive futures itself.
///
/// # Errors
/// As [`block_on`].
pub(crate) fn begin<T>(mut future: Owned<T>) -> io::Result<FirstPoll<T>> {
    let driver = driver()?;
    let polled = {
        let _entered = driver.enter();
        let mut context = Context::from_waker(Waker::noop());
        catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(&mut context)))
    };
    if let Ok(Poll::Pending) = polled {
        return Ok(FirstPoll::Unfinished(Unfinished { future, driver }));
    }
    // The driver is put back even after a panic, since a runtime cannot be dropped in a thread that
    // drives futures.
    DRIVER.set(Some(driver));
    Ok(match polled {
        Ok(Poll::Ready(output)) => FirstPoll::Ready(output),
        _ => FirstPoll::Panicked,
    })
}

impl<T> Unfinished<T> {
    /// Runs the rest of the future like [`block_on`].
    pub(crate) fn block_on(self) -> T {
        let output = self.driver.block_on(self.future);
        DRIVER.set(Some(self.driver));
        output
    }
}

fn driver() -> io::Result<Runtime> {
    match DRIVER.take() {
        Some(driver) => Ok(driver),
        None => Builder::new_current_thread().enable_time().build(),
    }
}
