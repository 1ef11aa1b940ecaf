//! Fetches functions from peers and gateways. Serves functions to peers.
//!
//! A function that is a single block is sent unchanged, any other function as a CAR.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use bytes::Bytes;
use model::function::content::{Codec, ContentId};
use model::function::{FunctionId, Method};
use model::node::PeerId;
use task::causes::chain;
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, timeout_at};
use tracing::{debug, info, warn};

use crate::error::ContentError;
use crate::kept::Requester;
use crate::peers::{Answer, AnswerHead, AnswerLimits, AskError, Peers};
use crate::turns::{Claim, Purpose, Turn, TurnLimits, Turns, duration_at_min_rate};
use crate::verify::{NameHints, VerifiedFunction};
use crate::{CAR_BYTES_MAX, FUNCTION_BYTES_MAX, Function, Functions, FunctionsError, blocking};

/// Time limit for one peer to send a function of up to [`SMALL_BYTES_MAX`], including the time to
/// verify it. It is enough at 4 Mbit/s.
const PEER_WITHIN: Duration = Duration::from_secs(15);

/// Time limit of a search, including the wait for a turn. The transfer of a large function can exceed
/// this limit if it is not slower than the minimum rate.
pub(super) const SEARCH_WITHIN: Duration = Duration::from_secs(45);

/// Maximum number of peers to ask for a function.
const PEERS_MAX: usize = 8;

/// Limits of concurrent transfers from peers and web servers. Each has content of up to
/// [`SMALL_BYTES_MAX`] in memory, and as much again for each of the unpacked tree and archive. Six
/// hostile peers can occupy all turns of unnamed peers, but not the four turns reserved for
/// named peers.
const TRANSFERS: TurnLimits = TurnLimits { total: 16, unnamed: 12, per_peer: 2, installs: 6 };

/// Limits of concurrent transfers of functions larger than [`SMALL_BYTES_MAX`]. Each has content of up to
/// [`CAR_BYTES_MAX`] in memory, and up to [`FUNCTION_BYTES_MAX`] for each of the unpacked tree and
/// archive.
const LARGE: TurnLimits = TurnLimits { total: 4, unnamed: 3, per_peer: 1, installs: 2 };

/// Limits of concurrent requests to gateways, which search for up to a minute for missing content.
const GATEWAYS: TurnLimits = TurnLimits { total: 8, unnamed: 6, per_peer: 1, installs: 3 };

/// Limits of concurrent responses with content of up to [`SMALL_BYTES_MAX`], which is in memory until the
/// peer has read it. None of them is an install.
const ANSWERS: TurnLimits = TurnLimits { total: 64, unnamed: 48, per_peer: 2, installs: 0 };

/// Limits of concurrent responses with content of up to [`CAR_BYTES_MAX`]. They are separate, since a
/// slow peer needs up to an hour to read such content.
const LARGE_ANSWERS: TurnLimits = TurnLimits { total: 16, unnamed: 12, per_peer: 2, installs: 0 };

/// Maximum size of a function that does not need a turn in [`LARGE`]. Most modules are smaller.
const SMALL_BYTES_MAX: usize = 4 * 1024 * 1024;

/// Maximum length of the line before the content. The line contains at most two names of 255 characters
/// in JSON.
const HEAD_BYTES_MAX: usize = 4 * 1024;

/// A failed fetch.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError {
    /// No peer and no gateway has the function.
    #[error("{}", describe_nowhere(*id, *n_peers, *n_gateways))]
    Nowhere {
        /// Function that was searched.
        id: FunctionId,
        /// Number of peers that were asked.
        n_peers: usize,
        /// Number of gateways that were asked.
        n_gateways: usize,
    },
    /// The id is the hash of an address, and the function has not been installed from this address yet.
    #[error(
        "function {id} is not installed and can only be installed from the address of its manifest"
    )]
    NotInstalled {
        /// Function that was requested.
        id: FunctionId,
    },
    /// The id is a CID of an unsupported kind.
    #[error("unsupported id {id}, expected the CID of a raw or dag-pb block with SHA-256")]
    Unsupported {
        /// Function that was requested.
        id: FunctionId,
    },
    /// The search timed out.
    #[error("search for function {id} timed out")]
    TimedOut {
        /// Function that was searched.
        id: FunctionId,
    },
    /// The function could not be stored.
    #[error("cannot store the fetched function")]
    Keep(#[source] FunctionsError),
}

