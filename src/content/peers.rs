//! The interface to peers that provide functions, independent of the network.

use std::time::Duration;

use bytes::Bytes;
use model::node::PeerId;
use serde::{Deserialize, Serialize};

use crate::turns::Turn;

/// Protocol for requesting a function from a peer by its id. The response is an [`AnswerHead`] as one
/// line, followed by the content. Not part of b7s.
pub const FUNCTION_PROTOCOL: &str = "/triptych/function/1.0.0";

/// A failed request over the network.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The response is too long.
    #[error("response exceeds {bytes_max} bytes")]
    TooLong {
        /// Maximum length of the response.
        bytes_max: usize,
    },
    /// Any other error of the network.
    #[error(transparent)]
    Failed(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Peers to ask one after the other.
pub trait Peers: Sync {
    /// Returns the peers, starting with the most likely sources.
    fn peers(&self) -> &[PeerId];

    /// Sends a request by [`FUNCTION_PROTOCOL`] and returns the complete response. Cancel-safe.
    ///
    /// # Errors
    /// Any error of the network, including a response that exceeds `limits`.
    fn ask(
        &self,
        peer: &PeerId,
        question: &[u8],
        limits: AnswerLimits,
    ) -> impl Future<Output = Result<Vec<u8>, AskError>> + Send;
}

/// Limits of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimits {
    /// Maximum length in bytes, including the first line.
    pub bytes_max: usize,
    /// Time limit from the request to the last byte. A peer that sends below the minimum rate is given
    /// up earlier.
    pub within: Duration,
}

/// A response to a peer: a first line, and content that is shared instead of copied.
#[derive(Debug)]
pub struct Answer {
    /// The [`AnswerHead`] as one line.
    pub head: Bytes,
    /// The content; empty if the function is missing.
    pub content: Bytes,
    /// Held until the response is written, since the content takes memory until then.
    _turn: Option<Turn>,
}

impl Answer {
    /// Creates a response with its first line.
    #[must_use]
    pub const fn new(head: Bytes, content: Bytes) -> Self {
        Self { head, content, _turn: None }
    }

    pub(super) fn with_turn(self, turn: Option<Turn>) -> Self {
        Self { _turn: turn, ..self }
    }
}

/// First line of a response.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerHead {
    /// The content of a single block follows.
    Here {
        /// Name of the file. Earlier versions send an empty name if it is unknown.
        method: String,
        /// Length of the content, in bytes.
        bytes: u64,
    },
    /// The blocks of a function with more than one block follow, as a CAR.
    Car {
        /// Human-readable name of the function.
        name: String,
        /// Name of the default module; empty if unknown.
        method: String,
        /// Length of the CAR, in bytes.
        bytes: u64,
    },
    /// The peer does not have the function or cannot send it now.
    Missing,
}

impl AnswerHead {
    /// Serializes the line.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the shape holds no map with keys that are not text")]
    pub fn to_line(&self) -> Bytes {
        let mut line = serde_json::to_vec(self).expect("a head is JSON");
        line.push(b'\n');
        line.into()
    }
}
