//! Fetching a function from peers, and giving functions to peers that ask.

use std::{collections::hash_map::Entry, sync::Arc, time::Duration};

use bytes::Bytes;
use model::{
    function::{FunctionId, Method},
    node::PeerId,
};
use tokio::time::timeout;
use tracing::{debug, info, warn};

use super::{FUNCTION_BYTES_MAX, Function, Functions, FunctionsError};
use crate::{
    message::{FUNCTION_PROTOCOL, FunctionHead, json},
    network::{Answer, Network, SendError},
};

/// How long one peer has to send a function: 64 MiB over a line of 40 Mbit/s.
const PEER_WITHIN: Duration = Duration::from_secs(15);

/// How long fetching may take in all.
const FETCH_WITHIN: Duration = Duration::from_secs(45);

/// How many peers are asked for one function.
const PEERS_MAX: usize = 8;

/// The longest line before the content, in bytes.
const HEAD_BYTES_MAX: usize = 1024;

/// Why a function was not fetched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No connected peer gives functions.
    #[error("find a peer that gives functions")]
    NoPeer,
    /// None of the peers asked had it.
    #[error("find {id} at any of {n_peers} peers")]
    Nowhere {
        /// What was asked for.
        id: FunctionId,
        /// How many were asked.
        n_peers: usize,
    },
    /// It took too long.
    #[error("fetch {id} in time")]
    TimedOut {
        /// What was asked for.
        id: FunctionId,
    },
    /// It could not be kept.
    #[error("keep a fetched function")]
    Keep(#[source] FunctionsError),
}

/// Why one peer did not give it.
#[derive(Debug, thiserror::Error)]
enum GiveError {
    #[error("ask for a function")]
    Ask(#[source] SendError),
    #[error("read an answer that is no function")]
    Malformed,
    #[error("get a function that the peer does not have")]
    Missing,
    #[error("accept content that is not what its id names")]
    Mismatch,
}

impl Functions {
    /// Returns function `id`, fetched from one of `peers`, asked in turn, if it is not kept yet.
    /// Content that does not match the id is refused and the next peer asked. Calls for one function
    /// share one fetch. Cancel-safe.
    ///
    /// # Errors
    /// [`FetchError`] if no peer gives it or it cannot be kept.
    pub async fn obtain(
        &self,
        id: FunctionId,
        network: &Network,
        peers: &[PeerId],
    ) -> Result<Function, FetchError> {
        if let Some(function) = self.get(id) {
            return Ok(function);
        }
        let flight = Flight::join(self, id);
        let _turn = flight.lock.lock().await;
        if let Some(function) = self.get(id) {
            return Ok(function);
        }
        timeout(FETCH_WITHIN, self.fetch(id, network, peers))
            .await
            .map_err(|_| FetchError::TimedOut { id })?
    }

    /// Returns what to answer a peer that asks for a function.
    pub async fn answer(&self, question: &[u8]) -> Answer {
        self.found(question)
            .await
            .unwrap_or_else(|| Answer { head: line(&FunctionHead::Missing), content: Bytes::new() })
    }

    async fn found(&self, question: &[u8]) -> Option<Answer> {
        let id = str::from_utf8(question).ok()?.trim().parse().ok()?;
        let method = self.get(id)?.method.to_string();
        let content = match self.content(id).await {
            Ok(content) => content?,
            Err(error) => {
                warn!(function = %id, %error, "failed to read a function for a peer");
                return None;
            }
        };
        let bytes = u64::try_from(content.len()).ok()?;
        Some(Answer { head: line(&FunctionHead::Here { method, bytes }), content })
    }

    async fn fetch(
        &self,
        id: FunctionId,
        network: &Network,
        peers: &[PeerId],
    ) -> Result<Function, FetchError> {
        if peers.is_empty() {
            return Err(FetchError::NoPeer);
        }
        for peer in peers.iter().take(PEERS_MAX) {
            match given(id, network, peer).await {
                Ok((method, content)) => {
                    let function = self.keep(id, method, content).await;
                    info!(function = %id, %peer, "fetched a function from a peer");
                    return function.map_err(FetchError::Keep);
                }
                Err(error @ GiveError::Mismatch) => {
                    warn!(function = %id, %peer, "refused a function from a peer: failed to {error}");
                }
                Err(error) => debug!(function = %id, %peer, %error, "got no function from a peer"),
            }
        }
        Err(FetchError::Nowhere { id, n_peers: peers.len().min(PEERS_MAX) })
    }
}

async fn given(
    id: FunctionId,
    network: &Network,
    peer: &PeerId,
) -> Result<(Method, Arc<[u8]>), GiveError> {
    let bounds = (FUNCTION_BYTES_MAX + HEAD_BYTES_MAX, PEER_WITHIN);
    let question = id.to_string();
    let answer = network
        .ask(peer, FUNCTION_PROTOCOL, question.as_bytes(), bounds)
        .await
        .map_err(GiveError::Ask)?;
    let at = answer.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n');
    let (head, rest) = at.and_then(|at| answer.split_at_checked(at)).ok_or(GiveError::Malformed)?;
    let content = rest.get(1..).unwrap_or_default();
    match serde_json::from_slice(head).map_err(|_| GiveError::Malformed)? {
        FunctionHead::Missing => Err(GiveError::Missing),
        FunctionHead::Here { bytes, .. } if u64::try_from(content.len()) != Ok(bytes) => {
            Err(GiveError::Malformed)
        }
        FunctionHead::Here { .. } if !id.is_of_module(content) => Err(GiveError::Mismatch),
        FunctionHead::Here { method, .. } => {
            let method = method.parse().map_err(|_| GiveError::Malformed)?;
            Ok((method, content.into()))
        }
    }
}

fn line(head: &FunctionHead) -> Bytes {
    let mut line = json(head);
    line.push(b'\n');
    line.into()
}

/// A share in the fetching of one function. The last to leave takes the lock with it.
struct Flight<'a> {
    functions: &'a Functions,
    id: FunctionId,
    lock: Arc<tokio::sync::Mutex<()>>,
}

impl<'a> Flight<'a> {
    fn join(functions: &'a Functions, id: FunctionId) -> Self {
        let lock = Arc::clone(functions.0.flights.lock().entry(id).or_default());
        Self { functions, id, lock }
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if let Entry::Occupied(entry) = self.functions.0.flights.lock().entry(self.id)
            && Arc::strong_count(entry.get()) == 2
        {
            entry.remove();
        }
    }
}
