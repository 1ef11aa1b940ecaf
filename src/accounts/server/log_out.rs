//! `POST /api/accounts/log_out`: ends the session, if there is one.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, header::SET_COOKIE},
    response::{IntoResponse as _, Response},
};
use web::cookies;
use wire::{accounts::DoneBody, paths};

use super::{App, COOKIE, channel_of, error::ApiError};

/// Ends the session, if there is one.
#[utoipa::path(post, path = paths::ACCOUNTS_LOG_OUT, operation_id = "log_out", tag = "accounts",
    security(()), responses((status = 200, description = "How many ended", body = DoneBody)))]
pub(super) async fn post(State(app): State<App>, headers: HeaderMap) -> Result<Response, ApiError> {
    let is_ended = match app.find_session(&headers).await? {
        Some(who) => app.accounts.end_session(who.account.id, who.session).await?,
        None => false,
    };
    let mut response = Json(DoneBody { n_done: is_ended.into() }).into_response();
    let cookie = cookies::clear(COOKIE, channel_of(&headers));
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}
