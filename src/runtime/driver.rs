//! Timers for guests. Each thread that runs guests has a tokio runtime, the driver, which is created on
//! its first run.

use std::cell::RefCell;
use std::io;

use tokio::runtime::{Builder, Runtime};

thread_local! {
    /// Driver of this thread; `None` before its first run.
    static DRIVER: RefCell<Option<Runtime>> = const { RefCell::new(None) };
}

/// Runs `future` to completion in this thread, which must not drive futures itself.
///
/// The thread's driver runs its timers, independently of the caller's runtime.
///
/// # Errors
/// If the driver cannot be created.
pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> io::Result<T> {
    let driver = match DRIVER.take() {
        Some(driver) => driver,
        None => Builder::new_current_thread().enable_time().build()?,
    };
    let output = driver.block_on(future);
    DRIVER.set(Some(driver));
    Ok(output)
}
