//! Access control.
//!
//! If there is a token, every request must carry it, except for health checks and, if the operator
//! trusts them, requests from programs on this machine. If there is no token, other machines can read
//! everything, and change something only through the endpoints of document 1. All other changes are
//! reserved for programs on this machine, as [`web::host_names`] recognizes them. Requests without a
//! token need a known host name.

use std::future::Future;
use std::str::FromStr;

use axum::extract::Request;
use axum::http::{HeaderMap, Method, header};
use axum::response::{IntoResponse as _, Response};
use web::middleware::Next;
use web::origin;
use wire::paths;

use super::RestOptions;
use super::error::RestError;

/// Minimum length of a token, in characters. Shorter tokens can be guessed.
const TOKEN_CHARS_MIN: usize = 8;

/// Maximum length of a token, in characters, since the size of headers is limited.
const TOKEN_CHARS_MAX: usize = 512;

/// Secret that requests carry as `Authorization: Bearer <token>`.
///
/// Its `Debug` output does not contain the secret.
#[derive(Clone, derive_more::Debug, PartialEq, Eq)]
#[debug("RestToken(…)")]
pub struct RestToken(String);

/// The text is not a valid token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid token; tokens have 8 to 512 printable characters without spaces")]
pub struct RestTokenError;

impl RestToken {
    /// Returns true if `text` is the token. Takes the same time wherever the texts differ.
    fn matches(&self, text: &str) -> bool {
        let pairs = self.0.bytes().zip(text.bytes().chain(std::iter::repeat(0)));
        let differing = pairs.fold(0, |differing, (ours, theirs)| differing | (ours ^ theirs));
        differing == 0 && self.0.len() == text.len()
    }
}

impl FromStr for RestToken {
    type Err = RestTokenError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let is_valid = (TOKEN_CHARS_MIN..=TOKEN_CHARS_MAX).contains(&text.len())
            && text.bytes().all(|byte| byte.is_ascii_graphic());
        is_valid.then(|| Self(text.to_owned())).ok_or(RestTokenError)
    }
}

/// Marks a request of the operator: it carries the token, or comes from a program on the head's
/// machine.
#[derive(Debug, Clone, Copy)]
struct ByOperator;

/// Returns true if the sender of a request is the operator.
pub(super) fn is_by_operator(request: &Request) -> bool {
    request.extensions().get::<ByOperator>().is_some()
}

/// Passes a request on if its sender has permission.
pub(super) fn check(
    options: &RestOptions,
    mut request: Request,
    next: Next,
) -> impl Future<Output = Response> + use<> {
    let permitted = permitted(options, &request);
    // If this head has a token, a permitted request contains the token or comes from this machine, so
    // it is the operator's. Health checks are an exception, but ignore the mark.
    if permitted.is_ok() && (options.token.is_some() || options.hosts.is_local(&request)) {
        request.extensions_mut().insert(ByOperator);
    }
    async move {
        match permitted {
            Ok(()) => next.run(request).await,
            Err(refused) => refused.into_response(),
        }
    }
}

fn permitted(options: &RestOptions, request: &Request) -> Result<(), RestError> {
    let RestOptions { token, hosts, is_loopback_trusted } = options;
    let (method, path) = (request.method(), request.uri().path());
    if let Some(token) = token {
        if bearer(request.headers()).is_some_and(|text| token.matches(text)) {
            return Ok(());
        }
        let is_health =
            [paths::HEALTH, paths::HEAD_HEALTH].contains(&path) && hosts.is_known(request);
        let is_trusted = *is_loopback_trusted && hosts.is_local(request);
        return if is_health || is_trusted { Ok(()) } else { Err(RestError::UNAUTHORIZED) };
    }
    if !hosts.is_known(request) {
        return Err(RestError::UNKNOWN_HOST);
    }
    if hosts.is_local(request) {
        return Ok(());
    }
    let is_read = matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS);
    // A page from another site cannot read the response, but without this check it could have functions
    // run.
    let is_open = is_read || (is_open(path) && !origin::is_foreign(request.headers()));
    if is_open { Ok(()) } else { Err(RestError::NOT_LOCAL) }
}

