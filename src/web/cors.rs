//! Cross-origin requests (CORS): selects the sites whose pages can read responses.
//!
//! Browsers hide a response from a page of another site unless the response's headers allow the page to
//! read it. Such pages send an API key in a header. Cookies are never allowed, nor are methods that
//! change anything.

use std::str::FromStr;
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderName, HeaderValue, Method, Uri, header};
use tower_http::cors::{AllowOrigin, CorsLayer};
use wire::paths::{API_KEY_HEADER, LAST_EVENT_ID_HEADER, REVISION_HEADER, ROW_COUNT_HEADER};

/// Time for which a browser can cache the allowed headers. Chromium limits it to two hours.
const REMEMBERED: Duration = Duration::from_hours(2);

/// Response headers that scripts can read, in addition to the headers that browsers always reveal.
const EXPOSED_HEADERS: [HeaderName; 11] = [
    header::ACCEPT_RANGES,
    header::CONTENT_DISPOSITION,
    header::CONTENT_LENGTH,
    header::CONTENT_RANGE,
    header::ETAG,
    header::RETRY_AFTER,
    HeaderName::from_static("ratelimit-limit"),
    HeaderName::from_static("ratelimit-remaining"),
    HeaderName::from_static("ratelimit-reset"),
    HeaderName::from_static(ROW_COUNT_HEADER),
    HeaderName::from_static(REVISION_HEADER),
];

/// Request headers that scripts can send.
const ALLOWED_HEADERS: [HeaderName; 8] = [
    header::AUTHORIZATION,
    header::IF_MATCH,
    header::IF_NONE_MATCH,
    header::IF_RANGE,
    header::RANGE,
    HeaderName::from_static(API_KEY_HEADER),
    HeaderName::from_static(LAST_EVENT_ID_HEADER),
    HeaderName::from_static(REVISION_HEADER),
];

/// Other sites whose pages can read responses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReaderSites {
    /// Scripts of every site can read responses.
    Any,
    /// The site of this origin, such as `https://example.com`.
    Origin(HeaderValue),
}

/// Error for a text that is not an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "expected `*` or an origin such as https://example.com or http://localhost:3000, without a path"
)]
pub struct ReaderSitesError;

impl FromStr for ReaderSites {
    type Err = ReaderSitesError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "*" {
            return Ok(Self::Any);
        }
        // Browsers always send origins in lower case.
        let text = text.to_ascii_lowercase();
        let uri: Uri = text.parse().map_err(|_| ReaderSitesError)?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) =
            (uri.scheme_str(), uri.authority())
        else {
            return Err(ReaderSitesError);
        };
        if authority.as_str().contains(['@', '*']) || text != format!("{scheme}://{authority}") {
            return Err(ReaderSitesError);
        }
        text.parse().map(Self::Origin).map_err(|_| ReaderSitesError)
    }
}

/// Lets pages of `sites` read the responses of `router`.
pub fn allow_readers(router: Router, sites: &[ReaderSites]) -> Router {
    if sites.is_empty() {
        return router;
    }
    let mut origins = Vec::new();
    for site in sites {
        match site {
            ReaderSites::Any => return router.layer(layer(AllowOrigin::any())),
            ReaderSites::Origin(origin) => origins.push(origin.clone()),
        }
    }
    router.layer(layer(AllowOrigin::list(origins)))
}

fn layer(origins: AllowOrigin) -> CorsLayer {
    CorsLayer::new()
        .allow_origin(origins)
        .allow_methods([Method::GET, Method::HEAD])
        .allow_headers(ALLOWED_HEADERS)
        .expose_headers(EXPOSED_HEADERS)
        .max_age(REMEMBERED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, want: Option<&str>) {
        let got = text.parse::<ReaderSites>().ok();
        let want = want.map(|text| ReaderSites::Origin(HeaderValue::from_str(text).unwrap()));
        assert_eq!(got, want, "{text}");
    }

    #[test]
    fn allowed_origin_is_parsed_in_the_form_that_browsers_send() {
        assert_eq!("*".parse(), Ok(ReaderSites::Any));
        check("https://Example.com", Some("https://example.com"));
        check("http://localhost:3000", Some("http://localhost:3000"));
        check("http://[::1]:3000", Some("http://[::1]:3000"));
        for text in [
            "",
            "example.com",
            "https://",
            "https://example.com/",
            "https://example.com/path",
            "https://example.com?x",
            "https://a@example.com",
            "ftp://example.com",
            "https://*.example.com",
            "null",
            "https://exa mple.com",
        ] {
            check(text, None);
        }
    }
}
