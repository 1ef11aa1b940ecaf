//! `POST /api/accounts/sign_up`: creates an account, and logs it in.

use axum::{
    extract::{Request, State},
    http::header::SET_COOKIE,
    response::{IntoResponse as _, Response},
};
use web::response::Created;
use wire::{
    accounts::{AccountBody, Credentials},
    paths,
};

use super::{App, CallerNetwork, error::ApiError};
use crate::{AccountName, AccountsError, Password, SignUp};

/// Makes an account, and logs it in.
#[utoipa::path(post, path = paths::ACCOUNTS_SIGN_UP, operation_id = "sign_up", tag = "accounts",
    request_body = Credentials, security(()),
    responses((status = 201, description = "The account", body = AccountBody)))]
pub(super) async fn post(
    State(app): State<App>,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<Response, ApiError> {
    if app.sign_up().await? == SignUp::Closed {
        return Err(AccountsError::SignUpClosed.into());
    }
    let headers = request.headers().clone();
    let body: Credentials = web::extract::json(request).await?;
    let name: AccountName = body.name.parse()?;
    let password = Password::choose(&name, &body.password.0)?;
    app.attempts.try_sign_up(network)?;
    let authenticated = app.accounts.register(name.clone(), password).await?;
    app.attempts.clear_password(&name, network);
    let (begun, cookie) = app.log_in(authenticated, &headers).await?;
    let mut response = Created(begun.account.body()).into_response();
    response.headers_mut().extend(cookie.map(|cookie| (SET_COOKIE, cookie)));
    Ok(response)
}
