//! `POST /api/rows/bulk_insert/`: rows are stored, all or none.

use axum::extract::{Request, State};
use model::dataset::DatasetId;
use web::answer::Created;
use wire::datasets::{BulkInsert, BulkInserted, InsertRow};

use super::{App, Caller, error::ApiError};
use crate::append::{AppendError, NamedRow, Refusal};

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Created<BulkInserted>, ApiError> {
    let body: BulkInsert = web::extract::json(request).await?;
    let dataset = DatasetId::new(body.dataset).ok_or(AppendError::NotFound)?;
    let rows = body.rows.into_iter().enumerate().map(|(row_idx, row)| named(row_idx, row));
    let rows =
        rows.collect::<Result<_, _>>().map_err(|refusal| AppendError::Rows(vec![refusal]))?;
    let appended = app.datasets.append(key, dataset, rows).await?;
    Ok(Created(BulkInserted { inserted: appended.n_rows }))
}

fn named(row_idx: usize, row: InsertRow) -> Result<NamedRow, Refusal> {
    let timestamp = row
        .timestamp
        .parse()
        .map_err(|_| Refusal { row_idx, reason: "timestamp must be RFC 3339".to_owned() })?;
    let values = row.values.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(NamedRow { timestamp, values })
}
