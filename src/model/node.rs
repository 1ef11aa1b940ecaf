//! Nodes of a function cluster: who they are, what they do, which groups they belong to.

use std::str::FromStr;

use crate::text::is_unprintable;

/// The group every node belongs to, as existing b7s nodes name it.
pub const GENERAL_TOPIC: &str = "blockless/b7s/general";

/// The longest subgroup name taken, in bytes. Names travel in every gossip message.
pub const SUBGROUP_BYTES_MAX: usize = 128;

/// The longest peer id taken, in bytes. An RSA one has 46 characters, an Ed25519 one 52.
const PEER_ID_BYTES_MAX: usize = 128;

/// A node's identity: the base58 text of the hash of its public key, such as `12D3KooW…`.
///
/// Only its alphabet and length are checked here; the network room checks the rest.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct PeerId(String);

/// What a node does.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = NameError, parse_err_fn = no_role)]
pub enum Role {
    /// Serves the REST API and hands out work.
    Head,
    /// Executes functions for heads.
    Worker,
}

/// The name of a subgroup: printable, without spaces, at most [`SUBGROUP_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct Subgroup(String);

/// Why a text names no node, role or subgroup.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NameError {
    /// Not base58, empty, or too long.
    #[error("read `{text}` as a peer id such as 12D3KooW…")]
    PeerId {
        /// The text, shortened.
        text: String,
    },
    /// Neither `head` nor `worker`.
    #[error("read `{text}` as a role, which is head or worker")]
    Role {
        /// The text, shortened.
        text: String,
    },
    /// Empty, too long, or holding spaces or control characters.
    #[error("read `{text}` as a subgroup: 1 to 128 bytes without spaces")]
    Subgroup {
        /// The text, shortened.
        text: String,
    },
}

/// The start of `text`, short enough for an error message.
fn shortened(text: &str) -> String {
    text.chars().take(80).collect()
}

fn no_role(text: &str) -> NameError {
    NameError::Role { text: shortened(text) }
}

impl PeerId {
    /// The id as text, in base 58.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerId {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_base58 = |c: char| c.is_ascii_alphanumeric() && !matches!(c, '0' | 'O' | 'I' | 'l');
        if text.is_empty() || text.len() > PEER_ID_BYTES_MAX || !text.chars().all(is_base58) {
            return Err(NameError::PeerId { text: shortened(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

impl Subgroup {
    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Subgroup {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unfit = |c: char| c.is_whitespace() || is_unprintable(c);
        if text.is_empty() || text.len() > SUBGROUP_BYTES_MAX || text.chars().any(unfit) {
            return Err(NameError::Subgroup { text: shortened(text) });
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
