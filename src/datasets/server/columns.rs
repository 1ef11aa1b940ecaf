//! `/api/columns/`: the columns of a dataset, and one more.

use axum::{
    Json,
    extract::{Request, State},
    http::Uri,
};
use model::dataset::{DatasetId, Dtype};
use web::answer::Created;
use wire::datasets::{AddColumn, ColumnBody, Envelope};

use super::{App, Caller, error::ApiError, whole};
use crate::{
    catalog::CatalogError,
    query::{DatasetRef, QueryError, params::Params},
};

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Json<Envelope<ColumnBody>>, ApiError> {
    let params = Params(web::extract::pairs(&uri)?).check_names(&["dataset", "dataset_name"])?;
    let columns = app.datasets.columns(key, params.dataset()?).await?;
    Ok(Json(whole(columns.into_iter().map(Into::into).collect())))
}

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Created<ColumnBody>, ApiError> {
    let AddColumn { dataset, dataset_name, name, dtype } = web::extract::json(request).await?;
    let which = match (dataset, dataset_name) {
        (Some(number), _) => DatasetRef::Id(DatasetId::new(number).ok_or(CatalogError::NotFound)?),
        (None, Some(name)) => DatasetRef::Name(name),
        (None, None) => return Err(QueryError::NoDataset.into()),
    };
    let dtype = dtype_of(&name, &dtype)?;
    Ok(Created(app.datasets.add_column(key, which, (name, dtype)).await?.into()))
}

/// The type that a column is to have.
pub(super) fn dtype_of(column: &str, dtype: &str) -> Result<Dtype, ApiError> {
    dtype.parse().map_err(|_| {
        ApiError::Unfit(format!(
            "dtype of column {column} must be one of float, integer, string, boolean"
        ))
    })
}