/// A failed request to one peer.
#[derive(Debug, thiserror::Error)]
enum GiveError {
    #[error("request to the peer failed")]
    Ask(#[source] AskError),
    #[error(transparent)]
    Crowded(#[from] Crowded),
    #[error("invalid response from the peer")]
    Malformed,
    #[error("peer does not have the function")]
    Missing,
    #[error("invalid function from the peer")]
    Refused(#[source] FunctionsError),
}

/// No turn for a large function became free before the end of the search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("too many large functions are being fetched")]
pub struct Crowded;

/// Turns for all kinds of transfers.
#[derive(Debug)]
pub(super) struct FetchTurns {
    pub(super) transfers: Turns,
    large: Turns,
    gateways: Turns,
    answers: Turns,
    large_answers: Turns,
}

impl Default for FetchTurns {
    fn default() -> Self {
        Self {
            transfers: Turns::new(TRANSFERS),
            large: Turns::new(LARGE),
            gateways: Turns::new(GATEWAYS),
            answers: Turns::new(ANSWERS),
            large_answers: Turns::new(LARGE_ANSWERS),
        }
    }
}

impl FetchTurns {
    /// Returns a handle with which a fetch acquires its turn in [`LARGE`] if the function proves to be
    /// large.
    pub(super) const fn large<'a>(&'a self, claim: &'a Claim, until: Instant) -> LargeTurn<'a> {
        LargeTurn { turns: &self.large, claim, until, turn: None }
    }
}

/// Turn of a fetch in [`LARGE`], acquired when the function proves to be large.
pub(super) struct LargeTurn<'a> {
    turns: &'a Turns,
    claim: &'a Claim,
    /// Time at which the search ends, and therefore also the wait for a turn.
    until: Instant,
    turn: Option<Turn>,
}

impl LargeTurn<'_> {
    /// Waits for the turn in [`LARGE`] if `n_bytes` exceeds [`SMALL_BYTES_MAX`]. Returns immediately if
    /// the turn is already held. Cancel-safe.
    ///
    /// # Errors
    /// [`Crowded`].
    pub(super) async fn hold(&mut self, n_bytes: usize) -> Result<(), Crowded> {
        if self.turn.is_none() && n_bytes > SMALL_BYTES_MAX {
            let turn = self.turns.take(self.claim.clone());
            self.turn = timeout_at(self.until, turn).await.map_err(|_| Crowded)?;
        }
        Ok(())
    }

    /// Returns the result of `verify` for the maximum size of unpacked files. Small content can unpack to
    /// large files, which need the turn.
    ///
    /// # Errors
    /// [`Crowded`].
    pub(super) async fn verify(
        &mut self,
        verify: impl Fn(usize) -> Result<VerifiedFunction, FunctionsError> + Send + Sync + 'static,
    ) -> Result<Result<VerifiedFunction, FunctionsError>, Crowded> {
        let verify = Arc::new(verify);
        let first = Arc::clone(&verify);
        if self.turn.is_none() {
            let checked = blocking(move || first(SMALL_BYTES_MAX)).await;
            if !matches!(checked, Err(FunctionsError::Content(ContentError::TooLarge { .. }))) {
                return Ok(checked);
            }
            self.hold(FUNCTION_BYTES_MAX).await?;
        }
        Ok(blocking(move || verify(FUNCTION_BYTES_MAX)).await)
    }

    /// Returns the time until the end of the search.
    pub(super) fn remaining(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }
}

/// Locks of functions that are being fetched, each with the unnamed peer for which it is fetched, if any.
pub(super) type FetchLocks = HashMap<(FunctionId, Option<PeerId>), Weak<tokio::sync::Mutex<()>>>;

impl Functions {
    /// Returns function `id` from the store, or fetches it first from `peers`, one after the other, then
    /// from gateways. Content that does not match the id is rejected, and the next source is asked.
    /// Concurrent calls for a function take turns: a call that has waited for another one usually finds
    /// the function stored. The wait counts toward its time limit. Cancel-safe.
    ///
    /// A fetched function is stored on behalf of `requester`.
    ///
    /// # Errors
    /// [`FetchError`] if no source has the function or it cannot be stored.
    pub async fn obtain(
        &self,
        id: FunctionId,
        requester: &Requester,
        peers: &impl Peers,
    ) -> Result<Function, FetchError> {
        let claim = Claim { requester: requester.clone(), purpose: Purpose::Run };
        self.obtain_by(id, &claim, peers).await
    }

    pub(super) async fn obtain_by(
        &self,
        id: FunctionId,
        claim: &Claim,
        peers: &impl Peers,
    ) -> Result<Function, FetchError> {
        let id = id.normalize();
        if let Some(function) = self.get(id) {
            return Ok(function);
        }
        if !id.is_cid() {
            return Err(FetchError::NotInstalled { id });
        }
        let content = id.content().ok_or(FetchError::Unsupported { id })?;
        let until = Instant::now() + SEARCH_WITHIN;
        let _lock = self.lock_fetch(id, &claim.requester, until).await?;
        self.fetch(content, claim, peers, until).await
    }

