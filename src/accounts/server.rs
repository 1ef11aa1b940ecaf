//! Accounts over HTTP, and the page for people.
//!
//! A cookie carries the session. A request that another site's page makes is refused, and
//! every change wants a body that only this page's script, or a program, can send.

mod attempts;
mod error;
mod keys;
pub mod openapi;
mod portal;
mod sessions;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use axum::{
    Router,
    extract::{DefaultBodyLimit, FromRequestParts, Request},
    http::{HeaderMap, HeaderValue, Method, header::CACHE_CONTROL, request::Parts},
    response::{IntoResponse as _, Response},
};
use sha2::{Digest as _, Sha256};
use task::group::Group;
use tracing::info;
use utoipa_axum::{router::OpenApiRouter, routes};
use web::{
    address::{AddressSource, Network},
    cookies::{self, Channel},
    host_names::HostNames,
    middleware::{Next, RequestOptions, add_layers, wrap},
    origin,
    query_names::check_query_names,
    serve::{BindError, bind, serve_by},
};

use self::{attempts::Attempts, error::ApiError};
use crate::{AccountRecord, Accounts, AccountsError, SessionId, SessionToken, SignUp};

/// The name of the cookie that says who is logged in.
pub const COOKIE: &str = "triptych_session";

/// The longest body taken: names and passwords.
const BODY_BYTES_MAX: usize = 16 * 1024;

/// How long a handler may take: a password waits some seconds for its turn.
const ANSWER_WITHIN: Duration = Duration::from_secs(20);

/// The shortest token an operator may choose.
const TOKEN_CHARS_MIN: usize = 16;

/// How accounts are served.
#[derive(Debug, Clone)]
pub struct PortalOptions {
    /// Whether anyone may sign up; none for what the accounts file says.
    pub sign_up: Option<SignUp>,
    /// Whose word on a caller's address is taken.
    pub addresses: AddressSource,
    /// What services of other machines have to show that ask about keys; without it none may.
    pub token: Option<OperatorToken>,
    /// The names under which the page is reached.
    pub hosts: HostNames,
}

/// Where accounts are served alone.
#[derive(Debug, Clone)]
pub struct ServerOptions {
    /// Where to listen, such as `127.0.0.1:0` or `:8083`.
    pub listen: String,
    /// Whose word on a caller's address is taken.
    pub addresses: AddressSource,
}

/// What a service of another machine shows to ask about keys. Its `Debug` shows nothing.
#[derive(derive_more::Debug, Clone)]
#[debug("OperatorToken(…)")]
pub struct OperatorToken([u8; 32]);

/// A text is too short to be a token. It does not say which text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("take a token: at least {TOKEN_CHARS_MIN} characters")]
pub struct OperatorTokenError;

/// What every handler has.
#[derive(Debug, Clone)]
struct App {
    accounts: Accounts,
    options: PortalOptions,
    attempts: Arc<Attempts>,
}

/// Who is logged in, and since which log-in.
#[derive(Debug)]
struct SignedIn {
    session: SessionId,
    account: AccountRecord,
}

/// Where a request comes from, as far as that is known.
#[derive(Debug, Clone, Copy)]
struct CallerNetwork(Option<Network>);

/// Why accounts are not served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// The address is not to be had.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The address is not known.
    #[error("learn the address of accounts")]
    Address(#[source] io::Error),
}

/// Serves `router` alone, in tasks of `group` until that stops, and returns where it listens.
///
/// # Errors
/// [`StartError`]; then nothing is left running.
pub async fn start(
    options: ServerOptions,
    router: Router,
    group: &Group,
) -> Result<SocketAddr, StartError> {
    let listener = bind(&options.listen).await?;
    let address = listener.local_addr().map_err(StartError::Address)?;
    let limits = RequestOptions {
        body_bytes_max: BODY_BYTES_MAX,
        answer_within: ANSWER_WITHIN,
        refuse: error::refusal,
    };
    let router = add_layers(router.fallback(async || ApiError::NO_PATH), limits);
    serve_by(options.addresses, listener, router, group);
    info!(%address, "accounts listening");
    Ok(address)
}

/// Every path of accounts, and the page: to be served beside others, or alone.
pub fn router(accounts: Accounts, options: PortalOptions) -> Router {
    let hosts = options.hosts.clone();
    let app = App { accounts, options, attempts: Arc::default() };
    let api = check_names(api())
        .method_not_allowed_fallback(async || ApiError::NO_METHOD)
        .with_state(app.clone());
    let verify = check_names(verify_api())
        .method_not_allowed_fallback(async || ApiError::NO_METHOD)
        .with_state(app.clone());
    let guarded = |router| {
        let app = app.clone();
        wrap(router, move |request, next| guard(app.clone(), request, next))
    };
    let router =
        hosts.wrap(guarded(api).merge(portal::router()), error::refusal).merge(guarded(verify));
    router.layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
}

/// Serves `api`, and rejects query parameters that it does not describe.
fn check_names(api: OpenApiRouter<App>) -> Router<App> {
    let (router, description) = api.split_for_parts();
    let reject = |error| ApiError::Unreadable(error).into_response();
    check_query_names(router, &description, &[], reject)
}

/// The paths for people and their pages.
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

/// The path for services. It wants the operator's token, which no page of another site has.
fn verify_api() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(keys::verify))
}

/// Refuses what another site's page sends, and has no answer kept anywhere.
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

    /// Who is logged in, as the request's cookie tells.
    async fn find_session(&self, headers: &HeaderMap) -> Result<Option<SignedIn>, ApiError> {
        let Some(token) = cookies::get(headers, COOKIE) else { return Ok(None) };
        let found = self.accounts.session(&SessionToken::from_cookie(token)).await?;
        Ok(found.map(|(session, account)| SignedIn { session, account }))
    }
}

/// How the page came: in clear, unless its browser or a proxy says that it was over TLS.
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
        // Changes are limited for each account, so that none fills the file.
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
    /// Takes `text` for the token.
    ///
    /// # Errors
    /// [`OperatorTokenError`] if it is too short.
    pub fn new(text: &str) -> Result<Self, OperatorTokenError> {
        let text = text.trim();
        if text.chars().count() < TOKEN_CHARS_MIN {
            return Err(OperatorTokenError);
        }
        Ok(Self(Sha256::digest(text.as_bytes()).into()))
    }

    /// Whether `text` is the token. What is compared are hashes, so that the time it takes tells
    /// nothing of the token.
    fn is(&self, text: &str) -> bool {
        let shown: [u8; 32] = Sha256::digest(text.trim().as_bytes()).into();
        self.0 == shown
    }
}

#[cfg(test)]
mod tests;
