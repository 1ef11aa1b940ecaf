//! What happens on a head, as a stream for its followers.

use task::clock::Clock;
use tokio::sync::broadcast;
use wire::executions::{ClusterEvent, ClusterEventKind};

/// Events kept for a reader that is behind: those of ten executions on fifty nodes. One that is
/// further behind is cut off.
const EVENTS_CAPACITY: usize = 1024;

/// Readers at once. More are refused.
pub(super) const READERS_MAX: usize = 64;

/// Handle to the events. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Events {
    events: broadcast::Sender<ClusterEvent>,
    clock: Clock,
}

impl Events {
    pub(super) fn new(clock: Clock) -> Self {
        Self { events: broadcast::Sender::new(EVENTS_CAPACITY), clock }
    }

    /// Tells what happened, if anybody listens: `kind` is made for them alone.
    pub(super) fn tell(&self, kind: impl FnOnce() -> ClusterEventKind) {
        if self.events.receiver_count() > 0 {
            // The last reader may just have gone.
            drop(self.events.send(self.dated(kind())));
        }
    }

    /// Dates what happens now.
    pub(super) fn dated(&self, kind: ClusterEventKind) -> ClusterEvent {
        ClusterEvent { time: self.clock.now().to_string(), kind }
    }

    /// Follows the events from now on; none if [`READERS_MAX`] do.
    pub(super) fn subscribe(&self) -> Option<broadcast::Receiver<ClusterEvent>> {
        (self.events.receiver_count() < READERS_MAX).then(|| self.events.subscribe())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readers_are_bounded_and_one_that_leaves_makes_room() {
        let events = Events::new(Clock::system());
        let mut readers: Vec<_> = (0..READERS_MAX).filter_map(|_| events.subscribe()).collect();
        assert_eq!(readers.len(), READERS_MAX);
        assert!(events.subscribe().is_none());
        drop(readers.pop());
        assert!(events.subscribe().is_some());
    }

    #[tokio::test]
    async fn a_reader_that_is_too_far_behind_is_cut_off() {
        let events = Events::new(Clock::system());
        let mut reader = events.subscribe().unwrap();
        for _ in 0..=EVENTS_CAPACITY {
            events.tell(|| ClusterEventKind::Heartbeat);
        }
        assert!(matches!(reader.recv().await, Err(broadcast::error::RecvError::Lagged(_))));
    }
}
