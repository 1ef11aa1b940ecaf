//! The link to the next page: relative, its parameters sorted and escaped as Go does it.

use std::fmt::Write as _;

use model::timestamp::Timestamp;

use super::params::Params;

/// The link to the page that starts at row `offset`.
pub(crate) fn at_offset(path: &str, params: &Params, offset: u64) -> String {
    with(path, params, "offset", &offset.to_string())
}

/// The link to the page that follows the row at `cursor`.
pub(crate) fn after(path: &str, params: &Params, cursor: Timestamp) -> String {
    with(path, params, "after", &cursor.to_string())
}

/// The link to `path` with `params`, where `name` is `value`. A page has one position only.
fn with(path: &str, params: &Params, name: &str, value: &str) -> String {
    let others = params.0.iter().filter(|(key, _)| key != "offset" && key != "after");
    let mut pairs: Vec<(&str, &str)> =
        others.map(|(key, value)| (key.as_str(), value.as_str())).collect();
    pairs.push((name, value));
    pairs.sort_by_key(|(key, _)| *key);
    let mut link = format!("{path}?");
    for (idx, (key, value)) in pairs.into_iter().enumerate() {
        if idx > 0 {
            link.push('&');
        }
        escape(&mut link, key);
        link.push('=');
        escape(&mut link, value);
    }
    link
}

/// Escapes as Go's `url.QueryEscape`: letters, digits and `-_.~` stay, a space becomes a plus.
fn escape(to: &mut String, text: &str) {
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                to.push(char::from(byte));
            }
            b' ' => to.push('+'),
            // Writing to a string cannot fail.
            _ => write!(to, "%{byte:02X}").unwrap_or_default(),
        }
    }
}
