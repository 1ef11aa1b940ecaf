//! `/api/accounts/keys`: lists the account's keys; creates one, whose secret is shown once.

use axum::{
    Json,
    extract::{Request, State},
};
use task::causes::chain;
use tracing::warn;
use web::response::Created;
use wire::accounts::{KeyName, KeyWithSecret, KeysBody, Secret};

use super::{App, SignedIn, error::ApiError};
use crate::Scope;

pub(super) async fn get(State(app): State<App>, who: SignedIn) -> Result<Json<KeysBody>, ApiError> {
    // So that `last_used_at` is current. Where that cannot be written, the stored time is shown.
    if let Err(error) = app.accounts.run_maintenance().await {
        let cause = chain(&error);
        warn!(cause, "the accounts file did not take when keys were last used");
    }
    let keys = app.accounts.list_keys(Scope::Of(who.account.id)).await?;
    Ok(Json(KeysBody { keys: keys.iter().map(crate::KeyRecord::body).collect() }))
}

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
