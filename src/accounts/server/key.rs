//! `/api/accounts/keys/{id}`: renames or revokes a key.

use axum::{
    Json,
    extract::{Path, Request, State},
};
use model::key::KeyId;
use wire::{
    accounts::{DoneBody, KeyBody, KeyName},
    paths,
};

use super::{App, SignedIn, error::ApiError};
use crate::Scope;

/// Gives a key another name.
#[utoipa::path(patch, path = paths::ACCOUNTS_KEY, operation_id = "rename_key", tag = "keys",
    params(("id" = i64, Path, minimum = 1, description = "Its number.")), request_body = KeyName,
    security(("session" = [])), responses((status = 200, description = "The key", body = KeyBody)))]
pub(super) async fn patch(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<KeyBody>, ApiError> {
    let (id, scope) = (key_id(&id)?, Scope::Of(who.account.id));
    let body: KeyName = web::extract::json(request).await?;
    if !app.accounts.rename_key(scope, id, &body.name).await? {
        return Err(ApiError::NoKey);
    }
    let record = app.accounts.key(scope, id).await?;
    Ok(Json(record.ok_or(ApiError::NoKey)?.body()))
}

/// Revokes a key for good.
#[utoipa::path(delete, path = paths::ACCOUNTS_KEY, operation_id = "revoke_key", tag = "keys",
    params(("id" = i64, Path, minimum = 1, description = "Its number.")),
    security(("session" = [])),
    responses((status = 200, description = "It is revoked", body = DoneBody)))]
pub(super) async fn delete(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<DoneBody>, ApiError> {
    if app.accounts.revoke_key(Scope::Of(who.account.id), key_id(&id)?).await? {
        Ok(Json(DoneBody { n_done: 1 }))
    } else {
        Err(ApiError::NoKey)
    }
}

/// The key's number in a path.
pub(super) fn key_id(text: &str) -> Result<KeyId, ApiError> {
    text.parse().map(KeyId::new).map_err(|_| ApiError::NoKey)
}