    /// Waits until no other call fetches function `id` for `requester`. The first of several calls then
    /// fetches it, and the others find it in the store. Cancel-safe.
    ///
    /// # Errors
    /// [`FetchError::TimedOut`] if the wait does not end before `until`.
    pub(super) async fn lock_fetch(
        &self,
        id: FunctionId,
        requester: &Requester,
        until: Instant,
    ) -> Result<OwnedMutexGuard<()>, FetchError> {
        let peer = match requester {
            Requester::Peer(peer) => Some(peer.clone()),
            _ => None,
        };
        let lock = {
            let mut locks = self.0.fetch_locks.lock();
            locks.retain(|_, lock| lock.strong_count() > 0);
            let known = locks.entry((id, peer)).or_default();
            let lock = known.upgrade().unwrap_or_default();
            *known = Arc::downgrade(&lock);
            lock
        };
        timeout_at(until, lock.lock_owned()).await.map_err(|_| FetchError::TimedOut { id })
    }

    /// Returns the response to the request of `requester`, a peer, for a function. If the function is
    /// stored, waits until few enough responses are being written. Cancel-safe.
    pub async fn answer(&self, requester: Requester, question: &[u8]) -> Answer {
        let missing = || Answer::new(AnswerHead::Missing.to_line(), Bytes::new());
        let id = str::from_utf8(question).ok().and_then(|id| id.trim().parse().ok());
        let Some((id, function)) = id.and_then(|id| Some((id, self.get(id)?))) else {
            return missing();
        };
        let turns = &self.0.turns;
        let is_small = function.kept_bytes <= SMALL_BYTES_MAX as u64;
        let turns = if is_small { &turns.answers } else { &turns.large_answers };
        let turn = turns.take(Claim { requester, purpose: Purpose::Run }).await;
        self.read_for_peer(id, function).await.unwrap_or_else(missing).with_turn(turn)
    }

    async fn read_for_peer(&self, id: FunctionId, function: Function) -> Option<Answer> {
        let is_block = id.content().is_some_and(|id| id.codec() == Codec::Raw);
        let content = if is_block {
            self.content(id).await
        } else {
            self.upload(id).await.map(|upload| upload.map(|upload| upload.car))
        };
        let content = match content {
            Ok(content) => content?,
            Err(error) => {
                warn!(function = %id, %error, "failed to read a function for a peer");
                return None;
            }
        };
        let bytes = u64::try_from(content.len()).ok()?;
        let method = function.method.to_string();
        let head = if is_block {
            AnswerHead::Here { method, bytes }
        } else {
            AnswerHead::Car { name: function.name, method, bytes }
        };
        Some(Answer::new(head.to_line(), content))
    }

