//! `/api/datasets/`: lists the datasets that a key sees, and creates one from an object, or all of a list
//! or none.

use axum::{
    Json,
    extract::Request,
    http::Uri,
    response::{IntoResponse as _, Response},
};
use model::{
    key::KeyId,
    page::{Limit, ROWS_DEFAULT},
};
use tsdb::catalog::{Filter, Listed, NewDataset};
use web::response::Created;
use wire::{
    datasets::{CreateColumn, CreateDataset, DatasetBody, Envelope},
    paths,
};

use super::{
    Caller,
    columns::dtype_of,
    error::Result,
    openapi::{CreateDatasets, CreatedDatasets, PageOf},
    read_params, single_page,
};
use crate::query::{link, params::Params};

/// The count of matches that are too many to be counted in time, as document 2 has it for rows.
const NOT_COUNTED: i64 = -1;
/// Lists the datasets that the key sees.
///
/// With `search`, a dataset of exactly that name comes first, then those whose names begin with it,
/// then those whose names or descriptions hold it.
#[utoipa::path(get, path = paths::DATASETS, operation_id = "list_datasets", tag = "datasets",
    params(("search" = Option<String>, Query,
        description = "Text to be found in names and descriptions, whatever its case."), PageOf),
    responses((status = 200, description = "A page of datasets", body = Envelope<DatasetBody>)))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    uri: Uri,
) -> Result<Json<Envelope<DatasetBody>>> {
    let params = read_params(&uri)?;
    let filter = params.get("search").map_or(Filter::All, |text| Filter::Text(text.to_owned()));
    let (skip, limit) = (params.number("offset")?.unwrap_or(0), params.limit(ROWS_DEFAULT)?);
    let listed = app.datasets.list(key, filter, skip, limit).await?;
    Ok(Json(envelope(paths::DATASETS, &params, (skip, limit), listed)))
}
/// Creates a dataset, which the key owns; or several, all or none.
///
/// A name is taken once among those of its owner. Tags that do not exist yet are created, private,
/// and belong to the key.
///
/// Of the metadata, `keep_days` and `keep_bytes` say how much of the rows is kept: older ones are
/// deleted, about a thousand at a time, while their buckets stay.
#[utoipa::path(post, path = paths::DATASETS, operation_id = "create_dataset", tag = "producing",
    request_body = CreateDatasets,
    responses((status = 201, description = "What is new", body = CreatedDatasets)))]
pub(super) async fn post(Caller { app, key }: Caller, request: Request) -> Result<Response> {
    let body = web::extract::bytes(request).await?;
    let is_list = body.iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'[');
    if !is_list {
        let new = new_dataset(key, web::extract::parse_json(&body)?)?;
        let dataset: DatasetBody = app.datasets.create(new).await?.into();
        return Ok(Created(dataset).into_response());
    }
    let bodies: Vec<CreateDataset> = web::extract::parse_json(&body)?;
    let new = bodies.into_iter().map(|body| new_dataset(key, body)).collect::<Result<_, _>>()?;
    let datasets = app.datasets.create_all(new).await?;
    let bodies: Vec<DatasetBody> = datasets.into_iter().map(Into::into).collect();
    Ok(Created(single_page(bodies)).into_response())
}

fn new_dataset(owner: KeyId, body: CreateDataset) -> Result<NewDataset> {
    let CreateDataset { name, description, metadata, columns, tags } = body;
    let column = |CreateColumn { name, dtype }| dtype_of(&name, &dtype).map(|dtype| (name, dtype));
    let columns = columns.into_iter().map(column).collect::<Result<_, _>>()?;
    Ok(NewDataset { name, description, metadata, columns, tags, owner: Some(owner) })
}

/// A page of a listing, with the links to the next and the previous one.
pub(super) fn envelope(
    path: &str,
    params: &Params,
    (skip, limit): (u64, Limit),
    listed: Listed,
) -> Envelope<DatasetBody> {
    let n_shown = u64::try_from(listed.datasets.len()).unwrap_or(u64::MAX);
    let has_next = n_shown > 0 && !listed.is_last;
    let next = has_next.then(|| link::link_at_offset(path, params, skip.saturating_add(n_shown)));
    Envelope {
        count: listed.count.map_or(NOT_COUNTED, |count| i64::try_from(count).unwrap_or(i64::MAX)),
        next,
        previous: link::link_before(path, params, skip, limit),
        results: listed.datasets.into_iter().map(Into::into).collect(),
    }
}
