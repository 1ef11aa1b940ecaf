//! `POST /api/accounts/verify`: verifies a key for services of other machines.

use axum::{
    Json,
    extract::{Request, State},
    http::{HeaderMap, header::AUTHORIZATION},
};
use model::key::KeyId;
use wire::{
    accounts::{VerifiedBody, VerifyRequest, VerifyResponse},
    paths,
};

use super::{App, CallerNetwork, error::ApiError};

/// What a key is good for. Wants the operator's token: `Authorization: Bearer …`.
#[utoipa::path(post, path = paths::ACCOUNTS_VERIFY, operation_id = "verify_key", tag = "services",
    request_body = VerifyRequest, security(("operator" = [])),
    responses((status = 200, description = "The key, or null", body = VerifyResponse)))]
pub(super) async fn post(
    State(app): State<App>,
    CallerNetwork(network): CallerNetwork,
    headers: HeaderMap,
    request: Request,
) -> Result<Json<VerifyResponse>, ApiError> {
    let shown = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let shown = shown.and_then(|text| text.strip_prefix("Bearer ")).unwrap_or_default();
    if !app.options.token.as_ref().is_some_and(|token| token.is(shown)) {
        app.attempts.try_token(network)?;
        return Err(ApiError::NoToken);
    }
    let body: VerifyRequest = web::extract::json(request).await?;
    let key = match (body.key_hash, body.id) {
        (Some(key_hash), None) => app.accounts.check(key_hash.parse()?).await?,
        (None, Some(id)) => app.accounts.find_key(KeyId::new(id)).await?,
        _ => return Err(ApiError::Question),
    };
    Ok(Json(VerifyResponse { key: key.map(VerifiedBody::from) }))
}
