//! Requests that sign up, log in and log out, change passwords, and manage sessions.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::header::SET_COOKIE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::IntoResponse;
use web::cookies;
use web::response::Created;
use wire::accounts::{
    AccountBody, Credentials, DoneBody, MeBody, PasswordChange, Removal, SessionBody, SessionsBody,
};
use wire::paths;

use super::error::ApiError;
use super::{App, COOKIE, CallerNetwork, SignedIn, channel_of};
use crate::{
    AccountName, AccountsError, AuthenticatedAccount, Password, SESSION_LIFETIME, SessionId,
    SessionRecord, SignUp,
};

/// Response header that sets or clears the session cookie, or `None` to leave it unchanged.
type CookieHeader = Option<[(HeaderName, HeaderValue); 1]>;

/// Creates an account and starts a session.
#[utoipa::path(post, path = paths::ACCOUNTS_SIGN_UP, operation_id = "sign_up", tag = "accounts",
    request_body = Credentials, security(()),
    responses((status = 201, description = "The account", body = AccountBody)))]
pub(super) async fn sign_up(
    State(app): State<App>,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    if app.sign_up().await? == SignUp::Closed {
        return Err(AccountsError::SignUpClosed.into());
    }
    let headers = request.headers().clone();
    let body: Credentials = web::extract::declared_json(request).await?;
    let name: AccountName = body.name.parse()?;
    let password = Password::choose(&name, &body.password.0)?;
    app.attempts.try_sign_up(network)?;
    let authenticated = app.accounts.register(name.clone(), password).await?;
    app.attempts.clear_password(&name, network);
    let (cookie, account) = begin_session(&app, authenticated, &headers).await?;
    Ok((cookie, Created(account)))
}

/// Logs in to an account.
#[utoipa::path(post, path = paths::ACCOUNTS_LOG_IN, operation_id = "log_in", tag = "accounts",
    request_body = Credentials, security(()),
    responses((status = 200, description = "The account", body = AccountBody)))]
pub(super) async fn log_in(
    State(app): State<App>,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    let headers = request.headers().clone();
    let body: Credentials = web::extract::declared_json(request).await?;
    // No account can have an invalid name or password.
    let (Ok(name), Ok(password)) =
        (body.name.parse::<AccountName>(), body.password.0.parse::<Password>())
    else {
        return Err(AccountsError::WrongPassword.into());
    };
    app.attempts.try_password(&name, network)?;
    let authenticated = app.accounts.authenticate(name.clone(), password).await?;
    app.attempts.clear_password(&name, network);
    let (cookie, account) = begin_session(&app, authenticated, &headers).await?;
    Ok((cookie, Json(account)))
}

/// Ends the current session, if there is one.
#[utoipa::path(post, path = paths::ACCOUNTS_LOG_OUT, operation_id = "log_out", tag = "accounts",
    security(()), responses((status = 200, description = "Number of sessions ended", body = DoneBody)))]
pub(super) async fn log_out(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<impl IntoResponse, ApiError> {
    let is_ended = match app.find_session(&headers).await? {
        Some(who) => app.accounts.end_session(who.account.id, who.session).await?,
        None => false,
    };
    Ok((clear_cookie(&headers), Json(DoneBody { n_done: is_ended.into() })))
}

/// Returns the account that is logged in and the setting for sign-up.
#[utoipa::path(get, path = paths::ACCOUNTS_ME, operation_id = "me", tag = "accounts", security(()),
    responses((status = 200, description = "The account, or null", body = MeBody)))]
pub(super) async fn me(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Json<MeBody>, ApiError> {
    let account = app.find_session(&headers).await?.map(|who| who.account.body());
    let sign_up = app.sign_up().await?.to_string();
    Ok(Json(MeBody { account, sign_up }))
}

/// Deletes the account and revokes its keys.
#[utoipa::path(delete, path = paths::ACCOUNTS_ME, operation_id = "delete_me", tag = "accounts",
    request_body = Removal, security(("session" = [])),
    responses((status = 200, description = "Number of keys revoked", body = DoneBody)))]
