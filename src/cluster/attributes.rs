//! Attributes that workers declare about themselves, and the requirements of requests.
//!
//! Attributes are unverified claims: no one attests them.

use std::collections::BTreeMap;

use model::selector::Selector;
use wire::functions::AttributesBody;

/// Maximum length of an attribute's name or value in an offer, in bytes.
const TEXT_BYTES_MAX: usize = 256;

/// Attributes of a worker, by name.
pub(crate) type Attributes = BTreeMap<String, String>;

/// Attributes that a worker must declare to be eligible for a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirements {
    /// Exact values, as in b7s. Roll calls contain these values, and workers compare them with their own
    /// attributes.
    pub attributes: Option<AttributesBody>,
    /// Selector that the head applies to the attributes in offers.
    pub selector: Option<Selector>,
}

impl Requirements {
    /// Returns true if every worker is eligible.
    pub fn is_empty(&self) -> bool {
        self.attributes.is_none() && self.selector.is_none()
    }

    /// Returns true if a worker that offers `attributes` is eligible.
    pub fn are_met_by(&self, attributes: &BTreeMap<String, String>) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(attributes))
            && self.attributes.as_ref().is_none_or(|required| declare(attributes, required))
    }
}

/// Returns true if `attributes` contain all `required` values. Returns false if attestations are
/// required, since there are none. As in b7s, a worker without attributes meets no requirement.
pub(crate) fn declare(attributes: &Attributes, required: &AttributesBody) -> bool {
    let mut values = required.values.iter().flatten();
    let are_attested = required.attestors.as_ref().is_some_and(|attestors| {
        let named = attestors.as_object().map(|lists| lists.values().any(|list| !is_empty(list)));
        named.unwrap_or(true)
    });
    !required.attestation_required
        && !are_attested
        && !attributes.is_empty()
        && values.all(|value| attributes.get(&value.name) == Some(&value.value))
}

/// Returns the attributes that fit in an offer. Requests for other attributes find the worker only by
/// roll call.
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
