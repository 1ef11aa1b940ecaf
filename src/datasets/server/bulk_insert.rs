//! `POST /api/rows/bulk_insert/`: rows are stored, all or none.

use axum::{
    body::HttpBody as _,
    extract::{Request, State},
};
use model::dataset::DatasetId;
use tokio::sync::{Semaphore, SemaphorePermit};
use web::answer::Created;
use wire::datasets::{BulkInsert, BulkInserted, InsertRow};

use super::{App, BODY_BYTES_MAX, Caller, error::ApiError};
use crate::{
    append::{AppendError, NamedRow, Refusal},
    aside,
};

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Created<BulkInserted>, ApiError> {
    let _room = room(&app.inserts, request.body().size_hint().upper()).await;
    let body = web::extract::bytes(request).await?;
    let (dataset, rows) = aside(move || read(&body)).await.map_err(AppendError::Store)??;
    let appended = app.datasets.append(key, dataset, rows).await?;
    Ok(Created(BulkInserted { inserted: appended.n_rows }))
}

/// Waits until the bodies being taken leave room for one more of at most `n_bytes`; without a number
/// it may be the longest. The time limit of requests bounds the wait.
async fn room(inserts: &Semaphore, n_bytes: Option<u64>) -> Option<SemaphorePermit<'_>> {
    let told = n_bytes.and_then(|n_bytes| usize::try_from(n_bytes).ok());
    let n_kib = told.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX).div_ceil(1024);
    // The semaphore is never closed.
    inserts.acquire_many(n_kib.try_into().unwrap_or(u32::MAX)).await.ok()
}

/// Reads a body. The longest takes a second or so, which a thread that serves others does not have.
fn read(body: &[u8]) -> Result<(DatasetId, Vec<NamedRow>), ApiError> {
    let body: BulkInsert = web::extract::json_of(body)?;
    let dataset = DatasetId::new(body.dataset).ok_or(AppendError::NotFound)?;
    let rows = body.rows.into_iter().enumerate().map(|(row_idx, row)| named(row_idx, row));
    let rows = rows.collect::<Result<_, _>>();
    Ok((dataset, rows.map_err(|refusal| AppendError::Rows(vec![refusal]))?))
}

fn named(row_idx: usize, row: InsertRow) -> Result<NamedRow, Refusal> {
    let timestamp = row
        .timestamp
        .parse()
        .map_err(|_| Refusal { row_idx, reason: "timestamp must be RFC 3339".to_owned() })?;
    let values = row.values.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(NamedRow { timestamp, values })
}
