//! `POST /api/access/check/`: what a key may do with a dataset.

use axum::{Json, extract::Request};
use model::dataset::DatasetId;
use tsdb::catalog::DatasetRef;
use wire::{
    datasets::{AccessBody, AccessCheck},
    paths,
};

use super::{Caller, error::Result};
/// Tells what the key may do with a dataset, and which tags grant it.
#[utoipa::path(post, path = paths::ACCESS_CHECK, operation_id = "check_access", tag = "datasets",
    request_body = AccessCheck,
    responses((status = 200, description = "What the key may do", body = AccessBody)))]
pub(super) async fn post(
    Caller { app, key }: Caller,
    request: Request,
) -> Result<Json<AccessBody>> {
    let AccessCheck { dataset_id, require_write } = web::extract::json(request).await?;
    let sight = match DatasetId::new(dataset_id) {
        Some(id) => app.datasets.find_sight(key, DatasetRef::Id(id)).await?,
        None => None,
    };
    // A dataset that does not exist looks like one that is not shared.
    let body = sight.map_or(
        AccessBody { has_access: false, is_owner: false, matching_tags: Vec::new() },
        |sight| AccessBody {
            has_access: sight.is_owner || !require_write,
            is_owner: sight.is_owner,
            matching_tags: sight.matching_tags,
        },
    );
    Ok(Json(body))
}