pub(super) async fn delete_me(
    State(app): State<App>,
    who: SignedIn,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<impl IntoResponse, ApiError> {
    let headers = request.headers().clone();
    let body: Removal = web::extract::declared_json(request).await?;
    let password = body.password.0.parse().map_err(|_| ApiError::CURRENT_PASSWORD)?;
    app.attempts.try_password(&who.account.name.parse()?, network)?;
    let deleted = app.accounts.delete_account(who.account.id, password).await;
    let n_done = deleted.map_err(ApiError::of_current_password)?;
    Ok((clear_cookie(&headers), Json(DoneBody { n_done })))
}

/// Changes the password and ends all other sessions.
#[utoipa::path(post, path = paths::ACCOUNTS_PASSWORD, operation_id = "change_password",
    tag = "accounts", request_body = PasswordChange, security(("session" = [])),
    responses((status = 200, description = "Number of sessions ended", body = DoneBody)))]
pub(super) async fn change_password(
    State(app): State<App>,
    who: SignedIn,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<Json<DoneBody>, ApiError> {
    let body: PasswordChange = web::extract::declared_json(request).await?;
    let name: AccountName = who.account.name.parse()?;
    let new = Password::choose(&name, &body.new.0)?;
    let current = body.current.0.parse().map_err(|_| ApiError::CURRENT_PASSWORD)?;
    app.attempts.try_password(&name, network)?;
    let changed = app.accounts.change_password(who.account.id, current, new, who.session).await;
    let n_done = changed.map_err(ApiError::of_current_password)?;
    app.attempts.clear_password(&name, network);
    Ok(Json(DoneBody { n_done }))
}

/// Lists the account's sessions.
#[utoipa::path(get, path = paths::ACCOUNTS_SESSIONS, operation_id = "sessions", tag = "accounts",
    security(("session" = [])),
    responses((status = 200, description = "Sessions, newest first", body = SessionsBody)))]
pub(super) async fn list(
    State(app): State<App>,
    who: SignedIn,
) -> Result<Json<SessionsBody>, ApiError> {
    let body = |session: SessionRecord| SessionBody {
        id: session.id.get(),
        created_at: session.created_at.to_string(),
        expires_at: session.expires_at.to_string(),
        client: session.client,
        is_current: session.id == who.session,
    };
    let sessions = app.accounts.sessions(who.account.id).await?;
    Ok(Json(SessionsBody { sessions: sessions.into_iter().map(body).collect() }))
}

/// Ends all sessions of the account except the current one.
#[utoipa::path(delete, path = paths::ACCOUNTS_SESSIONS, operation_id = "end_other_sessions",
    tag = "accounts", security(("session" = [])),
    responses((status = 200, description = "Number of sessions ended", body = DoneBody)))]
pub(super) async fn end_others(
    State(app): State<App>,
    who: SignedIn,
) -> Result<Json<DoneBody>, ApiError> {
    let n_done = app.accounts.end_sessions_but(who.account.id, who.session).await?;
    Ok(Json(DoneBody { n_done }))
}

/// Ends one session.
#[utoipa::path(delete, path = paths::ACCOUNTS_SESSION, operation_id = "end_session",
    tag = "accounts", params(("id" = i64, Path, minimum = 1, description = "Id of the session.")),
    security(("session" = [])),
    responses((status = 200, description = "The session has ended", body = DoneBody)))]
pub(super) async fn end(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<DoneBody>, ApiError> {
    let id = SessionId::new(id.parse().map_err(|_| ApiError::NO_SESSION)?);
    if app.accounts.end_session(who.account.id, id).await? {
        Ok(Json(DoneBody { n_done: 1 }))
    } else {
        Err(ApiError::NO_SESSION)
    }
}

/// Starts a session for the browser that sent `headers`.
async fn begin_session(
    app: &App,
    authenticated: AuthenticatedAccount,
    headers: &HeaderMap,
) -> Result<(CookieHeader, AccountBody), ApiError> {
    let client = headers.get("user-agent").and_then(|value| value.to_str().ok());
    let begun = app.accounts.begin_session(authenticated, client.unwrap_or_default()).await?;
    let cookie = cookies::set(COOKIE, begun.token.reveal(), SESSION_LIFETIME, channel_of(headers));
    Ok((cookie.map(|cookie| [(SET_COOKIE, cookie)]), begun.account.body()))
}

fn clear_cookie(headers: &HeaderMap) -> CookieHeader {
    cookies::clear(COOKIE, channel_of(headers)).map(|cookie| [(SET_COOKIE, cookie)])
}
