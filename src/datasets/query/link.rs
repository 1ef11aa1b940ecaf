//! The link to the next page: relative, its parameters sorted and escaped as Go does it.

use std::fmt::Write as _;

use model::timestamp::Timestamp;

use super::params::Params;

/// The link to the page that starts at row `offset`.
pub(crate) fn link_at_offset(path: &str, params: &Params, offset: u64) -> String {
    render_link(path, &replace_position(params, "offset", &offset.to_string()))
}

/// The link to the page that follows the row at `cursor`.
pub(crate) fn link_after(path: &str, params: &Params, cursor: Timestamp) -> String {
    render_link(path, &params_after(params, cursor))
}

/// The parameters of that link.
pub(crate) fn params_after(params: &Params, cursor: Timestamp) -> Params {
    replace_position(params, "after", &cursor.to_string())
}

/// `params` in order, where `name` is `value`. A page has one position only.
fn replace_position(params: &Params, name: &str, value: &str) -> Params {
    let others = params.0.iter().filter(|(key, _)| key != "offset" && key != "after");
    let mut pairs: Vec<(String, String)> = others.cloned().collect();
    pairs.push((name.to_owned(), value.to_owned()));
    pairs.sort_by(|(a, _), (b, _)| a.cmp(b));
    Params(pairs)
}

fn render_link(path: &str, params: &Params) -> String {
    let mut link = format!("{path}?");
    for (idx, (key, value)) in params.0.iter().enumerate() {
        if idx > 0 {
            link.push('&');
        }
        push_escaped(&mut link, key);
        link.push('=');
        push_escaped(&mut link, value);
    }
    link
}

/// Escapes as Go's `url.QueryEscape`: letters, digits and `-_.~` stay, a space becomes a plus.
fn push_escaped(to: &mut String, text: &str) {
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
