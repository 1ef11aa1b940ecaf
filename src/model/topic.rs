//! Topics of a prediction network.

use std::sync::Arc;

use crate::parse::{checked_text, positive_number};

/// Label of a topic with a single output, as in the upstream inference service.
pub const SINGLE_LABEL: &str = "y";

/// Returns the shortest decimal text that parses as `number`, without an exponent or negative zero.
#[must_use]
pub fn decimal(number: f64) -> String {
    format!("{}", number + 0.0)
}

/// Id of a topic, at least 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct TopicId(u64);

/// Height of the chain: the number of its latest block.
pub type BlockHeight = u64;

/// Address of an actor: a bech32 text with the prefix `allo`. Cheap to clone, since an epoch
/// contains each address thousands of times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct Address(Arc<str>);

impl TopicId {
    /// Id of the first topic of a network.
    pub const FIRST: Self = Self(1);
}

positive_number!(TopicId(u64), "a topic id (1 or more)");

fn is_address(text: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let rest = text.strip_prefix("allo1").filter(|rest| !rest.is_empty());
    text.len() <= 90 && rest.is_some_and(|rest| rest.bytes().all(is_allowed))
}

checked_text!(Address, is_address, "an address such as allo1…");
