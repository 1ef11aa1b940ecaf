//! Sends to many peers: a peer that stalls delays no other.
//!
//! At most one send to each peer is under way. Of the messages put meanwhile, the newest is sent once that
//! has ended. The number of sends at one time is limited, but one that takes long stops counting: stalled
//! peers cannot use the limit up, and there are as many sends as peers at most. Absent on purpose: retries,
//! which the caller decides.

use std::{
    collections::{HashMap, VecDeque, hash_map::Entry},
    future::pending,
    time::Duration,
};

use futures::{FutureExt as _, StreamExt as _, future::BoxFuture, stream::FuturesUnordered};
use model::node::PeerId;
use tokio::time::timeout;
use tracing::debug;

use crate::network::SendError;

/// How long a send counts towards [`PROMPT_MAX`]: the round trip or two of a far peer. A thousand stalled
/// peers then delay others by a second.
const PROMPT_WITHIN: Duration = Duration::from_millis(250);

/// Sends at one time, apart from those that take longer than [`PROMPT_WITHIN`]. Each may open a stream.
const PROMPT_MAX: usize = 256;

/// A send under way.
type SendFuture = BoxFuture<'static, Result<(), SendError>>;

/// Sends of messages `M`, which go on while the caller waits in [`Self::next_failed`].
pub(crate) struct PeerSends<M> {
    /// What is sent, for the log.
    what: &'static str,
    send: Box<dyn Fn(PeerId, M) -> SendFuture + Send>,
    peers: HashMap<PeerId, PeerState<M>>,
    /// The queued peers, in the order of their messages.
    queue: VecDeque<PeerId>,
    under_way: FuturesUnordered<BoxFuture<'static, Progress>>,
    n_prompt: usize,
}

/// A peer with a message that has not been sent yet.
#[derive(Debug)]
struct PeerState<M> {
    stage: Stage,
    /// The newest message whose send has not started.
    next: Option<M>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No send has started: there are [`PROMPT_MAX`].
    Queued,
    /// One is under way, and counts.
    Prompt,
    /// One is under way, and counts no longer.
    Stalled,
}

/// What happened to a send.
enum Progress {
    /// It takes longer than [`PROMPT_WITHIN`].
    Stalled(PeerId, SendFuture),
    Ended(PeerId, Result<(), SendError>),
}

impl<M> PeerSends<M> {
    /// Sends `what`, as the log names it, by `send`.
    pub(crate) fn new(
        what: &'static str,
        send: impl Fn(PeerId, M) -> SendFuture + Send + 'static,
    ) -> Self {
        Self {
            what,
            send: Box::new(send),
            peers: HashMap::new(),
            queue: VecDeque::new(),
            under_way: FuturesUnordered::new(),
            n_prompt: 0,
        }
    }

    /// Sends `message` to `peer` as soon as no other send to it is under way. Replaces the message that waits
    /// for that, if any.
    pub(crate) fn put(&mut self, peer: PeerId, message: M) {
        match self.peers.entry(peer) {
            Entry::Occupied(mut known) => known.get_mut().next = Some(message),
            Entry::Vacant(unknown) => {
                self.queue.push_back(unknown.key().clone());
                unknown.insert(PeerState { stage: Stage::Queued, next: Some(message) });
                self.start_queued();
            }
        }
    }

    /// Goes on with the sends until one fails and no newer message waits for its peer, which is returned.
    /// Cancel-safe.
    pub(crate) async fn next_failed(&mut self) -> PeerId {
        loop {
            let failed = match self.under_way.next().await {
                None => return pending().await,
                Some(Progress::Stalled(peer, send)) => {
                    self.note_stalled(peer, send);
                    None
                }
                Some(Progress::Ended(peer, outcome)) => self.note_ended(peer, outcome),
            };
            self.start_queued();
            if let Some(peer) = failed {
                return peer;
            }
        }
    }

    fn note_stalled(&mut self, peer: PeerId, send: SendFuture) {
        if let Some(state) = self.peers.get_mut(&peer) {
            state.stage = Stage::Stalled;
            self.n_prompt -= 1;
        }
        self.go_on(peer, send);
    }

    /// Returns the peer if the send failed and nothing newer waits for it.
    fn note_ended(&mut self, peer: PeerId, outcome: Result<(), SendError>) -> Option<PeerId> {
        let has_failed = outcome.is_err();
        if let Err(error) = outcome {
            debug!(%peer, %error, "{} did not reach a peer", self.what);
        }
        let state = self.peers.get_mut(&peer)?;
        let was_prompt = state.stage == Stage::Prompt;
        if was_prompt {
            self.n_prompt -= 1;
        }
        match &mut state.next {
            None => {
                self.peers.remove(&peer);
                has_failed.then_some(peer)
            }
            Some(_) if was_prompt => {
                state.stage = Stage::Queued;
                self.queue.push_back(peer);
                None
            }
            next => {
                // It is likely to stall again, and does not count again.
                if let Some(message) = next.take() {
                    let send = (self.send)(peer.clone(), message);
                    self.go_on(peer, send);
                }
                None
            }
        }
    }

    /// Starts queued sends as far as the limit allows.
    fn start_queued(&mut self) {
        while self.n_prompt < PROMPT_MAX
            && let Some(peer) = self.queue.pop_front()
        {
            let Some(state) = self.peers.get_mut(&peer) else { continue };
            let Some(message) = state.next.take() else { continue };
            state.stage = Stage::Prompt;
            self.n_prompt += 1;
            let mut send = (self.send)(peer.clone(), message);
            let prompt = async {
                match timeout(PROMPT_WITHIN, &mut send).await {
                    Ok(outcome) => Progress::Ended(peer, outcome),
                    Err(_) => Progress::Stalled(peer, send),
                }
            };
            self.under_way.push(prompt.boxed());
        }
    }

    /// Goes on with a send that does not count.
    fn go_on(&self, peer: PeerId, send: SendFuture) {
        self.under_way.push(async { Progress::Ended(peer, send.await) }.boxed());
    }
}

#[cfg(test)]
mod tests;
