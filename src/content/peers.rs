//! Peers that give functions, through whatever network carries the question.

use std::time::Duration;

use bytes::Bytes;
use model::node::PeerId;
use serde::{Deserialize, Serialize};

/// The protocol by which a peer asks for a function: its id, answered by an [`AnswerHead`] as a line
/// and the content. Ours.
pub const FUNCTION_PROTOCOL: &str = "/triptych/function/1.0.0";

/// Why a network did not bring an answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AskError {
    /// The answer is longer than agreed.
    #[error("answer exceeds {bytes_max} bytes")]
    TooLong {
        /// Maximum length of the answer.
        bytes_max: usize,
    },
    /// The network failed in another way.
    #[error(transparent)]
    Failed(#[from] Box<dyn std::error::Error + Send + Sync>),
}

/// Peers to ask, in turn, over a network that this room does not know.
pub trait Peers: Sync {
    /// Returns the peers, those that most likely have the function first.
    fn peers(&self) -> &[PeerId];

    /// Asks one peer by [`FUNCTION_PROTOCOL`], and returns its whole answer. Cancel-safe.
    ///
    /// # Errors
    /// Whatever the network says, also of an answer that is longer or later than `limits`.
    fn ask(
        &self,
        peer: &PeerId,
        question: &[u8],
        limits: AnswerLimits,
    ) -> impl Future<Output = Result<Vec<u8>, AskError>> + Send;
}

/// How long an answer may be, and how late.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLimits {
    /// Its length in bytes, with the line before the content.
    pub bytes_max: usize,
    /// Time from the question to its last byte. A peer that drips is given up earlier.
    pub within: Duration,
}

/// An answer to a peer: a line, then content that is shared, not copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// An [`AnswerHead`] as a line.
    pub head: Bytes,
    /// The content; empty if the function is missing.
    pub content: Bytes,
}

/// The line before a function's content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AnswerHead {
    /// The content follows.
    Here {
        /// The name of the file; empty if it is not known.
        method: String,
        /// How many bytes follow.
        bytes: u64,
    },
    /// The blocks of a function that is more than one block follow, as a CAR.
    Car {
        /// The name that people call the function by.
        name: String,
        /// The name of the file to run; empty if it is not known.
        method: String,
        /// How many bytes follow.
        bytes: u64,
    },
    /// The peer does not have the function, or cannot send it now.
    Missing,
}

impl AnswerHead {
    /// Returns the line as it is sent.
    #[must_use]
    #[expect(clippy::expect_used, reason = "the shape holds no map with keys that are not text")]
    pub fn to_line(&self) -> Bytes {
        let mut line = serde_json::to_vec(self).expect("a head is JSON");
        line.push(b'\n');
        line.into()
    }
}
