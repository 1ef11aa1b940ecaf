//! `POST /api/accounts/password`: changes the password, and ends every other session.

use axum::{
    Json,
    extract::{Request, State},
};
use wire::{
    accounts::{DoneBody, PasswordChange},
    paths,
};

use super::{App, CallerNetwork, SignedIn, error::ApiError};
use crate::{AccountName, AccountsError, Password};

/// Changes the password, and ends every other session.
#[utoipa::path(post, path = paths::ACCOUNTS_PASSWORD, operation_id = "change_password",
    tag = "accounts", request_body = PasswordChange, security(("session" = [])),
    responses((status = 200, description = "How many sessions it ended", body = DoneBody)))]
pub(super) async fn post(
    State(app): State<App>,
    who: SignedIn,
    CallerNetwork(network): CallerNetwork,
    request: Request,
) -> Result<Json<DoneBody>, ApiError> {
    let body: PasswordChange = web::extract::json(request).await?;
    let name: AccountName = who.account.name.parse()?;
    let new = Password::choose(&name, &body.new.0)?;
    let current = body.current.0.parse().map_err(|_| ApiError::CurrentPassword)?;
    app.attempts.try_password(&name, network)?;
    let changed = app.accounts.change_password(who.account.id, current, new, who.session).await;
    let n_ended = changed.map_err(|error| match error {
        AccountsError::WrongPassword => ApiError::CurrentPassword,
        error => error.into(),
    })?;
    app.attempts.clear_password(&name, network);
    Ok(Json(DoneBody { n_done: n_ended }))
}
