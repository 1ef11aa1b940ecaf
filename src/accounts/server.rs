//! HTTP API of the accounts, and the portal that uses it.
//!
//! A cookie contains the session's token. Changes requested by pages of other sites are rejected. In
//! addition, every body must have a type that a form on such a page cannot send.

mod attempts;
mod error;
mod keys;
pub mod openapi;
mod sessions;

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, FromRequestParts, Request};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{any, get};
use axum::{Json, Router};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use task::group::Group;
use tracing::info;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::address::{AddressSource, Network};
use web::cookies::{self, Channel};
use web::host_names::HostNames;
use web::metrics::Metrics;
use web::middleware::{Next, RequestOptions, add_layers, wrap};
use web::origin;
use web::query_names::check_query_names;
use web::serve::{BindError, bind, serve_by};
use web::shared_check::SharedCheck;
use wire::paths;

use self::attempts::Attempts;
use self::error::ApiError;
use crate::account::TOKEN_CHARS_MIN;
use crate::{
    AccountRecord, Accounts, AccountsError, InputError, Keys, SessionId, SessionToken, SignUp,
    database_metrics,
};

/// Name of the session cookie.
pub const COOKIE: &str = "triptych_session";

/// Maximum size of a request body, in bytes. Bodies contain only names and passwords.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// Time limit of a request. This includes some seconds for which a password check can wait for a permit.
const RESPONSE_WITHIN: Duration = Duration::from_secs(20);

/// Options of the accounts API.
#[derive(Debug, Clone)]
pub struct PortalOptions {
    /// Setting for sign-up, or `None` to use the setting that is stored with the accounts.
    pub sign_up: Option<SignUp>,
    /// Source of client addresses.
    pub addresses: AddressSource,
    /// Operator's token with which other services verify keys, or `None` if no service can verify keys.
    pub token: Option<OperatorToken>,
    /// Host names of the portal.
    pub hosts: HostNames,
}

/// Options of a server that provides only the accounts API.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Address to listen on, such as `127.0.0.1:0` or `:8083`. Port 0 selects a free port.
    pub listen: String,
    /// Source of client addresses.
    pub addresses: AddressSource,
}

/// Hash of the operator's token, with which other services verify keys. Hidden in `Debug`.
#[derive(derive_more::Debug, Clone)]
#[debug("OperatorToken(…)")]
pub struct OperatorToken([u8; 32]);

/// State of the handlers.
#[derive(Debug, Clone)]
struct App {
    accounts: Accounts,
    options: PortalOptions,
    attempts: Arc<Attempts>,
}

/// Account that is logged in, and its session.
#[derive(Debug)]
struct SignedIn {
    session: SessionId,
    account: AccountRecord,
}

/// Network of the client, if known.
#[derive(Debug, Clone, Copy)]
struct CallerNetwork(Option<Network>);

/// Reason why the server did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The server cannot listen on the address.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address on which the server listens cannot be determined.
    #[error("cannot determine the address of the accounts service")]
    Address(#[source] io::Error),
}

/// Serves `router`, and the health and metrics of `accounts`, in tasks of `group`. Returns the server's
/// address.
///
/// # Errors
/// [`StartError`] with the reason. No task is started in this case.
pub async fn start(
    options: ServerOptions,
    router: Router,
    accounts: Accounts,
    group: &Group,
) -> Result<SocketAddr, StartError> {
    let listener = bind(&options.listen).await?;
    let address = listener.local_addr().map_err(StartError::Address)?;
    let limits = RequestOptions {
        body_bytes_max: BODY_BYTES_MAX,
        response_within: RESPONSE_WITHIN,
        refuse: error::refusal,
    };
    let router = add_layers(with_status(router, accounts), limits);
    serve_by(options.addresses, listener, router, group);
    info!(%address, "accounts listening");
    Ok(address)
}

