//! A fair queue: the requests of each client stay in order, and clients take turns.

use std::collections::VecDeque;

use tokio::sync::oneshot;

/// Waiting requests, by client. Each request waits for a grant of type `G`.
#[derive(Debug)]
pub(crate) struct FairQueue<C, T, G> {
    /// Clients with waiting requests, beginning with the client that was served longest ago.
    lanes: VecDeque<Lane<C, T, G>>,
}

#[derive(Debug)]
struct Lane<C, T, G> {
    client: C,
    requests: VecDeque<(T, oneshot::Sender<G>)>,
}

/// Outcome for a request that [`FairQueue::serve`] visits.
#[derive(Debug)]
pub(crate) enum Verdict<G> {
    /// The request is served with this grant and removed. Then it is the next client's turn.
    Served(G),
    /// The request is removed without being served.
    Dropped,
    /// The request keeps waiting.
    Waits,
}

/// Grants that must still be sent to the requests' receivers. If a receiver was dropped, its grant is
/// dropped, too.
#[must_use]
#[derive(Debug)]
pub(crate) struct Grants<G>(Vec<(oneshot::Sender<G>, G)>);

impl<G> Grants<G> {
    /// Sends the grants to their receivers.
    pub(crate) fn send(self) {
        for (receiver, grant) in self.0 {
            drop(receiver.send(grant));
        }
    }
}

impl<C, T, G> Default for FairQueue<C, T, G> {
    fn default() -> Self {
        Self { lanes: VecDeque::new() }
    }
}

impl<C: PartialEq, T, G> FairQueue<C, T, G> {
    /// Returns the number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.requests.len()).sum()
    }

    /// Appends a request of `client` and returns the receiver of its grant. If the receiver is dropped,
    /// the next call of [`Self::serve`] removes the request.
    pub(crate) fn push(&mut self, client: C, request: T) -> oneshot::Receiver<G> {
        let (granted, grant) = oneshot::channel();
        let request = (request, granted);
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.client == client) {
            lane.requests.push_back(request);
        } else {
            self.lanes.push_back(Lane { client, requests: [request].into() });
        }
        grant
    }

    /// Calls `visit` for waiting requests, with the clients in turn, until no further request can be
    /// served. Returns the grants.
    pub(crate) fn serve(&mut self, mut visit: impl FnMut(&C, &T) -> Verdict<G>) -> Grants<G> {
        let mut grants = Vec::new();
        let mut lane_idx = 0;
        while let Some(lane) = self.lanes.get_mut(lane_idx) {
            let (mut request_idx, mut is_served) = (0, false);
            while let Some((request, granted)) = lane.requests.get(request_idx)
                && !is_served
            {
                let is_gone = granted.is_closed();
                match if is_gone { Verdict::Dropped } else { visit(&lane.client, request) } {
                    Verdict::Waits => request_idx += 1,
                    Verdict::Dropped => drop(lane.requests.remove(request_idx)),
                    Verdict::Served(grant) => {
                        let removed = lane.requests.remove(request_idx);
                        grants.extend(removed.map(|(_, granted)| (granted, grant)));
                        is_served = true;
                    }
                }
            }
            if !is_served && !lane.requests.is_empty() {
                lane_idx += 1;
                continue;
            }
            if let Some(lane) = self.lanes.remove(lane_idx)
                && !lane.requests.is_empty()
            {
                self.lanes.push_back(lane);
            }
            lane_idx = if is_served { 0 } else { lane_idx };
        }
        Grants(grants)
    }
}

#[cfg(test)]
mod tests;
