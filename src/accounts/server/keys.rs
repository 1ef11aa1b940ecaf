//! Requests about the API keys of an account, and verification of keys for other services.

use axum::Json;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use model::key::KeyId;
use web::response::Created;
use wire::accounts::{
    DoneBody, KeyBody, KeyName, KeyWithSecret, KeysBody, Secret, VerifiedBody, VerifyRequest,
    VerifyResponse,
};
use wire::paths;

use super::error::ApiError;
use super::{App, CallerNetwork, SignedIn};
use crate::{KeyRecord, Scope};

/// Lists the account's keys.
#[utoipa::path(get, path = paths::ACCOUNTS_KEYS, operation_id = "keys", tag = "keys",
    security(("session" = [])),
    responses((status = 200, description = "The newest first", body = KeysBody)))]
pub(super) async fn list(
    State(app): State<App>,
    who: SignedIn,
) -> Result<Json<KeysBody>, ApiError> {
    let keys = app.accounts.list_keys(Scope::Of(who.account.id)).await?;
    Ok(Json(KeysBody { keys: keys.iter().map(KeyRecord::body).collect() }))
}

/// Creates a key. Its secret is returned only once.
#[utoipa::path(post, path = paths::ACCOUNTS_KEYS, operation_id = "create_key", tag = "keys",
    request_body = KeyName, security(("session" = [])),
    responses((status = 201, description = "The key and its secret", body = KeyWithSecret)))]
pub(super) async fn create(
    State(app): State<App>,
    who: SignedIn,
    request: Request,
) -> Result<Created<KeyWithSecret>, ApiError> {
    let body: KeyName = web::extract::declared_json(request).await?;
    let (id, secret) = app.accounts.create_account_key(who.account.id, &body.name).await?;
    let key = find(&app, &who, id).await?;
    Ok(Created(KeyWithSecret { key, api_key: Secret::from(&secret) }))
}

/// Renames a key.
#[utoipa::path(patch, path = paths::ACCOUNTS_KEY, operation_id = "rename_key", tag = "keys",
    params(("id" = i64, Path, minimum = 1, description = "Id of the key.")), request_body = KeyName,
    security(("session" = [])), responses((status = 200, description = "The key", body = KeyBody)))]
pub(super) async fn rename(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
    request: Request,
) -> Result<Json<KeyBody>, ApiError> {
    let id = parse_id(&id)?;
    let body: KeyName = web::extract::declared_json(request).await?;
    if !app.accounts.rename_key(Scope::Of(who.account.id), id, &body.name).await? {
        return Err(ApiError::NO_KEY);
    }
    find(&app, &who, id).await.map(Json)
}

/// Revokes a key permanently.
#[utoipa::path(delete, path = paths::ACCOUNTS_KEY, operation_id = "revoke_key", tag = "keys",
    params(("id" = i64, Path, minimum = 1, description = "Id of the key.")),
    security(("session" = [])),
    responses((status = 200, description = "The key is revoked", body = DoneBody)))]
pub(super) async fn revoke(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<DoneBody>, ApiError> {
    if app.accounts.revoke_key(Scope::Of(who.account.id), parse_id(&id)?).await? {
        Ok(Json(DoneBody { n_done: 1 }))
    } else {
        Err(ApiError::NO_KEY)
    }
}

/// Replaces the secret of a key. The new secret is returned only once. The key keeps its id and
/// everything that it owns.
#[utoipa::path(post, path = paths::ACCOUNTS_KEY_RENEW, operation_id = "renew_key", tag = "keys",
    params(("id" = i64, Path, minimum = 1, description = "Id of the key.")),
    security(("session" = [])),
    responses((status = 200, description = "The key and its secret", body = KeyWithSecret)))]
pub(super) async fn renew(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<KeyWithSecret>, ApiError> {
    let id = parse_id(&id)?;
    let secret = app.accounts.renew(Scope::Of(who.account.id), id).await?;
    let api_key = Secret::from(&secret.ok_or(ApiError::NO_KEY)?);
    Ok(Json(KeyWithSecret { key: find(&app, &who, id).await?, api_key }))
}

/// Returns a key by its hash or its id, or null if the key is not valid. Requires the operator's token:
/// `Authorization: Bearer …`.
#[utoipa::path(post, path = paths::ACCOUNTS_VERIFY, operation_id = "verify_key", tag = "services",
    request_body = VerifyRequest, security(("operator" = [])),
    responses((status = 200, description = "The key, or null", body = VerifyResponse)))]
pub(super) async fn verify(
    State(app): State<App>,
    CallerNetwork(network): CallerNetwork,
    headers: HeaderMap,
    request: Request,
) -> Result<Json<VerifyResponse>, ApiError> {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default();
    if !app.options.token.as_ref().is_some_and(|token| token.is(shown)) {
        app.attempts.try_token(network)?;
        return Err(ApiError::NO_TOKEN);
    }
    let body: VerifyRequest = web::extract::json(request).await?;
    let key = match (body.key_hash, body.id) {
        (Some(key_hash), None) => app.accounts.check(key_hash.parse()?).await?,
        (None, Some(id)) => app.accounts.find_key(KeyId::new(id)).await?,
        _ => return Err(ApiError::HASH_OR_ID),
    };
    Ok(Json(VerifyResponse { key: key.map(VerifiedBody::from) }))
}

async fn find(app: &App, who: &SignedIn, id: KeyId) -> Result<KeyBody, ApiError> {
    let record = app.accounts.key(Scope::Of(who.account.id), id).await?;
    Ok(record.ok_or(ApiError::NO_KEY)?.body())
}

fn parse_id(text: &str) -> Result<KeyId, ApiError> {
    text.parse().map(KeyId::new).map_err(|_| ApiError::NO_KEY)
}
