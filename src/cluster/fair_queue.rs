//! A fair queue: the requests of each client stay in order, and clients take turns.

use std::collections::VecDeque;

/// Waiting requests, by client.
#[derive(Debug)]
pub(crate) struct FairQueue<C, T> {
    /// Non-empty lanes. The client that was served longest ago comes first.
    lanes: VecDeque<Lane<C, T>>,
}

#[derive(Debug)]
struct Lane<C, T> {
    client: C,
    requests: VecDeque<T>,
}

/// Outcome for a request that [`FairQueue::serve`] visits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The request is served and removed. The next client has its turn.
    Served,
    /// The request is removed without being served.
    Dropped,
    /// The request keeps waiting.
    Waits,
}

impl<C, T> Default for FairQueue<C, T> {
    fn default() -> Self {
        Self { lanes: VecDeque::new() }
    }
}

impl<C: PartialEq, T> FairQueue<C, T> {
    /// Returns the number of waiting requests.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.requests.len()).sum()
    }

    /// Appends a request of `client`.
    pub(crate) fn push(&mut self, client: C, request: T) {
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.client == client) {
            lane.requests.push_back(request);
        } else {
            self.lanes.push_back(Lane { client, requests: [request].into() });
        }
    }

    /// Visits requests in serving order until no further request can be served.
    pub(crate) fn serve(&mut self, mut visit: impl FnMut(&mut T) -> Verdict) {
        let mut lane_idx = 0;
        while let Some(lane) = self.lanes.get_mut(lane_idx) {
            let (mut request_idx, mut is_served) = (0, false);
            while let Some(request) = lane.requests.get_mut(request_idx)
                && !is_served
            {
                match visit(request) {
                    Verdict::Waits => request_idx += 1,
                    Verdict::Dropped => drop(lane.requests.remove(request_idx)),
                    Verdict::Served => {
                        lane.requests.remove(request_idx);
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
    }
}

#[cfg(test)]
mod tests;
