//! `/api/datasets/…` lists, finds, creates, changes and deletes datasets. `/api/access/check/` reports
//! the access of a key.

use axum::Json;
use axum::extract::Request;
use axum::http::Uri;
use axum::response::{IntoResponse as _, Response};
use model::dataset::{DatasetId, Dtype, VALUE_COLUMN, likely_value_column};
use model::key::KeyId;
use model::page::{Limit, ROWS_DEFAULT};
use tsdb::catalog::{Change, DatasetRef, Filter, Listed, MetadataChange, NewDataset};
use web::response::Created;
use wire::datasets::{
    AccessBody, AccessCheck, CoverageBody, CreateColumn, CreateDataset, DatasetBody, Envelope,
    MessageBody, ReplaceDataset, UpdateDataset,
};
use wire::paths;

use super::bulk_download::InForm;
use super::columns::dtype_of;
use super::openapi::{CreateDatasets, CreatedDatasets, DatasetNumber, InBounds, PageOf};
use super::{Caller, PathParams, read_params, single_page};
use crate::error::{Invalid, OperationError, Result};
use crate::query::params::Params;
use crate::query::{self};

/// Value of `count` if there are too many matches to count in time. The upstream's API has the same value
/// in a page of rows if counting them times out.
const NOT_COUNTED: i64 = -1;

/// Lists the datasets that the key sees.
///
/// With `search`, a dataset with exactly that name comes first, followed by names that start with
/// it, then names and descriptions that contain it. With `dataset_name`, lists only the dataset that this
/// name refers to in other requests, which fail in the same way if the name is ambiguous.
#[utoipa::path(get, path = paths::DATASETS, operation_id = "list_datasets", tag = "datasets",
    params(("search" = Option<String>, Query,
        description = "Text to find in names and descriptions, ignoring case."),
        ("dataset_name" = Option<String>, Query, description = "Name of a dataset."), PageOf),
    responses((status = 200, description = "A page of datasets", body = Envelope<DatasetBody>)))]
pub(super) async fn list(
    Caller { app, key }: Caller,
    uri: Uri,
) -> Result<Json<Envelope<DatasetBody>>> {
    let params = read_params(&uri)?;
    if let Some(name) = params.get("dataset_name") {
        let found = app.datasets.find_sight(key, DatasetRef::Name(name.to_owned())).await?;
        return Ok(Json(single_page(
            found.map(|sight| sight.dataset.into()).into_iter().collect(),
        )));
    }
    let filter = params.get("search").map_or(Filter::All, |text| Filter::Text(text.to_owned()));
    let (skip, limit) = (params.number("offset")?.unwrap_or(0), params.limit(ROWS_DEFAULT)?);
    let listed = app.datasets.list(key, filter, skip, limit).await?;
    Ok(Json(envelope(paths::DATASETS, &params, skip, limit, listed)))
}

/// Creates a dataset, which the key owns, or several datasets (all or none).
///
/// Names are unique among the datasets of an owner. Missing tags are created as private tags of the
/// key.
///
/// The metadata fields `keep_days` and `keep_bytes` limit the rows that are kept. Older rows are
/// deleted, about a thousand at a time, and their buckets stay. `keep_days` deletes rows only once the
/// service has run for an hour. Of archived rows, it deletes whole months, and `keep_bytes` neither
/// counts nor deletes any.
///
/// Buckets are computed from the columns `open`, `high`, `low` and `close` if all of them exist, otherwise
/// from the column that the metadata field `value_column` names, or else from the first float column. On
/// creation, the field is set to the likely value column, such as `close` in `volume,close`, unless this
/// is the first float column.
#[utoipa::path(post, path = paths::DATASETS, operation_id = "create_dataset", tag = "producing",
    request_body = CreateDatasets,
    responses((status = 201, description = "The new datasets", body = CreatedDatasets)))]
