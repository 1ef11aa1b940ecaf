//! Boot nodes: whom to stay connected to, and when to try again. A table of values, no I/O.

use std::time::Duration;

use libp2p::PeerId;
use task::backoff::Backoff;
use tokio::time::Instant;

use super::BootNode;

/// The wait before the second try. Short, since a head that restarts is back in a second.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait between tries: a head's workers are to be back within 5 s of its return.
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// The boot nodes and what is known of the connection to each.
#[derive(Debug)]
pub(super) struct BootNodes(Vec<Entry>);

#[derive(Debug)]
struct Entry {
    node: BootNode,
    state: State,
    backoff: Backoff,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum State {
    /// To be dialed at this moment.
    Due(Instant),
    /// Being dialed.
    Dialing,
    /// A connection stands.
    Connected,
}

impl BootNodes {
    /// All of `nodes`, due at once.
    pub(super) fn new(nodes: Vec<BootNode>) -> Self {
        let entry = |node| Entry {
            node,
            state: State::Due(Instant::now()),
            backoff: Backoff::new(FIRST_WAIT, LONGEST_WAIT),
        };
        Self(nodes.into_iter().map(entry).collect())
    }

    /// Takes the nodes that are due at `now`; they count as being dialed from here.
    pub(super) fn take_due(&mut self, now: Instant) -> Vec<BootNode> {
        let mut due = Vec::new();
        for entry in &mut self.0 {
            if matches!(entry.state, State::Due(at) if at <= now) {
                entry.state = State::Dialing;
                due.push(entry.node.clone());
            }
        }
        due
    }

    /// Notes that a connection to `peer` stands.
    pub(super) fn connected(&mut self, peer: PeerId) {
        for entry in self.of(peer) {
            entry.state = State::Connected;
            entry.backoff.reset();
        }
    }

    /// Notes that no connection to `peer` stands any more, or that dialing it failed.
    pub(super) fn lost(&mut self, peer: PeerId, now: Instant) {
        for entry in self.of(peer) {
            entry.state = State::Due(now + entry.backoff.next_wait());
        }
    }

    fn of(&mut self, peer: PeerId) -> impl Iterator<Item = &mut Entry> {
        self.0.iter_mut().filter(move |entry| entry.node.peer == peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(peer: PeerId) -> BootNode {
        format!("/ip4/127.0.0.1/tcp/1/p2p/{peer}").parse().unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn a_lost_node_is_due_again_within_two_seconds_however_often_it_failed() {
        let peer = PeerId::random();
        let mut boot = BootNodes::new(vec![node(peer)]);
        for _ in 0..20 {
            let now = Instant::now();
            assert_eq!(boot.take_due(now).len(), 1);
            assert_eq!(boot.take_due(now).len(), 0, "it is being dialed");
            boot.lost(peer, now);
            assert_eq!(boot.take_due(now).len(), 0, "it waits");
            tokio::time::advance(LONGEST_WAIT).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connected_node_is_left_alone() {
        let peer = PeerId::random();
        let mut boot = BootNodes::new(vec![node(peer)]);
        boot.connected(peer);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(boot.take_due(Instant::now()).len(), 0);
        boot.lost(PeerId::random(), Instant::now());
        assert_eq!(boot.take_due(Instant::now()).len(), 0);
    }
}
