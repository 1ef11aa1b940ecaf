//! Who may ask for what.
//!
//! With a token, requests from other machines must bear it, but for whether the head is well.
//! Without one, they may do what document 1 gives them, and look; what else changes anything is for
//! this machine alone. A request that a proxy passed on is one from another machine, and so is one
//! that a page of another site had a browser of this machine send.

use std::{fmt, net::IpAddr, str::FromStr};

use axum::{
    extract::{ConnectInfo, Request, State},
    http::{HeaderMap, HeaderValue, Method, Uri, header},
    middleware::Next,
    response::{IntoResponse as _, Response},
};
use web::serve::Caller;
use wire::paths;

use super::{RestOptions, error::Refused};

/// The shortest token taken, in characters. Shorter ones are guessed.
const TOKEN_CHARS_MIN: usize = 8;

/// The longest token taken, in characters. Headers have a bound.
const TOKEN_CHARS_MAX: usize = 512;

/// Headers that proxies add.
const PASSED_ON: [&str; 3] = ["forwarded", "x-forwarded-for", "x-real-ip"];

/// A secret that requests bear: `Authorization: Bearer <token>`.
///
/// Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq)]
pub struct RestToken(String);

/// A text is no token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("read a token of 8 to 512 printable characters without spaces")]
pub struct RestTokenError;

impl RestToken {
    /// Whether `text` is the token. Takes as long whichever characters differ.
    fn is(&self, text: &str) -> bool {
        let pairs = self.0.bytes().zip(text.bytes().chain(std::iter::repeat(0)));
        let differing = pairs.fold(0, |differing, (ours, theirs)| differing | (ours ^ theirs));
        differing == 0 && self.0.len() == text.len()
    }
}

impl FromStr for RestToken {
    type Err = RestTokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_fit = (TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_fit.then(|| Self(text.to_owned())).ok_or(RestTokenError)
    }
}

impl fmt::Debug for RestToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RestToken(…)")
    }
}

/// Lets a request through, if whoever sent it may.
pub(super) async fn checked(
    State(options): State<RestOptions>,
    request: Request,
    next: Next,
) -> Response {
    let origin = Origin::of(&request);
    match permitted(options.token.as_ref(), origin, &request) {
        Ok(()) => next.run(request).await,
        Err(refused) => refused.into_response(),
    }
}

/// Where a request comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    ThisMachine,
    Elsewhere,
}

impl Origin {
    fn of(request: &Request) -> Self {
        let peer = request.extensions().get::<ConnectInfo<Caller>>();
        let is_near =
            peer.is_some_and(|ConnectInfo(Caller(peer))| peer.ip().to_canonical().is_loopback());
        let was_passed_on = PASSED_ON.iter().any(|name| request.headers().contains_key(*name));
        let is_of_page =
            request.headers().get_all(header::ORIGIN).iter().any(|page| !is_near_page(page));
        if is_near && !was_passed_on && !is_of_page { Self::ThisMachine } else { Self::Elsewhere }
    }
}

