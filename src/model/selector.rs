//! Selectors: which nodes are meant, by the attributes that they declare, as `kubectl` writes them.

use std::{collections::BTreeMap, fmt, str::FromStr};

use crate::{parse::ParseError, text::is_unprintable};

/// The longest selector taken, in bytes. A few names fit; a head matches it against each worker.
const SELECTOR_BYTES_MAX: usize = 1024;

/// What a selector looks like, for whom it was none.
const WANTED: &str = "a selector such as zone=a,gpu!=none,tier in (hot,warm),!old";

/// Requirements that must all hold of a node's attributes: `zone=a`, `zone!=a`, `zone in (a,b)`,
/// `zone notin (a,b)`, `zone` for a node that declares it, `!zone` for one that does not; commas
/// between them.
///
/// As in Kubernetes, `!=` and `notin` hold of nodes without the attribute, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selector(Vec<Requirement>);

/// What must hold of one attribute.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Requirement {
    name: String,
    condition: Condition,
}

/// How an attribute is compared.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Condition {
    /// It has one of these values.
    In(Vec<String>),
    /// It has none of these values, or is not there.
    NotIn(Vec<String>),
    /// It is there.
    Exists,
    /// It is not there.
    Absent,
}

impl Selector {
    /// Whether a node that declares `attributes` is meant.
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

/// Splits a selector at the commas that stand in no parentheses.
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

/// The name of an attribute: not empty, and without what selectors are written with.
fn name(text: &str) -> Option<String> {
    let text = text.trim();
    (!text.is_empty() && !text.contains(char::is_whitespace)).then(|| value(text))?
}

/// The value of an attribute, which may be empty.
fn value(text: &str) -> Option<String> {
    let text = text.trim();
    let is_fit = |letter: char| !"()!=,".contains(letter) && !is_unprintable(letter);
    text.chars().all(is_fit).then(|| text.to_owned())
}

#[cfg(test)]
mod tests;
