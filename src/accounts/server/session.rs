//! `DELETE /api/accounts/sessions/{id}`: ends a session.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::{accounts::DoneBody, paths};

use super::{App, SignedIn, error::ApiError};
use crate::SessionId;

/// Ends one session.
#[utoipa::path(delete, path = paths::ACCOUNTS_SESSION, operation_id = "end_session",
    tag = "accounts", params(("id" = i64, Path, minimum = 1, description = "Its number.")),
    security(("session" = [])),
    responses((status = 200, description = "It is ended", body = DoneBody)))]
pub(super) async fn delete(
    State(app): State<App>,
    who: SignedIn,
    Path(id): Path<String>,
) -> Result<Json<DoneBody>, ApiError> {
    let id = SessionId::new(id.parse().map_err(|_| ApiError::NoSession)?);
    if app.accounts.end_session(who.account.id, id).await? {
        Ok(Json(DoneBody { n_done: 1 }))
    } else {
        Err(ApiError::NoSession)
    }
}