    /// Fetches a function, unless it was stored in the meantime. The search stops at `until`.
    async fn fetch(
        &self,
        id: ContentId,
        claim: &Claim,
        peers: &impl Peers,
        until: Instant,
    ) -> Result<Function, FetchError> {
        let late = |_| FetchError::TimedOut { id: id.into() };
        let turn = self.0.turns.transfers.take(claim.clone());
        let transfer = timeout_at(until, turn).await.map_err(late)?;
        if let Some(function) = self.get(id.into()) {
            return Ok(function);
        }
        let mut large = self.0.turns.large(claim, until);
        let to_ask = peers.peers();
        for peer in to_ask.iter().take(PEERS_MAX) {
            if large.remaining().is_zero() {
                return Err(FetchError::TimedOut { id: id.into() });
            }
            match fetch_from_peer(id, peers, peer, &mut large).await {
                Ok(checked) => {
                    let function = self.keep(checked, claim.requester.clone()).await;
                    info!(function = %id, %peer, "fetched a function from a peer");
                    return function.map_err(FetchError::Keep);
                }
                Err(error @ GiveError::Refused(_)) => {
                    let reason = chain(&error);
                    warn!(function = %id, %peer, reason, "refused a function from a peer");
                }
                Err(error) => debug!(function = %id, %peer, %error, "got no function from a peer"),
            }
        }
        drop(transfer);
        // Turns for a gateway must be acquired before turns in `LARGE`. If this fetch held a turn in
        // `LARGE` while it waits for a gateway, it could deadlock with a fetch that holds the turn for
        // the gateway and waits for a turn in `LARGE`.
        drop(large);
        if !self.0.gateways.is_empty() {
            let turn = self.0.turns.gateways.take(claim.clone());
            let _turn = timeout_at(until, turn).await.map_err(late)?;
            let mut large = self.0.turns.large(claim, until);
            if let Some(checked) = self.fetch_from_gateways(id, &mut large).await {
                let kept = self.keep(checked, claim.requester.clone()).await;
                return kept.map_err(FetchError::Keep);
            }
        }
        let (n_peers, n_gateways) = (to_ask.len().min(PEERS_MAX), self.0.gateways.len());
        Err(FetchError::Nowhere { id: id.into(), n_peers, n_gateways })
    }
}

fn describe_nowhere(id: FunctionId, n_peers: usize, n_gateways: usize) -> String {
    match (n_peers, n_gateways) {
        (0, 0) => "no connected peer provides functions".to_owned(),
        (_, 0) => format!("none of {n_peers} peers has {id}"),
        _ => format!("none of {n_peers} peers and {n_gateways} gateways has {id}"),
    }
}

async fn fetch_from_peer(
    id: ContentId,
    peers: &impl Peers,
    peer: &PeerId,
    large: &mut LargeTurn<'_>,
) -> Result<VerifiedFunction, GiveError> {
    let question = id.to_string();
    let ask = async |bytes_max: usize, within: Duration| {
        let limits = AnswerLimits { bytes_max: bytes_max + HEAD_BYTES_MAX, within };
        peers.ask(peer, question.as_bytes(), limits).await
    };
    let answer = match ask(SMALL_BYTES_MAX, large.remaining().min(PEER_WITHIN)).await {
        Err(AskError::TooLong { .. }) => {
            large.hold(CAR_BYTES_MAX).await?;
            ask(CAR_BYTES_MAX, PEER_WITHIN + duration_at_min_rate(CAR_BYTES_MAX)).await
        }
        answer => answer,
    };
    let answer = answer.map_err(GiveError::Ask)?;
    let (label, content) = read(id, &answer.into())?;
    let verify = move |max| VerifiedFunction::of_kept(id, label.clone(), content.clone(), max);
    large.verify(verify).await?.map_err(GiveError::Refused)
}

/// Parses a response: the names of a function and its unverified content.
fn read(id: ContentId, answer: &Bytes) -> Result<(NameHints, Bytes), GiveError> {
    let at = answer.iter().take(HEAD_BYTES_MAX).position(|byte| *byte == b'\n');
    let (head, rest) = at.and_then(|at| answer.split_at_checked(at)).ok_or(GiveError::Malformed)?;
    let content = answer.slice_ref(rest.get(1..).unwrap_or_default());
    let head = serde_json::from_slice(head).map_err(|_| GiveError::Malformed)?;
    let (name, method, bytes) = match (head, id.codec()) {
        (AnswerHead::Missing, _) => return Err(GiveError::Missing),
        (AnswerHead::Here { method, bytes }, Codec::Raw) => (None, method, bytes),
        (AnswerHead::Car { name, method, bytes }, Codec::DagPb) => (Some(name), method, bytes),
        _ => return Err(GiveError::Malformed),
    };
    if u64::try_from(content.len()) != Ok(bytes) {
        return Err(GiveError::Malformed);
    }
    let method = Some(method).filter(|method| !method.is_empty());
    let method = method.map(|method| method.parse::<Method>()).transpose();
    let method = method.map_err(|_| GiveError::Malformed)?;
    Ok((NameHints { name, method }, content))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn parsing_an_arbitrary_response_does_not_panic(
            head in r#"[{}":a-z0-9]{0,40}"#, rest: Vec<u8>,
        ) {
            let id = ContentId::from_block(Codec::Raw, &rest);
            let answer = [head.as_bytes(), b"\n", &rest].concat();
            drop(read(id, &answer.into()));
            drop(read(id, &rest.into()));
        }
    }

    #[track_caller]
    fn check(codec: Codec, head: &AnswerHead, content: &[u8], is_read: bool) {
        let id = ContentId::from_block(codec, content);
        let answer = [head.to_line().as_ref(), content].concat();
        assert_eq!(read(id, &answer.into()).is_ok(), is_read, "{head:?}");
    }

    #[test]
    fn response_with_an_unexpected_codec_or_length_is_rejected() {
        let here = |method: &str, bytes| AnswerHead::Here { method: method.into(), bytes };
        check(Codec::Raw, &here("a.wasm", 2), b"ab", true);
        check(Codec::Raw, &here("", 2), b"ab", true);
        check(Codec::Raw, &here("a/b", 2), b"ab", false);
        check(Codec::Raw, &here("a.wasm", 3), b"ab", false);
        check(Codec::DagPb, &here("a.wasm", 2), b"ab", false);
        let car = AnswerHead::Car { name: "n".into(), method: "a.wasm".into(), bytes: 2 };
        check(Codec::DagPb, &car, b"ab", true);
        check(Codec::Raw, &car, b"ab", false);
        check(Codec::Raw, &AnswerHead::Missing, b"", false);
    }
}
