//! `/api/accounts/sessions`: lists the account's sessions; ends all but the current one.

use axum::{Json, extract::State};
use wire::{
    accounts::{DoneBody, SessionBody, SessionsBody},
    paths,
};

use super::{App, SignedIn, error::ApiError};

/// Lists the account's sessions.
#[utoipa::path(get, path = paths::ACCOUNTS_SESSIONS, operation_id = "sessions", tag = "accounts",
    security(("session" = [])),
    responses((status = 200, description = "The newest first", body = SessionsBody)))]
pub(super) async fn get(
    State(app): State<App>,
    who: SignedIn,
) -> Result<Json<SessionsBody>, ApiError> {
    let sessions = app.accounts.sessions(who.account.id).await?;
    let body = |session: crate::SessionRecord| SessionBody {
        id: session.id.get(),
        created_at: session.created_at.to_string(),
        expires_at: session.expires_at.to_string(),
        client: session.client,
        is_current: session.id == who.session,
    };
    Ok(Json(SessionsBody { sessions: sessions.into_iter().map(body).collect() }))
}

/// Ends every session but this one.
#[utoipa::path(delete, path = paths::ACCOUNTS_SESSIONS, operation_id = "end_other_sessions",
    tag = "accounts", security(("session" = [])),
    responses((status = 200, description = "How many ended", body = DoneBody)))]
pub(super) async fn delete(
    State(app): State<App>,
    who: SignedIn,
) -> Result<Json<DoneBody>, ApiError> {
    let n_done = app.accounts.end_sessions_but(who.account.id, who.session).await?;
    Ok(Json(DoneBody { n_done }))
}
