//! `/api/accounts/me`: the account that is logged in; deletes it.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, header::SET_COOKIE},
    response::{IntoResponse as _, Response},
};
use web::cookies;
use wire::{
    accounts::{DoneBody, MeBody, Removal},
    paths,
};

use super::{App, COOKIE, CallerNetwork, SignedIn, channel_of, error::ApiError};
use crate::AccountsError;

/// Who is logged in, and whether anyone may sign up.
#[utoipa::path(get, path = paths::ACCOUNTS_ME, operation_id = "me", tag = "accounts", security(()),
    responses((status = 200, description = "The account, or null", body = MeBody)))]
pub(super) async fn get(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Json<MeBody>, ApiError> {
    let account = app.find_session(&headers).await?.map(|who| who.account.body());
    let sign_up = app.sign_up().await?.to_string();
    Ok(Json(MeBody { account, sign_up }))
}

/// Deletes the account, and revokes its keys.
#[utoipa::path(delete, path = paths::ACCOUNTS_ME, operation_id = "delete_me", tag = "accounts",
    request_body = Removal, security(("session" = [])),
    responses((status = 200, description = "How many keys it revoked", body = DoneBody)))]
pub(super) async fn delete(
    State(app): State<App>,
    who: SignedIn,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<Response, ApiError> {
    let headers = request.headers().clone();
    let body: Removal = web::extract::json(request).await?;
    let password = body.password.0.parse().map_err(|_| ApiError::CurrentPassword)?;
    let name = who.account.name.parse()?;
    app.attempts.try_password(&name, network)?;
    let deleted = app.accounts.delete_account(who.account.id, password).await;
    let n_done = deleted.map_err(|error| match error {
        AccountsError::WrongPassword => ApiError::CurrentPassword,
        error => error.into(),
    })?;
    let mut response = Json(DoneBody { n_done }).into_response();
    let cookie = cookies::clear(COOKIE, channel_of(&headers));
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}
