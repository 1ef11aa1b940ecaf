//! Selectors of nodes by declared attributes, in the syntax of `kubectl`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use crate::parse::ParseError;
use crate::text::is_unprintable;

/// Maximum length of a selector, in bytes. The length is limited since a head evaluates the selector for
/// each worker.
const SELECTOR_BYTES_MAX: usize = 1024;

/// Description of a valid selector in errors.
const WANTED: &str = "a selector such as zone=a,gpu!=none,tier in (hot,warm),!old";

/// Requirements on a node's attributes, separated by commas: `zone=a`, `zone!=a`, `zone in (a,b)`, `zone
/// notin (a,b)`, `zone` for a node that declares the attribute, `!zone` for a node that does not declare
/// it.
///
/// As in Kubernetes, nodes without the attribute satisfy `!=` and `notin`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// Requirement on one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    name: String,
    condition: Condition,
}

/// Condition on the value of an attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    /// The attribute has one of these values.
    In(Vec<String>),
    /// The attribute is missing, or has none of these values.
    NotIn(Vec<String>),
    /// The attribute exists.
    Exists,
    /// The attribute is missing.
    Absent,
}

impl Selector {
    /// Returns true if `pair` is an attribute `NAME=VALUE` that a selector can name.
    #[must_use]
    pub fn can_name(pair: &str) -> bool {
        let is_same = |selector: Self| selector.0.len() == 1 && selector.to_string() == pair;
        pair.contains('=') && !pair.contains("!=") && pair.parse().is_ok_and(is_same)
    }

    /// Returns true if a node with these `attributes` is selected.
    #[must_use]
    pub fn matches(&self, attributes: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.holds(attributes.get(&requirement.name)))
    }
}

impl Requirement {
    fn holds(&self, value: Option<&String>) -> bool {
        match &self.condition {
            Condition::In(values) => value.is_some_and(|value| values.contains(value)),
            Condition::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Condition::Exists => value.is_some(),
            Condition::Absent => value.is_none(),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let text = text.trim();
        if let Some(rest) = text.strip_suffix(')') {
            let (front, list) = rest.split_once('(')?;
            let (name, operator) = front.trim().split_once(char::is_whitespace)?;
            let values: Option<Vec<String>> = list.split(',').map(value).collect();
            let condition = match operator.trim() {
                "in" => Condition::In(values?),
                "notin" => Condition::NotIn(values?),
                _ => return None,
            };
            return Some(Self { name: self::name(name)?, condition });
        }
        let (name, condition) = if let Some((name, compared)) = text.split_once("!=") {
            (name, Condition::NotIn(vec![value(compared)?]))
        } else if let Some((name, compared)) = text.split_once('=') {
            let compared = compared.strip_prefix('=').unwrap_or(compared);
            (name, Condition::In(vec![value(compared)?]))
        } else if let Some(name) = text.strip_prefix('!') {
            (name, Condition::Absent)
        } else {
            (text, Condition::Exists)
        };
        Some(Self { name: self::name(name)?, condition })
    }
}

impl FromStr for Selector {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let requirements: Option<Vec<Requirement>> = if text.len() > SELECTOR_BYTES_MAX {
            None
        } else {
            split(text).into_iter().map(Requirement::parse).collect()
        };
        requirements.map(Self).ok_or_else(|| ParseError::new(text, WANTED))
    }
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (idx, Requirement { name, condition }) in self.0.iter().enumerate() {
            f.write_str(if idx == 0 { "" } else { "," })?;
            match condition {
                Condition::In(values) if values.len() == 1 => {
                    write!(f, "{name}={}", values.concat())
                }
                Condition::NotIn(values) if values.len() == 1 => {
                    write!(f, "{name}!={}", values.concat())
                }
                Condition::In(values) => write!(f, "{name} in ({})", values.join(",")),
                Condition::NotIn(values) => write!(f, "{name} notin ({})", values.join(",")),
                Condition::Exists => f.write_str(name),
                Condition::Absent => write!(f, "!{name}"),
            }?;
        }
        Ok(())
    }
}

/// Splits a selector at the commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut is_in_list = false;
    let at_comma = |letter: char| {
        match letter {
            '(' => is_in_list = true,
            ')' => is_in_list = false,
            _ => {}
        }
        letter == ',' && !is_in_list
    };
    text.split(at_comma).collect()
}

/// Parses the name of an attribute, which must not be empty.
fn name(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| value(text))?
}

/// Parses the value of an attribute, which can be empty.
fn value(text: &str) -> Option<String> {
    let text = text.trim();
    let is_allowed = |letter: char| !"()!=,".contains(letter) && !is_unprintable(letter);
    text.chars().all(is_allowed).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
