//! Timers: one of each, kept in a table instead of a task.

use std::collections::HashMap;

use tokio::time::Instant;

use crate::event::Timer;

/// The timers that are set.
#[derive(Debug, Default)]
pub(super) struct Timers(HashMap<Timer, Instant>);

impl Timers {
    /// Sets `timer`, also if it was set to another moment before.
    pub(super) fn set(&mut self, timer: Timer, due: Instant) {
        self.0.insert(timer, due);
    }

    /// Takes `timer` back.
    pub(super) fn forget(&mut self, timer: Timer) {
        self.0.remove(&timer);
    }

    /// When the next one is due.
    pub(super) fn next(&self) -> Option<Instant> {
        self.0.values().min().copied()
    }

    /// Takes out those that are due at `now`.
    pub(super) fn due(&mut self, now: Instant) -> Vec<Timer> {
        let due: Vec<Timer> =
            self.0.iter().filter(|(_, at)| **at <= now).map(|(timer, _)| *timer).collect();
        for timer in &due {
            self.0.remove(timer);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_timer_is_due_once_at_the_moment_it_was_set_to_last() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut timers = Timers::default();
        timers.set(Timer::Nodes, at(1));
        timers.set(Timer::Age, at(2));
        timers.set(Timer::Nodes, at(3));
        assert_eq!(timers.next(), Some(at(2)));
        assert_eq!(timers.due(at(2)), [Timer::Age]);
        timers.forget(Timer::Nodes);
        assert_eq!((timers.next(), timers.due(at(9))), (None, vec![]));
    }
}
