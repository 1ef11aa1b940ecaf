//! Timers, one of each kind, in a table that the event loop sleeps by.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::event::Timer;

/// The timers that are set.
#[derive(Debug, Default)]
pub(crate) struct Timers(HashMap<Timer, Instant>);

impl Timers {
    /// Sets `timer`, in place of an earlier setting.
    pub(crate) fn set(&mut self, timer: Timer, due: Instant) {
        self.0.insert(timer, due);
    }

    /// Unsets `timer`, if it is set.
    pub(crate) fn forget(&mut self, timer: Timer) {
        self.0.remove(&timer);
    }

    /// When the next one is due.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Removes and returns the timers that are due at `now`.
    pub(crate) fn take_due(&mut self, now: Instant) -> Vec<Timer> {
        self.0.extract_if(|_, at| *at <= now).map(|(timer, _)| timer).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::state::services::HeadId;

    #[tokio::test(start_paused = true)]
    async fn a_timer_fires_once_at_the_time_it_was_last_set_to() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut timers = Timers::default();
        timers.set(Timer::Nodes(HeadId::default()), at(1));
        timers.set(Timer::Age, at(2));
        timers.set(Timer::Nodes(HeadId::default()), at(3));
        assert_eq!(timers.next(), Some(at(2)));
        assert_eq!(timers.take_due(at(2)), [Timer::Age]);
        timers.forget(Timer::Nodes(HeadId::default()));
        assert_eq!((timers.next(), timers.take_due(at(9))), (None, vec![]));
    }
}
