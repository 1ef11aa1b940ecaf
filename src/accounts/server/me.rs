//! `/api/accounts/me`: the account that is logged in; deletes it.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, header::SET_COOKIE},
    response::{IntoResponse as _, Response},
};
use web::cookies;
use wire::accounts::{DoneBody, MeBody, Removal};

use super::{App, COOKIE, CallerNetwork, SignedIn, channel_of, error::ApiError};
use crate::AccountsError;

pub(super) async fn get(
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Json<MeBody>, ApiError> {
    let account = app.find_session(&headers).await?.map(|who| who.account.body());
    let sign_up = app.sign_up().await?.as_str().to_owned();
    Ok(Json(MeBody { account, sign_up }))
}

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