/// Returns `router` with the health and the metrics of `accounts`.
fn with_status(router: Router, accounts: Accounts) -> Router {
    let (metrics, checked) = (accounts.clone(), Arc::new(SharedCheck::default()));
    router
        .route(
            paths::HEALTH,
            get(async move || checked.get(health(&accounts)).await.into_response()),
        )
        .route(paths::METRICS, get(async move || respond_with_metrics(metrics).await))
        .fallback(async || ApiError::NO_PATH)
}

/// Reports whether the accounts can be read and changed.
async fn health(accounts: &Accounts) -> (StatusCode, Json<Value>) {
    let (code, status) = match accounts.check_file().await {
        Ok(()) => (StatusCode::OK, "healthy"),
        Err(AccountsError::Full) => (StatusCode::INSUFFICIENT_STORAGE, "full"),
        Err(_) => (StatusCode::SERVICE_UNAVAILABLE, "unhealthy"),
    };
    (code, Json(json!({ "status": status })))
}

async fn respond_with_metrics(accounts: Accounts) -> Response {
    let metrics = Metrics::new("triptych_accounts_", &[database_metrics::METRICS]);
    Keys::Local(accounts).set_metrics(&metrics);
    web::metrics::respond(metrics.text()).await
}

/// Returns the router of the accounts API and the portal.
pub fn router(accounts: Accounts, options: PortalOptions) -> Router {
    let hosts = options.hosts.clone();
    let app = App { accounts, options, attempts: Arc::default() };
    // The service that this router is merged with has no paths of its own here.
    let api = check_names(api())
        .route(paths::ACCOUNTS_OTHERS, any(async || ApiError::NO_PATH))
        .method_not_allowed_fallback(async || ApiError::NO_METHOD)
        .with_state(app.clone());
    let verify = check_names(verify_api())
        .method_not_allowed_fallback(async || ApiError::NO_METHOD)
        .with_state(app.clone());
    let guarded = |router| {
        let app = app.clone();
        wrap(router, move |request, next| guard(app.clone(), request, next))
    };
    let router = hosts.wrap(guarded(api).merge(portal()), error::refusal).merge(guarded(verify));
    router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

/// Returns the router of `api`, which rejects query parameters that `api` does not describe.
fn check_names(api: OpenApiRouter<App>) -> Router<App> {
    let (router, description) = api.split_for_parts();
    let reject = |error| ApiError::Unreadable(error).into_response();
    check_query_names(router, &description, &[], reject)
}

/// Returns the paths that browsers and the portal use.
fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(sessions::sign_up))
        .routes(routes!(sessions::log_in))
        .routes(routes!(sessions::log_out))
        .routes(routes!(sessions::me, sessions::delete_me))
        .routes(routes!(sessions::change_password))
        .routes(routes!(sessions::list, sessions::end_others))
        .routes(routes!(sessions::end))
        .routes(routes!(keys::list, keys::create))
        .routes(routes!(keys::rename, keys::revoke))
        .routes(routes!(keys::renew))
        .routes(routes!(openapi::get))
        .routes(routes!(openapi::docs))
}

/// Returns the router of the path at which other services verify keys. Its requests can have any host
/// name, since they must contain the operator's token, which no browser has.
fn verify_api() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(keys::verify))
}

