//! `POST /api/accounts/keys/{id}/renew`: replaces the secret of a key, which keeps what it owns.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::{
    accounts::{KeyWithSecret, Secret},
    paths,
};

use super::{App, SignedIn, error::ApiError, key::key_id};
use crate::Scope;

/// Gives a key a new secret, shown this once. What the key owns stays its own.
#[utoipa::path(post, path = paths::ACCOUNTS_KEY_RENEW, operation_id = "renew_key", tag = "keys",
    params(("id" = i64, Path, minimum = 1, description = "Its number.")),
    security(("session" = [])),
    responses((status = 200, description = "The key and its secret", body = KeyWithSecret)))]
pub(super) async fn post(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<KeyWithSecret>, ApiError> {
    let (id, scope) = (key_id(&id)?, Scope::Of(who.account.id));
    let secret = app.accounts.renew(scope, id).await?.ok_or(ApiError::NoKey)?;
    let key = app.accounts.key(scope, id).await?.ok_or(ApiError::NoKey)?.body();
    Ok(Json(KeyWithSecret { key, api_key: Secret::from(&secret) }))
}
