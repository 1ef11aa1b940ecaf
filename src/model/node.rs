//! Nodes of a function cluster: ids, roles and subgroups.

use crate::parse::{ParseError, checked_text};
use crate::text::is_unprintable;

/// Name of the group of all nodes, as used by existing b7s nodes.
pub const GENERAL_TOPIC: &str = "blockless/b7s/general";

/// Maximum length of a subgroup name, in bytes. The length is limited since every gossip message
/// contains the name.
pub const SUBGROUP_BYTES_MAX: usize = 128;

/// Maximum length of a peer id, in bytes. RSA ids have 46 characters, Ed25519 ids 52.
const PEER_ID_BYTES_MAX: usize = 128;

/// Id of a node: the base58 hash of its public key, such as `12D3KooW…`.
///
/// Only the alphabet and the length are checked here.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct PeerId(String);

/// Role of a node.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, strum::Display, strum::EnumString,
)]
#[strum(serialize_all = "lowercase", parse_err_ty = ParseError, parse_err_fn = no_role)]
pub enum Role {
    /// Serves the REST API and distributes work.
    Head,
    /// Executes functions for heads.
    Worker,
}

/// Name of a subgroup: printable, without spaces, at most [`SUBGROUP_BYTES_MAX`] bytes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct Subgroup(String);

fn no_role(text: &str) -> ParseError {
    ParseError::new(text, "a role (head or worker)")
}

fn is_peer_id(text: &str) -> bool {
    let is_base58 = |c: char| c.is_ascii_alphanumeric() && !matches!(c, '0' | 'O' | 'I' | 'l');
    !text.is_empty() && text.len() <= PEER_ID_BYTES_MAX && text.chars().all(is_base58)
}

checked_text!(PeerId, is_peer_id, "a peer id such as 12D3KooW…");

fn is_subgroup(text: &str) -> bool {
    let is_allowed = |c: char| !c.is_whitespace() && !is_unprintable(c);
    !text.is_empty() && text.len() <= SUBGROUP_BYTES_MAX && text.chars().all(is_allowed)
}

checked_text!(Subgroup, is_subgroup, "a subgroup (1 to 128 bytes without spaces)");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peer_id_that_is_not_short_base58_is_rejected() {
        let id = "12D3KooWH9GerdSEroL2nqjpd2GuE5dwmqNi7uHX7FoKcP4qXabc";
        assert_eq!(id.parse::<PeerId>().unwrap().to_string(), id);
        for text in ["", "with space", "0OIl", "12D3/../etc", &"1".repeat(129)] {
            assert!(text.parse::<PeerId>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_head_and_worker_are_valid_roles() {
        assert_eq!("head".parse(), Ok(Role::Head));
        assert_eq!("worker".parse(), Ok(Role::Worker));
        assert!("Head".parse::<Role>().is_err());
    }

    #[test]
    fn subgroup_name_that_is_too_long_or_has_spaces_is_rejected() {
        assert_eq!("gpu".parse::<Subgroup>().unwrap().as_str(), "gpu");
        for text in ["", "a b", "a\n", "a\u{202e}", &"x".repeat(129)] {
            assert!(text.parse::<Subgroup>().is_err(), "{text:?}");
        }
    }
}
