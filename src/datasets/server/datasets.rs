//! `/api/datasets/`: the datasets a key sees, and a new one.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};
use model::page::ROWS_DEFAULT;
use web::answer::Created;
use wire::{
    datasets::{CreateColumn, CreateDataset, DatasetBody, Envelope},
    paths::DATASETS,
};

use super::{App, Caller, error::ApiError};
use crate::{
    catalog::{Filter, Listed, NewDataset},
    query::{link, params::Params},
};

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Json<Envelope<DatasetBody>>, ApiError> {
    let params = Params(web::extract::pairs(&uri)?);
    let filter = params.get("search").map_or(Filter::All, |text| Filter::Text(text.to_owned()));
    let (skip, limit) = (params.number("offset")?.unwrap_or(0), params.limit(ROWS_DEFAULT)?);
    let listed = app.datasets.list(key, filter, skip, limit).await?;
    Ok(Json(envelope(DATASETS, &params, skip, listed)))
}

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Created<DatasetBody>, ApiError> {
    let body: CreateDataset = web::extract::json(request).await?;
    let column = |CreateColumn { name, dtype }| match dtype.parse() {
        Ok(dtype) => Ok((name, dtype)),
        Err(_) => Err(ApiError::Unfit(format!(
            "dtype of column {name} must be one of float, integer, string, boolean"
        ))),
    };
    let columns = body.columns.into_iter().map(column).collect::<Result<_, _>>()?;
    let CreateDataset { name, description, metadata, tags, .. } = body;
    let new = NewDataset { name, description, metadata, columns, tags, owner: Some(key) };
    let dataset = app.datasets.create(new).await?;
    Ok(Created(dataset.into()))
}

/// A page of a listing, with the link to the next one.
pub(super) fn envelope(
    path: &str,
    params: &Params,
    skip: u64,
    listed: Listed,
) -> Envelope<DatasetBody> {
    let n_shown = u64::try_from(listed.datasets.len()).unwrap_or(u64::MAX);
    let end = skip.saturating_add(n_shown);
    let next = (n_shown > 0 && end < listed.count).then(|| link::at_offset(path, params, end));
    Envelope {
        count: i64::try_from(listed.count).unwrap_or(i64::MAX),
        next,
        previous: None,
        results: listed.datasets.into_iter().map(Into::into).collect(),
    }
}
