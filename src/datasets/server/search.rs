//! `GET /api/datasets/search/`: the datasets with one metadata field at one value.

use axum::{Json, extract::State, http::Uri};
use model::page::ROWS_DEFAULT;
use wire::{
    datasets::{DatasetBody, Envelope},
    paths::DATASETS_SEARCH,
};

use super::{App, Caller, datasets::envelope, error::ApiError};
use crate::{catalog::Filter, query::params::Params};

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Json<Envelope<DatasetBody>>, ApiError> {
    let params = Params(web::extract::pairs(&uri)?);
    let (skip, limit) = (params.number("offset")?.unwrap_or(0), params.limit(ROWS_DEFAULT)?);
    let is_filter = |(name, _): &&(String, String)| !matches!(name.as_str(), "limit" | "offset");
    let mut filters = params.0.iter().filter(is_filter);
    let filter = match (filters.next(), filters.next()) {
        (Some((field, value)), None) => Filter::Metadata(field.clone(), value.clone()),
        (Some(_), Some(_)) => {
            let text = "multiple metadata filters are temporarily unsupported";
            return Err(ApiError::Unfit(text.to_owned()));
        }
        (None, _) => {
            return Err(ApiError::Unfit("one metadata filter is required".to_owned()));
        }
    };
    let listed = app.datasets.list(key, filter, skip, limit).await?;
    Ok(Json(envelope(DATASETS_SEARCH, &params, skip, listed)))
}
