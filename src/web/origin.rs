//! Recognizes requests from this service's own pages by the headers that browsers send. Other programs
//! do not send these headers, and only send cookies if told to.

use axum::http::HeaderMap;
use axum::http::header::{HOST, ORIGIN};

use crate::cookies::Channel;

/// Header in which newer browsers describe the relation between the page and the service.
const FETCH_SITE: &str = "sec-fetch-site";

/// Returns true if a page of another site made the request. A cookie in such a request must be ignored.
#[must_use]
pub fn is_foreign(headers: &HeaderMap) -> bool {
    let text = |name: &str| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    if let Some(site) = text(FETCH_SITE) {
        return !matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text(ORIGIN.as_str()) else { return false };
    let host = origin.split_once("://").map(|(_, host)| host);
    host.is_none() || host != text(HOST.as_str())
}

/// Returns the channel over which the requesting page was loaded, according to the origin that its
/// browser sends.
#[must_use]
pub fn channel(headers: &HeaderMap) -> Channel {
    match headers.get(ORIGIN).map(|origin| origin.as_bytes().starts_with(b"https://")) {
        Some(true) => Channel::Tls,
        _ => Channel::Clear,
    }
}

#[cfg(test)]
mod tests {
    use axum::http::{HeaderName, HeaderValue};

    use super::*;

    #[track_caller]
    fn check(pairs: &[(&'static str, &'static str)], want: bool) {
        let header = |&(name, value): &(&'static str, &'static str)| {
            (HeaderName::from_static(name), HeaderValue::from_static(value))
        };
        let headers: HeaderMap = pairs.iter().map(header).collect();
        assert_eq!(is_foreign(&headers), want, "{pairs:?}");
    }

    #[test]
    fn requests_of_web_pages_of_other_origins_are_foreign_but_requests_of_programs_are_not() {
        let host = ("host", "here:8081");
        check(&[host], false);
        check(&[host, ("origin", "http://here:8081")], false);
        check(&[host, ("origin", "http://here:8082")], true);
        check(&[host, ("origin", "https://evil.example")], true);
        check(&[host, ("origin", "null")], true);
        check(&[host, ("sec-fetch-site", "same-origin"), ("origin", "http://here:8081")], false);
        check(&[host, ("sec-fetch-site", "none")], false);
        check(&[host, ("sec-fetch-site", "cross-site")], true);
        check(&[host, ("sec-fetch-site", "same-site"), ("origin", "http://here:8081")], true);
    }
}
