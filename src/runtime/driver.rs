//! The clock of a guest: one for each thread that runs guests, made on its first run.

use std::{
    cell::RefCell,
    io,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, Waker},
};

use tokio::runtime::{Builder, Runtime};

thread_local! {
    /// The driver of this thread, while no guest runs on it.
    static DRIVER: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// A future that has an owner and may change its thread.
pub(crate) type Owned<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Outcome of polling a future for the first time.
pub(crate) enum FirstPoll<T> {
    /// The output of a future that was done at once.
    Ready(T),
    Unfinished(Unfinished<T>),
    Panicked,
}

/// A future that has begun, with the driver that measures its sleeps.
pub(crate) struct Unfinished<T> {
    future: Owned<T>,
    driver: Runtime,
}

/// Waits for `future` on this thread, which must not be one that drives futures itself.
///
/// Its sleeps are measured by a driver of the thread's own, so that they end whatever the caller's
/// runtime does.
///
/// # Errors
/// The system's, where it refuses the driver.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let driver = driver()?;
    let output = driver.block_on(future);
    DRIVER.set(Some(driver));
    Ok(output)
}

/// Runs `future` on this thread, which may be one that drives futures, until it first waits.
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
    // Kept even after a panic: a thread that drives futures cannot drop it.
    DRIVER.set(Some(driver));
    Ok(match polled {
        Ok(Poll::Ready(output)) => FirstPoll::Ready(output),
        _ => FirstPoll::Panicked,
    })
}

impl<T> Unfinished<T> {
    /// Waits for the rest, as [`block_on`] does.
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
