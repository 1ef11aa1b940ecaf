//! `/api/accounts/sessions`: lists the account's sessions; ends all but the current one.

use axum::{Json, extract::State};
use wire::accounts::{DoneBody, SessionBody, SessionsBody};

use super::{App, SignedIn, error::ApiError};

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

pub(super) async fn delete(
    State(app): State<App>,
    who: SignedIn,
) -> Result<Json<DoneBody>, ApiError> {
    let n_done = app.accounts.end_sessions_but(who.account.id, who.session).await?;
    Ok(Json(DoneBody { n_done }))
}
