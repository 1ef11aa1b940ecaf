//! Topics: what a prediction network predicts, when, and under which labels.

use std::{str::FromStr, sync::Arc};

use crate::parse::ParseError;

/// The label of a topic with a single output, by document 3.
pub const SINGLE_LABEL: &str = "y";

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

    /// Returns topic `number`, if it is 1 or more.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number > 0 { Some(Self(number)) } else { None }
    }

    /// The number, 1 or more.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for TopicId {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.parse().ok().and_then(Self::new);
        number.ok_or_else(|| ParseError::new(text, "a topic number, which is 1 or more"))
    }
}

impl Address {
    /// The address as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Address {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_fit = text.len() <= 90
            && text.strip_prefix("allo1").is_some_and(|rest| {
                !rest.is_empty()
                    && rest.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            });
        if is_fit {
            Ok(Self(text.into()))
        } else {
            Err(ParseError::new(text, "an address such as allo1…"))
        }
    }
}
