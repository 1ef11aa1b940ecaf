//! Nodes of a function cluster: who they are, what they do, which groups they belong to.

use std::str::FromStr;

use crate::{parse::ParseError, text::is_unprintable};

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
#[strum(serialize_all = "lowercase", parse_err_ty = ParseError, parse_err_fn = no_role)]
pub enum Role {
    /// Serves the REST API and hands out work.
    Head,
    /// Executes functions for heads.
    Worker,
}

/// The name of a subgroup: printable, without spaces, at most [`SUBGROUP_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct Subgroup(String);

fn no_role(text: &str) -> ParseError {
    ParseError::new(text, "a role, which is head or worker")
}

impl PeerId {
    /// The id as text, in base 58.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_base58 = |c: char| c.is_ascii_alphanumeric() && !matches!(c, '0' | 'O' | 'I' | 'l');
        if text.is_empty() || text.len() > PEER_ID_BYTES_MAX || !text.chars().all(is_base58) {
            return Err(ParseError::new(text, "a peer id such as 12D3KooW…"));
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
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unfit = |c: char| c.is_whitespace() || is_unprintable(c);
        if text.is_empty() || text.len() > SUBGROUP_BYTES_MAX || text.chars().any(unfit) {
            return Err(ParseError::new(text, "a subgroup: 1 to 128 bytes without spaces"));
        }
        Ok(Self(text.to_owned()))
    }
}

#[cfg(test)]
mod tests;
