//! `/api/accounts/keys`: lists the account's keys; creates one, whose secret is shown once.

use axum::{
    Json,
    extract::{Request, State},
};
use task::causes::chain;
use tracing::warn;
use web::response::Created;
use wire::{
    accounts::{KeyName, KeyWithSecret, KeysBody, Secret},
    paths,
};

use super::{App, SignedIn, error::ApiError};
use crate::Scope;

/// Lists the account's keys.
#[utoipa::path(get, path = paths::ACCOUNTS_KEYS, operation_id = "keys", tag = "keys",
    security(("session" = [])),
    responses((status = 200, description = "The newest first", body = KeysBody)))]
pub(super) async fn get(State(app): State<App>, who: SignedIn) -> Result<Json<KeysBody>, ApiError> {
    // So that `last_used_at` is current. Where that cannot be written, the stored time is shown.
    if let Err(error) = app.accounts.run_maintenance().await {
        let cause = chain(&error);
        warn!(cause, "the accounts file did not take when keys were last used");
    }
    let keys = app.accounts.list_keys(Scope::Of(who.account.id)).await?;
    Ok(Json(KeysBody { keys: keys.iter().map(crate::KeyRecord::body).collect() }))
}

/// Creates a key, whose secret is shown this once.
#[utoipa::path(post, path = paths::ACCOUNTS_KEYS, operation_id = "create_key", tag = "keys",
    request_body = KeyName, security(("session" = [])),
    responses((status = 201, description = "The key and its secret", body = KeyWithSecret)))]
pub(super) async fn post(
    State(app): State<App>,
    who: SignedIn,
    request: Request,
) -> Result<Created<KeyWithSecret>, ApiError> {
    let body: KeyName = web::extract::json(request).await?;
    let (id, secret) = app.accounts.create_account_key(who.account.id, &body.name).await?;
    let record = app.accounts.key(Scope::Of(who.account.id), id).await?;
    let key = record.ok_or(ApiError::NoKey)?.body();
    Ok(Created(KeyWithSecret { key, api_key: Secret::from(&secret) }))
}
