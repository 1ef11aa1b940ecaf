//! Waiting for a condition without a runtime, with an end.

use std::{fmt::Debug, time::Duration};

use tokio::time::Instant;

/// How long one look waits for the next: short beside what is waited for, which takes a process or
/// a service some tens of milliseconds.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// Looks again and again until `look` returns `Ok`. Panics with what it saw last after `within`.
#[track_caller]
pub(crate) fn until<T, S: Debug>(
    what: &str,
    within: Duration,
    look: impl FnMut() -> Result<T, S>,
) -> T {
    match try_until(within, look) {
        Ok(found) => found,
        Err(seen) => panic!("{what}: not within {within:?}; last seen: {seen:?}"),
    }
}

/// Looks again and again until `look` returns `Ok`, and returns what it saw last after `within`.
pub(crate) fn try_until<T, S>(
    within: Duration,
    mut look: impl FnMut() -> Result<T, S>,
) -> Result<T, S> {
    let deadline = Instant::now() + within;
    loop {
        match look() {
            Err(_) if Instant::now() < deadline => pause(),
            result => return result,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "no runtime is blocked: this waits outside of one")]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}