/// Whether a page is one that this machine serves itself.
fn is_near_page(origin: &HeaderValue) -> bool {
    let page = origin.to_str().ok().and_then(|text| text.parse::<Uri>().ok());
    let host = page.as_ref().and_then(Uri::host).unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

fn permitted(token: Option<&RestToken>, origin: Origin, request: &Request) -> Result<(), Refused> {
    let path = request.uri().path();
    if origin == Origin::ThisMachine || path == paths::HEAD_HEALTH {
        return Ok(());
    }
    match token {
        Some(token) if bearer(request.headers()).is_some_and(|text| token.is(text)) => Ok(()),
        Some(_) => Err(Refused::Unauthorized),
        None if is_open(request.method(), path) => Ok(()),
        None => Err(Refused::NotFromHere),
    }
}

/// Whether anybody may ask for it where there is no token: looking, and what document 1 has.
fn is_open(method: &Method, path: &str) -> bool {
    let by_document = [paths::FUNCTIONS_EXECUTE, paths::FUNCTIONS_INSTALL, paths::FUNCTIONS_RESULT];
    matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) || by_document.contains(&path)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    const TOKEN: &str = "correct-horse";

    fn request(method: &str, path: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[track_caller]
    fn check(token: Option<&str>, origin: Origin, request: &Request, want: bool) {
        let token: Option<RestToken> = token.map(|text| text.parse().unwrap());
        assert_eq!(permitted(token.as_ref(), origin, request).is_ok(), want);
    }

    #[test]
    fn a_token_guards_all_but_health_from_elsewhere() {
        use Origin::{Elsewhere, ThisMachine};
        let bearing = |text: &str| {
            let value = format!("Bearer {text}");
            request("POST", paths::FUNCTIONS_EXECUTE, &[("authorization", &value)])
        };
        check(Some(TOKEN), Elsewhere, &bearing(TOKEN), true);
        check(Some(TOKEN), Elsewhere, &bearing("correct-horsf"), false);
        check(Some(TOKEN), Elsewhere, &bearing("correct-hors"), false);
        check(Some(TOKEN), Elsewhere, &bearing("correct-horses"), false);
        for path in [paths::NODES, paths::EVENTS, paths::METRICS, paths::FUNCTIONS_EXECUTE] {
            check(Some(TOKEN), Elsewhere, &request("GET", path, &[]), false);
            check(Some(TOKEN), ThisMachine, &request("GET", path, &[]), true);
        }
        check(Some(TOKEN), Elsewhere, &request("GET", paths::HEAD_HEALTH, &[]), true);
    }

    #[test]
    fn without_a_token_others_execute_install_and_look_and_no_more() {
        use Origin::{Elsewhere, ThisMachine};
        for path in [paths::FUNCTIONS_EXECUTE, paths::FUNCTIONS_INSTALL, paths::FUNCTIONS_RESULT] {
            check(None, Elsewhere, &request("POST", path, &[]), true);
        }
        check(None, Elsewhere, &request("GET", "/api/v1/executions/x", &[]), true);
        check(None, Elsewhere, &request("DELETE", "/api/v1/executions/x", &[]), false);
        check(None, ThisMachine, &request("DELETE", "/api/v1/executions/x", &[]), true);
        for (method, path) in [("POST", paths::FUNCTIONS), ("DELETE", "/api/v1/functions/x")] {
            check(None, Elsewhere, &request(method, path, &[]), false);
            check(Some(TOKEN), Elsewhere, &request(method, path, &[]), false);
            check(None, ThisMachine, &request(method, path, &[]), true);
        }
    }

    #[test]
    fn what_a_proxy_passed_on_or_a_page_sends_comes_from_elsewhere() {
        let near = |headers: &[(&str, &str)]| {
            let mut request = request("GET", "/", headers);
            let caller = Caller("127.0.0.1:1".parse().unwrap());
            request.extensions_mut().insert(ConnectInfo(caller));
            Origin::of(&request)
        };
        assert_eq!(near(&[]), Origin::ThisMachine);
        assert_eq!(near(&[("X-Forwarded-For", "10.0.0.1")]), Origin::Elsewhere);
        assert_eq!(Origin::of(&request("GET", "/", &[])), Origin::Elsewhere);
        for page in ["http://localhost:8080", "http://127.0.0.1", "http://[::1]:1"] {
            assert_eq!(near(&[("origin", page)]), Origin::ThisMachine, "{page}");
        }
        for page in ["https://example.com", "http://localhost.example.com", "null", "\u{e9}"] {
            assert_eq!(near(&[("origin", page)]), Origin::Elsewhere, "{page}");
        }
    }

    #[test]
    fn a_token_is_long_and_is_not_shown() {
        assert_eq!("short".parse::<RestToken>(), Err(RestTokenError));
        assert_eq!("with a space".parse::<RestToken>(), Err(RestTokenError));
        let token: RestToken = TOKEN.parse().unwrap();
        assert!(!format!("{token:?}").contains("correct"));
    }
}