pub(super) async fn create(Caller { app, key }: Caller, request: Request) -> Result<Response> {
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
    let CreateDataset { name, description, mut metadata, columns, tags } = body;
    let column = |CreateColumn { name, dtype }| dtype_of(&name, &dtype).map(|dtype| (name, dtype));
    let columns: Vec<(String, Dtype)> =
        columns.into_iter().map(column).collect::<Result<_, _>>()?;
    // The store uses the first float column by default.
    let first = columns.iter().find(|(_, dtype)| *dtype == Dtype::Float);
    let first = first.map(|(name, _)| name.as_str());
    if let Some(value) = likely_value_column(&columns).filter(|value| Some(*value) != first) {
        metadata.entry(VALUE_COLUMN.to_owned()).or_insert_with(|| value.to_owned());
    }
    Ok(NewDataset { name, description, metadata, columns, tags, owner: Some(owner) })
}

/// Returns a page of a list, with links to the next and the previous page.
fn envelope(
    path: &str,
    params: &Params,
    skip: u64,
    limit: Limit,
    listed: Listed,
) -> Envelope<DatasetBody> {
    let n_shown = u64::try_from(listed.datasets.len()).unwrap_or(u64::MAX);
    let has_next = n_shown > 0 && !listed.is_last;
    let next = has_next.then(|| query::link_at_offset(path, params, skip.saturating_add(n_shown)));
    Envelope {
        count: listed.count.map_or(NOT_COUNTED, |count| i64::try_from(count).unwrap_or(i64::MAX)),
        next,
        previous: query::link_before(path, params, skip, limit),
        results: listed.datasets.into_iter().map(Into::into).collect(),
    }
}

/// Filters the datasets that the key sees by one field of their metadata.
///
/// The parameter is the name of the field, and its value the whole value of the field:
/// `?ticker=btcusd`. Exactly one field per request.
#[utoipa::path(get, path = paths::DATASETS_SEARCH, operation_id = "search_datasets", tag = "datasets",
    params(("ticker" = String, Query, description = "An example. Any metadata field except `limit` and \
        `offset` can be used."),
        PageOf),
    responses((status = 200, description = "A page of datasets", body = Envelope<DatasetBody>)))]
pub(super) async fn search(
    Caller { app, key }: Caller,
    uri: Uri,
) -> Result<Json<Envelope<DatasetBody>>> {
    let params = read_params(&uri)?;
    let (skip, limit) = (params.number("offset")?.unwrap_or(0), params.limit(ROWS_DEFAULT)?);
    let others = params.0.iter().filter(|(name, _)| !matches!(name.as_str(), "limit" | "offset"));
    let filters: Vec<(String, String)> = others.cloned().collect();
    match filters.len() {
        0 => return Err(Invalid::from("one metadata filter is required").into()),
        1 => {}
        _ => {
            let text = "multiple metadata filters are temporarily unsupported";
            return Err(Invalid::from(text).into());
        }
    }
    let filter = Filter::Metadata(filters);
    let listed = app.datasets.list(key, filter, skip, limit).await?;
    Ok(Json(envelope(paths::DATASETS_SEARCH, &params, skip, limit, listed)))
}

/// Reads one dataset.
#[utoipa::path(get, path = paths::DATASET, operation_id = "get_dataset", tag = "datasets",
    params(DatasetNumber), responses((status = 200, description = "The dataset", body = DatasetBody)))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<DatasetBody>> {
    Ok(Json(app.datasets.sight(key, which(&id)?).await?.dataset.into()))
}

/// Counts the rows of a dataset for each day, and estimates the size of a download.
///
/// Days are in UTC, and only those with rows are listed. `next` is the address of the response with
/// later days, and null at the end. The other fields are for the whole range of the request.
/// `download_bytes` is for the format `output` without compression.
#[utoipa::path(get, path = paths::DATASET_COVERAGE, operation_id = "get_coverage", tag = "datasets",
    params(DatasetNumber, InBounds, InForm, ("limit" = Option<u64>, Query, minimum = 1,
        description = "Maximum number of days, 366 by default. A limit above 10 000 is lowered to that.")),
    responses((status = 200, description = "The coverage", body = CoverageBody)))]
