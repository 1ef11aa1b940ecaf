//! `POST /api/accounts/log_in`: begins a session.

use axum::{
    Json,
    extract::{Request, State},
    http::header::SET_COOKIE,
    response::{IntoResponse as _, Response},
};
use wire::{
    accounts::{AccountBody, Credentials},
    paths,
};

use super::{App, CallerNetwork, error::ApiError};
use crate::{AccountName, AccountsError, Password};

/// Begins a session.
#[utoipa::path(post, path = paths::ACCOUNTS_LOG_IN, operation_id = "log_in", tag = "accounts",
    request_body = Credentials, security(()),
    responses((status = 200, description = "The account", body = AccountBody)))]
pub(super) async fn post(
    State(app): State<App>,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let body: Credentials = web::extract::json(request).await?;
    // What cannot be a name or a password cannot be the right one.
    let (Ok(name), Ok(password)) =
        (body.name.parse::<AccountName>(), body.password.0.parse::<Password>())
    else {
        return Err(AccountsError::WrongPassword.into());
    };
    app.attempts.try_password(&name, network)?;
    let authenticated = app.accounts.authenticate(name.clone(), password).await?;
    app.attempts.clear_password(&name, network);
    let (begun, cookie) = app.log_in(authenticated, &headers).await?;
    let mut response = Json(begun.account.body()).into_response();
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}