/// Returns true if, according to document 1, anyone can use the changing endpoint `path` while there is
/// no token.
fn is_open(path: &str) -> bool {
    [paths::FUNCTIONS_EXECUTE, paths::FUNCTIONS_INSTALL, paths::FUNCTIONS_RESULT].contains(&path)
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then(|| token.trim())
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::extract::ConnectInfo;
    use axum::http::Version;
    use web::address::Caller;
    use web::host_names::HostNames;

    use super::*;

    const TOKEN: &str = "correct-horse";
    const NEAR: &str = "127.0.0.1:1";
    const FAR: &str = "10.0.0.9:1";
    const HERE: (&str, &str) = ("host", "127.0.0.1:8080");
    const OPEN: [&str; 3] =
        [paths::FUNCTIONS_EXECUTE, paths::FUNCTIONS_INSTALL, paths::FUNCTIONS_RESULT];

    fn options(token: Option<&str>) -> RestOptions {
        let token = token.map(|text| text.parse().unwrap());
        RestOptions { token, hosts: HostNames::default(), is_loopback_trusted: false }
    }

    fn trusting() -> RestOptions {
        RestOptions { is_loopback_trusted: true, ..options(Some(TOKEN)) }
    }

    fn request(from: &str, what: &str, headers: &[(&str, &str)]) -> Request {
        let (method, path) = what.split_once(' ').unwrap();
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let caller = Caller(from.parse().unwrap());
        request.extension(ConnectInfo(caller)).body(Body::empty()).unwrap()
    }

    #[track_caller]
    fn check(options: &RestOptions, request: &Request, want: bool) {
        assert_eq!(permitted(options, request).is_ok(), want, "{request:?}");
    }

    #[test]
    fn every_request_except_health_requires_the_token() {
        let guarded = options(Some(TOKEN));
        for (text, want) in [
            (TOKEN, true),
            ("correct-horsf", false),
            ("correct-hors", false),
            ("correct-horses", false),
        ] {
            let value = format!("Bearer {text}");
            let what = format!("POST {}", paths::FUNCTIONS_EXECUTE);
            for host in [HERE, ("host", "evil.example")] {
                check(&guarded, &request(FAR, &what, &[host, ("authorization", &value)]), want);
            }
        }
        for path in [paths::NODES, paths::EVENTS, paths::METRICS, paths::FUNCTIONS_EXECUTE] {
            let what = format!("GET {path}");
            check(&guarded, &request(FAR, &what, &[HERE]), false);
            check(&guarded, &request(NEAR, &what, &[HERE]), false);
            check(&trusting(), &request(NEAR, &what, &[HERE]), true);
            check(&trusting(), &request(NEAR, &what, &[("host", "evil.example")]), false);
            check(&trusting(), &request(NEAR, &what, &[HERE, ("via", "1.1 proxy")]), false);
            check(&trusting(), &request(FAR, &what, &[HERE]), false);
        }
        for path in [paths::HEALTH, paths::HEAD_HEALTH] {
            let health = format!("GET {path}");
            check(&guarded, &request(FAR, &health, &[HERE]), true);
            check(&guarded, &request(FAR, &health, &[]), true);
            check(&guarded, &request(FAR, &health, &[("host", "evil.example")]), false);
        }
    }

    #[test]
    fn clients_on_other_machines_without_a_token_can_only_execute_install_and_read() {
        let open = options(None);
        for path in OPEN {
            check(&open, &request(FAR, &format!("POST {path}"), &[("host", "10.0.0.1")]), true);
        }
        for (what, want) in [
            ("GET /api/v1/executions/x", true),
            ("DELETE /api/v1/executions/x", false),
            ("POST /api/v1/functions", false),
            ("DELETE /api/v1/functions/x", false),
        ] {
            check(&open, &request(FAR, what, &[HERE]), want);
            check(&open, &request(NEAR, what, &[HERE]), true);
        }
    }

    #[test]
    fn request_through_a_proxy_without_forwarding_headers_is_not_local() {
        let mut request = request(NEAR, "DELETE /api/v1/functions/x", &[HERE]);
        *request.version_mut() = Version::HTTP_10;
        check(&options(None), &request, false);
        check(&options(Some(TOKEN)), &request, false);
        check(&trusting(), &request, false);
    }

    #[test]
    fn web_pages_of_other_sites_cannot_execute_or_delete_functions() {
        let open = options(None);
        let execute = format!("POST {}", paths::FUNCTIONS_EXECUTE);
        let page = ("origin", "http://127.0.0.1:8081");
        for what in [&execute, "DELETE /api/v1/functions/x"] {
            check(&open, &request(NEAR, what, &[HERE, page]), false);
            check(&open, &request(NEAR, what, &[HERE, ("sec-fetch-site", "cross-site")]), false);
            check(&open, &request(NEAR, what, &[HERE, ("origin", "http://127.0.0.1:8080")]), true);
        }
        let rebound = [("host", "evil.example:8080"), ("origin", "http://evil.example:8080")];
        for what in [&execute, "GET /api/v1/nodes", "GET /metrics", "GET /api/v1/health"] {
            check(&open, &request(NEAR, what, &rebound), false);
            check(&open, &request(NEAR, what, &rebound[..1]), false);
        }
        let named =
            RestOptions { hosts: ["evil.example".parse().unwrap()].into_iter().collect(), ..open };
        check(&named, &request(FAR, &execute, &rebound), true);
    }

    #[test]
    fn short_token_is_rejected_and_debug_output_hides_the_token() {
        assert_eq!("short".parse::<RestToken>(), Err(RestTokenError));
        assert_eq!("with a space".parse::<RestToken>(), Err(RestTokenError));
        let token: RestToken = TOKEN.parse().unwrap();
        assert!(!format!("{token:?}").contains("correct"));
    }
}
