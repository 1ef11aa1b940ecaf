//! `POST /api/access/check/`: what a key may do with a dataset.

use axum::{
    Json,
    extract::{Request, State},
};
use model::dataset::DatasetId;
use tsdb::catalog::DatasetRef;
use wire::datasets::{AccessBody, AccessCheck};

use super::{App, Caller, error::ApiError};

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Json<AccessBody>, ApiError> {
    let AccessCheck { dataset_id, require_write } = web::extract::json(request).await?;
    let grant = match DatasetId::new(dataset_id) {
        Some(id) => app.datasets.find_grant(key, DatasetRef::Id(id)).await?,
        None => None,
    };
    // A dataset that does not exist looks like one that is not shared.
    let body = grant.map_or(
        AccessBody { has_access: false, is_owner: false, matching_tags: Vec::new() },
        |grant| AccessBody {
            has_access: grant.is_owner || !require_write,
            is_owner: grant.is_owner,
            matching_tags: grant.matching_tags,
        },
    );
    Ok(Json(body))
}