/// Rejects changes from pages of other sites and disables caching of responses.
async fn guard(app: App, mut request: Request, next: Next) -> Response {
    let is_change = !matches!(*request.method(), Method::GET | Method::HEAD);
    let address = app.options.addresses.caller(request.headers(), request.extensions());
    request.extensions_mut().insert(CallerNetwork(address.map(Network::from_address)));
    let mut response = if is_change && origin::is_foreign(request.headers()) {
        ApiError::FOREIGN.into_response()
    } else {
        next.run(request).await
    };
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl App {
    async fn sign_up(&self) -> Result<SignUp, AccountsError> {
        match self.options.sign_up {
            Some(sign_up) => Ok(sign_up),
            None => self.accounts.sign_up().await,
        }
    }

    /// Returns the session of a request's cookie.
    async fn find_session(&self, headers: &HeaderMap) -> Result<Option<SignedIn>, ApiError> {
        let Some(token) = cookies::get(headers, COOKIE) else { return Ok(None) };
        let found = self.accounts.session(&SessionToken::from_cookie(token)).await?;
        Ok(found.map(|(session, account)| SignedIn { session, account }))
    }
}

/// Returns the channel over which the browser sent a request: TLS if the browser or a proxy indicates
/// it, otherwise clear text.
fn channel_of(headers: &HeaderMap) -> Channel {
    match headers.get("x-forwarded-proto").map(HeaderValue::as_bytes) {
        Some(b"https") => Channel::Tls,
        _ => origin::channel(headers),
    }
}

impl FromRequestParts<App> for SignedIn {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self, ApiError> {
        let signed_in = app.find_session(&parts.headers).await?.ok_or(ApiError::NOT_LOGGED_IN)?;
        // Limits the rate of changes by one account, so that no account can fill the store.
        if parts.method != Method::GET {
            app.attempts.try_change(signed_in.account.id)?;
        }
        Ok(signed_in)
    }
}

impl FromRequestParts<App> for CallerNetwork {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _app: &App) -> Result<Self, ApiError> {
        Ok(parts.extensions.get::<Self>().copied().unwrap_or(Self(None)))
    }
}

impl OperatorToken {
    /// Creates a token from `text`.
    ///
    /// # Errors
    /// [`InputError::OperatorToken`] if `text` is too short.
    pub fn new(text: &str) -> Result<Self, InputError> {
        let text = text.trim();
        if text.chars().count() < TOKEN_CHARS_MIN {
            return Err(InputError::OperatorToken);
        }
        Ok(Self(Sha256::digest(text.as_bytes()).into()))
    }

    /// Returns true if `text` is the token. Compares hashes, so that the time of the comparison reveals
    /// nothing about the token.
    fn is(&self, text: &str) -> bool {
        let shown: [u8; 32] = Sha256::digest(text.trim().as_bytes()).into();
        self.0 == shown
    }
}

/// Files of the portal, each with path, media type and content.
const PORTAL_FILES: [(&str, &str, &str); 3] = [
    (paths::PORTAL, "text/html; charset=utf-8", include_str!("../../assets/portal/index.html")),
    (paths::PORTAL_STYLE, "text/css; charset=utf-8", include_str!("../../assets/portal/style.css")),
    (
        paths::PORTAL_SCRIPT,
        "text/javascript; charset=utf-8",
        include_str!("../../assets/portal/script.js"),
    ),
];

/// Response headers of the portal. The headers forbid content from other sites, frames, content type
/// sniffing and referrers. The browser revalidates the page on each load, since an upgrade of the
/// program can change it.
const PORTAL_HEADERS: [(HeaderName, HeaderValue); 5] = [
    (
        HeaderName::from_static("content-security-policy"),
        HeaderValue::from_static(
            "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; \
             img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
        ),
    ),
    (HeaderName::from_static("x-content-type-options"), HeaderValue::from_static("nosniff")),
    (HeaderName::from_static("x-frame-options"), HeaderValue::from_static("DENY")),
    (HeaderName::from_static("referrer-policy"), HeaderValue::from_static("no-referrer")),
    (HeaderName::from_static("cache-control"), HeaderValue::from_static("no-cache")),
];

/// Returns the router of `/portal`, the page on which people sign up and manage their keys.
fn portal() -> Router {
    let add_file = |router: Router, (path, media_type, content): (&str, &'static str, _)| {
        let file: &'static str = content;
        router.route(path, get(async move || ([(CONTENT_TYPE, media_type)], file)))
    };
    wrap(PORTAL_FILES.into_iter().fold(Router::new(), add_file), set_portal_headers)
}

async fn set_portal_headers(request: Request, next: Next) -> Response {
    let mut response = next.run(request).await;
    response.headers_mut().extend(PORTAL_HEADERS);
    response
}

#[cfg(test)]
mod tests;
