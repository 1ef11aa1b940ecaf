//! `POST /api/accounts/keys/{id}/renew`: replaces the secret of a key, which keeps what it owns.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::accounts::{KeyWithSecret, Secret};

use super::{App, SignedIn, error::ApiError, key::key_id};
use crate::Scope;

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
