//! Topics: what a prediction network predicts, when, and under which labels.

use std::sync::Arc;

use crate::parse::{checked_text, positive_number};

/// The label of a topic with a single output, by document 3.
pub const SINGLE_LABEL: &str = "y";

/// Returns the shortest decimal text that reads back as `number`, without an exponent or a negative zero.
#[must_use]
pub fn decimal(number: f64) -> String {
    format!("{}", number + 0.0)
}

/// A topic's number, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct TopicId(u64);

/// A height of the chain: the number of a block.
pub type BlockHeight = u64;

/// The address of an actor of the network: a bech32 text with the prefix `allo`. Cheap to clone: an
/// epoch names each of its actors thousands of times.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, derive_more::Display)]
pub struct Address(Arc<str>);

impl TopicId {
    /// The first topic of a network.
    pub const FIRST: Self = Self(1);
}

positive_number!(TopicId(u64), "a topic number, which is 1 or more");

fn is_address(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let rest = text.strip_prefix("allo1").filter(|rest| !rest.is_empty());
    text.len() <= 90 && rest.is_some_and(|rest| rest.bytes().all(is_fit))
}

checked_text!(Address, is_address, "an address such as allo1…");
