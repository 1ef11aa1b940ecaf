//! The links to the pages before and after one: relative, its parameters sorted and escaped as Go does it.

use model::{page::Limit, timestamp::Timestamp};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::params::Params;

/// What Go escapes in a query: all but letters, digits and these marks. A space becomes a plus sign.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');

/// The link to the page that starts at row `offset`.
pub(crate) fn link_at_offset(path: &str, params: &Params, offset: u64) -> String {
    render_link(path, &replace_position(params, "offset", &offset.to_string()))
}

/// The link to the page before the one that starts at row `offset`; `None` if that is the first.
pub(crate) fn link_before(
    path: &str,
    params: &Params,
    offset: u64,
    limit: Limit,
) -> Option<String> {
    let limit = u64::try_from(limit.get()).unwrap_or(u64::MAX);
    (offset > 0).then(|| link_at_offset(path, params, offset.saturating_sub(limit)))
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

/// Writes a link with the escapes of Go, which writes the upstream's.
fn render_link(path: &str, params: &Params) -> String {
    let escape = |text: &str| utf8_percent_encode(text, ESCAPED).to_string().replace("%20", "+");
    let pairs = params.0.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value)));
    format!("{path}?{}", pairs.collect::<Vec<_>>().join("&"))
}
