//! `/api/columns/`: lists, adds, renames and deletes columns of a dataset.

use axum::Json;
use axum::extract::Request;
use axum::http::Uri;
use model::dataset::{DatasetId, Dtype};
use model::key::KeyId;
use tsdb::catalog::{ColumnChange, DatasetRef, Refusal};
use web::response::Created;
use wire::datasets::{AddColumn, ColumnBody, Envelope, MessageBody, RenameColumn};
use wire::paths;

use super::openapi::WhichDataset;
use super::{App, Caller, read_params, single_page};
use crate::error::{Invalid, OperationError, Result};
use crate::query::params::{NO_DATASET, TWO_DATASETS};

/// Lists the columns of a dataset, in their order.
#[utoipa::path(get, path = paths::COLUMNS, operation_id = "list_columns", tag = "datasets",
    params(WhichDataset),
    responses((status = 200, description = "All columns", body = Envelope<ColumnBody>)))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    uri: Uri,
) -> Result<Json<Envelope<ColumnBody>>> {
    let params = read_params(&uri)?;
    let columns = app.datasets.sight(key, params.dataset()?).await?.columns;
    let shown = columns.into_iter().filter(|column| !column.is_deleted());
    Ok(Json(single_page(shown.map(Into::into).collect())))
}

/// Adds a column to a dataset that the key owns. Existing rows have no value in it.
#[utoipa::path(post, path = paths::COLUMNS, operation_id = "add_column", tag = "producing",
    request_body = AddColumn,
    responses((status = 201, description = "The new column", body = ColumnBody)))]
pub(super) async fn post(
    Caller { app, key }: Caller,
    request: Request,
) -> Result<Created<ColumnBody>> {
    let AddColumn { dataset, dataset_name, name, dtype } = web::extract::json(request).await?;
    let which = dataset_ref(dataset, dataset_name)?;
    let dtype = dtype_of(&name, &dtype)?;
    Ok(Created(apply_change(&app, key, which, ColumnChange::Add(name, dtype)).await?))
}

/// Renames a column of a dataset that the key owns. The values of the column are kept.
#[utoipa::path(patch, path = paths::COLUMNS, operation_id = "rename_column", tag = "producing",
    request_body = RenameColumn,
    responses((status = 200, description = "The column", body = ColumnBody)))]
pub(super) async fn patch(
    Caller { app, key }: Caller,
    request: Request,
) -> Result<Json<ColumnBody>> {
    let RenameColumn { dataset, dataset_name, name, new_name } =
        web::extract::json(request).await?;
    let which = dataset_ref(dataset, dataset_name)?;
    Ok(Json(apply_change(&app, key, which, ColumnChange::Rename { name, new_name }).await?))
}

/// Deletes a column of a dataset that the key owns, with its values.
///
/// A new column with the same name starts empty. A column that the buckets of stored rows depend on
/// cannot be deleted: 409.
#[utoipa::path(delete, path = paths::COLUMNS, operation_id = "delete_column", tag = "producing",
    params(WhichDataset, ("name" = String, Query, description = "The column's name.")),
    responses((status = 200, description = "The column is deleted", body = MessageBody)))]
pub(super) async fn delete(Caller { app, key }: Caller, uri: Uri) -> Result<Json<MessageBody>> {
    let params = read_params(&uri)?;
    let name = params.get("name").ok_or_else(|| Invalid::from("name is required"))?;
    let change = ColumnChange::Delete(name.to_owned());
    app.datasets.change_column(key, params.dataset()?, change).await?;
    Ok(Json(MessageBody { message: "Column deleted successfully".to_owned() }))
}

/// Applies the change of a column and returns the resulting column.
async fn apply_change(
    app: &App,
    key: KeyId,
    which: DatasetRef,
    change: ColumnChange,
) -> Result<ColumnBody> {
    let column = app.datasets.change_column(key, which, change).await?;
    Ok(column.ok_or(OperationError::Refused(Refusal::ColumnUnknown))?.into())
}

/// Returns the dataset that a body names, by its id if given, or else by its name.
fn dataset_ref(number: Option<i64>, name: Option<String>) -> Result<DatasetRef> {
    match (number, name) {
        (Some(number), None) => {
            Ok(DatasetRef::Id(DatasetId::new(number).ok_or(OperationError::NotFound)?))
        }
        (Some(_), Some(_)) => Err(Invalid::from(TWO_DATASETS).into()),
        (None, Some(name)) => Ok(DatasetRef::Name(name)),
        (None, None) => Err(Invalid::from(NO_DATASET).into()),
    }
}

/// Parses the type of a column.
pub(super) fn dtype_of(column: &str, dtype: &str) -> Result<Dtype, Invalid> {
    let wanted = "one of float, integer, string, boolean";
    dtype.parse().map_err(|_| format!("dtype of column {column} must be {wanted}").into())
}
