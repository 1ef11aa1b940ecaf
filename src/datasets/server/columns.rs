//! `GET /api/columns/`: the columns of a dataset.

use axum::{Json, extract::State, http::Uri};
use wire::datasets::{ColumnBody, Envelope};

use super::{App, Caller, error::ApiError, whole};
use crate::query::params::Params;

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Json<Envelope<ColumnBody>>, ApiError> {
    let params = Params(web::extract::pairs(&uri)?);
    let columns = app.datasets.columns(key, params.dataset()?).await?;
    Ok(Json(whole(columns.into_iter().map(Into::into).collect())))
}
