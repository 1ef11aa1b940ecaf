//! Attributes: what workers declare of themselves, and whether it is what a request asks for.
//!
//! What a worker declares is its own word, which nobody attests. Absent on purpose: which workers are
//! trusted, which is for the operator to say.

use std::collections::BTreeMap;

use model::selector::Selector;
use wire::functions::AttributesBody;

/// The longest name or value of an attribute in one offer, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// What a worker declares, by name.
pub(crate) type Attributes = BTreeMap<String, String>;

/// What workers must declare to be meant by a request: all of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    /// Exact values, in the terms of b7s. They travel in roll calls.
    pub attributes: Option<AttributesBody>,
    /// What the head compares with what workers offer.
    pub selector: Option<Selector>,
}

impl Requirements {
    /// Whether any worker is meant.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_none() && self.selector.is_none()
    }

    /// Whether a worker that offers `attributes` is meant.
    pub fn are_met_by(&self, attributes: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(attributes))
            && self.attributes.as_ref().is_none_or(|asked| declare(attributes, asked))
    }
}

/// Whether `attributes` are what is asked for. Nobody attests them; where there are none, nothing is
/// declared, as in b7s.
pub(crate) fn declare(attributes: &Attributes, asked: &AttributesBody) -> bool {
    let mut values = asked.values.iter().flatten();
    let are_attested = asked.attestors.as_ref().is_some_and(|attestors| {
        let named = attestors.as_object().map(|lists| lists.values().any(|list| !is_empty(list)));
        named.unwrap_or(true)
    });
    !asked.attestation_required
        && !are_attested
        && !attributes.is_empty()
        && values.all(|value| attributes.get(&value.name) == Some(&value.value))
}

/// Those of `attributes` that fit in an offer. One that does not is found by roll call.
pub(crate) fn bounded(attributes: &Attributes) -> Attributes {
    let fit = attributes
        .iter()
        .filter(|(name, value)| name.len() <= TEXT_BYTES_MAX && value.len() <= TEXT_BYTES_MAX);
    // Maximum number of attributes of one worker.
    fit.take(64).map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn is_empty(list: &serde_json::Value) -> bool {
    list.is_null() || list.as_array().is_some_and(Vec::is_empty)
}
