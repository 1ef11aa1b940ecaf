//! Waits for a condition outside of an async runtime, with a deadline.

use std::fmt::Debug;
use std::time::Duration;

use tokio::time::Instant;

/// Pause between two checks. A process or a service needs some tens of milliseconds for anything that
/// tests wait for.
const CHECK_EVERY: Duration = Duration::from_millis(10);

/// Calls `check` repeatedly until it returns `Ok`. Panics with its last error after `within`.
#[track_caller]
pub(crate) fn until<T, E: Debug>(
    wanted: &str,
    within: Duration,
    check: impl FnMut() -> Result<T, E>,
) -> T {
    match try_until(within, check) {
        Ok(value) => value,
        Err(error) => panic!("{wanted}: not within {within:?}; last check: {error:?}"),
    }
}

/// Calls `check` repeatedly until it returns `Ok`. Returns its last error after `within`.
pub(crate) fn try_until<T, E>(
    within: Duration,
    mut check: impl FnMut() -> Result<T, E>,
) -> Result<T, E> {
    let deadline = Instant::now() + within;
    loop {
        match check() {
            Err(_) if Instant::now() < deadline => pause(),
            result => return result,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "no runtime is blocked: this waits outside of one")]
fn pause() {
    std::thread::sleep(CHECK_EVERY);
}