pub(super) async fn coverage(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
    uri: Uri,
) -> Result<Json<CoverageBody>> {
    let params = read_params(&uri)?;
    let (body, next) = app.datasets.coverage(key, params.coverage(which(&id)?)?).await?;
    let next = next.map(|day| query::link_from(uri.path(), &params, day));
    Ok(Json(CoverageBody { next, ..body }))
}

/// Changes the given fields of a dataset that the key owns.
#[utoipa::path(patch, path = paths::DATASET, operation_id = "update_dataset", tag = "producing",
    params(DatasetNumber), request_body = UpdateDataset,
    responses((status = 200, description = "The dataset", body = DatasetBody)))]
pub(super) async fn patch(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Json<DatasetBody>> {
    let which = which(&id)?;
    app.datasets.find_owned(key, which.clone()).await?;
    let UpdateDataset { name, description, metadata } = web::extract::json(request).await?;
    let change = Change { name, description, metadata: MetadataChange::Merge(metadata) };
    Ok(Json(app.datasets.update(key, which, change).await?.into()))
}

/// Replaces name, description and metadata of a dataset that the key owns.
#[utoipa::path(put, path = paths::DATASET, operation_id = "replace_dataset", tag = "producing",
    params(DatasetNumber), request_body = ReplaceDataset,
    responses((status = 200, description = "The dataset", body = DatasetBody)))]
pub(super) async fn put(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
    request: Request,
) -> Result<Json<DatasetBody>> {
    let which = which(&id)?;
    let before = app.datasets.find_owned(key, which.clone()).await?;
    let ReplaceDataset { name, description, mut metadata } = web::extract::json(request).await?;
    // The service can have set this field on creation, without the client's knowledge.
    if let Some(value) = before.metadata.get(VALUE_COLUMN) {
        metadata.entry(VALUE_COLUMN.to_owned()).or_insert_with(|| value.clone());
    }
    let metadata = MetadataChange::Replace(metadata);
    let change = Change { name: Some(name), description: Some(description), metadata };
    Ok(Json(app.datasets.update(key, which, change).await?.into()))
}

/// Deletes a dataset that the key owns, with all its rows.
#[utoipa::path(delete, path = paths::DATASET, operation_id = "delete_dataset", tag = "producing",
    params(DatasetNumber), responses((status = 200, description = "The dataset is deleted", body = MessageBody)))]
pub(super) async fn delete(
    Caller { app, key }: Caller,
    PathParams(id): PathParams<String>,
) -> Result<Json<MessageBody>> {
    app.datasets.delete(key, which(&id)?).await?;
    Ok(Json(MessageBody { message: "Dataset deleted successfully".to_owned() }))
}

/// Parses the id of a dataset. An invalid id has the same error as a missing dataset.
fn which(id: &str) -> Result<DatasetRef, OperationError> {
    id.parse().map(DatasetRef::Id).map_err(|_| OperationError::NotFound)
}

/// Reports the access of the key to a dataset, and the tags that grant it.
#[utoipa::path(post, path = paths::ACCESS_CHECK, operation_id = "check_access", tag = "datasets",
    request_body = AccessCheck,
    responses((status = 200, description = "The access of the key", body = AccessBody)))]
pub(super) async fn check_access(
    Caller { app, key }: Caller,
    request: Request,
) -> Result<Json<AccessBody>> {
    let AccessCheck { dataset_id, require_write } = web::extract::json(request).await?;
    let sight = match DatasetId::new(dataset_id) {
        Some(id) => app.datasets.find_sight(key, DatasetRef::Id(id)).await?,
        None => None,
    };
    // Has the same response for a missing dataset as for one that is not visible to the key.
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
