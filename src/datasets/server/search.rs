//! `GET /api/datasets/search/`: the datasets with one metadata field at one value; with all of
//! several, where the operator allows it.

use axum::{Json, http::Uri};
use model::page::ROWS_DEFAULT;
use tsdb::catalog::Filter;
use wire::{
    datasets::{DatasetBody, Envelope},
    paths,
};

use super::{Caller, MetadataFilters, datasets::envelope, error::Result, openapi::PageOf};
use crate::{catalog::FIELDS_MAX, error::Unfit, query::params::Params};
/// Filters the datasets that the key sees by one field of their metadata.
///
/// The parameter is named after the field, and its value is the field's whole value: `?ticker=btcusd`.
/// Exactly one field per request, unless the operator allows more.
#[utoipa::path(get, path = paths::DATASETS_SEARCH, operation_id = "search_datasets", tag = "datasets",
    params(("ticker" = String, Query, description = "For example; any field will do in its place."),
        PageOf),
    responses((status = 200, description = "A page of datasets", body = Envelope<DatasetBody>)))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    uri: Uri,
) -> Result<Json<Envelope<DatasetBody>>> {
    let params = Params(web::extract::pairs(&uri)?);
    let (skip, limit) = (params.number("offset")?.unwrap_or(0), params.limit(ROWS_DEFAULT)?);
    let others = params.0.iter().filter(|(name, _)| !matches!(name.as_str(), "limit" | "offset"));
    let filters: Vec<(String, String)> = others.cloned().collect();
    match (filters.len(), app.metadata_filters) {
        (0, _) => return Err(Unfit::from("one metadata filter is required").into()),
        (1, _) | (2..=FIELDS_MAX, MetadataFilters::All) => {}
        _ => {
            let text = "multiple metadata filters are temporarily unsupported";
            return Err(Unfit::from(text).into());
        }
    }
    let filter = Filter::Metadata(filters);
    let listed = app.datasets.list(key, filter, skip, limit).await?;
    Ok(Json(envelope(paths::DATASETS_SEARCH, &params, (skip, limit), listed)))
}
