//! Nodes of a function cluster: who they are, what they do, which groups they belong to.

use crate::{
    parse::{ParseError, checked_text},
    text::is_unprintable,
};

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

fn is_peer_id(text: &str) -> bool {
    let is_base58 = |c: char| c.is_ascii_alphanumeric() && !matches!(c, '0' | 'O' | 'I' | 'l');
    !text.is_empty() && text.len() <= PEER_ID_BYTES_MAX && text.chars().all(is_base58)
}

checked_text!(PeerId, is_peer_id, "a peer id such as 12D3KooW…");

fn is_subgroup(text: &str) -> bool {
    let is_fit = |c: char| !c.is_whitespace() && !is_unprintable(c);
    !text.is_empty() && text.len() <= SUBGROUP_BYTES_MAX && text.chars().all(is_fit)
}

checked_text!(Subgroup, is_subgroup, "a subgroup: 1 to 128 bytes without spaces");

#[cfg(test)]
mod tests;
