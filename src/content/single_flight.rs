//! Runs at most one fetch at a time for each function. Fetches for unnamed peers are separate.

use std::collections::hash_map::Entry;
use std::mem;
use std::sync::Arc;

use model::function::FunctionId;
use model::node::PeerId;

use super::Functions;
use super::kept::Requester;

/// A function, and the unnamed peer for which it is fetched, if any.
pub(super) type FlightKey = (FunctionId, Option<PeerId>);

/// Membership in the fetch of a function. The last member to be dropped removes the lock.
pub(super) struct Flight<'a> {
    functions: &'a Functions,
    key: FlightKey,
    pub(super) lock: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> Flight<'a> {
    pub(super) fn join(functions: &'a Functions, id: FunctionId, requester: &Requester) -> Self {
        let peer = match requester {
            Requester::Peer(peer) => Some(peer.clone()),
            _ => None,
        };
        let key = (id, peer);
        let lock = Arc::clone(functions.0.flights.lock().entry(key.clone()).or_default());
        Self { functions, key, lock }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let mut flights = self.functions.0.flights.lock();
        // This reference is dropped before the references are counted, so that the later of two
        // concurrent drops sees that it is the last.
        drop(mem::take(&mut self.lock));
        if let Entry::Occupied(entry) = flights.entry(self.key.clone())
            && Arc::strong_count(entry.get()) == 1
        {
            entry.remove();
        }
    }
}
