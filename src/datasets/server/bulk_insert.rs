//! `POST /api/rows/bulk_insert/`: rows are stored, all or none.
//!
//! The content type says what the body is: JSON, NDJSON or CSV; JSON if it says anything else. The
//! content encoding may be gzip or zstd. NDJSON and CSV have their dataset in the query, and JSON
//! may.

use axum::{
    body::HttpBody as _,
    extract::{Request, State},
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_TYPE},
    },
};
use tokio::sync::{Semaphore, SemaphorePermit};
use web::answer::Created;
use wire::datasets::BulkInserted;

use super::{App, BODY_BYTES_MAX, Caller, error::ApiError};
use crate::{
    insert::{Batch, Encoding, Format},
    query::params::Params,
};

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Created<BulkInserted>, ApiError> {
    let (format, encoding) = (format(request.headers()), encoding(request.headers())?);
    let params = Params(web::extract::pairs(request.uri())?);
    let dataset = match format {
        Format::Json if params.get("dataset").or(params.get("dataset_name")).is_none() => None,
        _ => Some(params.dataset()?),
    };
    let told = match encoding {
        Encoding::Identity => request.body().size_hint().upper(),
        Encoding::Gzip | Encoding::Zstd => None,
    };
    let _room = room(&app.inserts, told).await;
    let body = web::extract::bytes(request).await?;
    let batch = Batch { dataset, format, encoding, body, bytes_max: BODY_BYTES_MAX };
    let appended = app.datasets.insert(key, batch).await?;
    Ok(Created(BulkInserted { inserted: appended.n_rows }))
}

/// What the body is, by its content type.
fn format(headers: &HeaderMap) -> Format {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines" => Format::Ndjson,
        "text/csv" => Format::Csv,
        _ => Format::Json,
    }
}

/// How the body is compressed.
fn encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let text = headers.get(CONTENT_ENCODING).map_or(Ok(""), |value| value.to_str());
    match text.unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        "zstd" => Ok(Encoding::Zstd),
        _ => Err(ApiError::Unfit("content-encoding must be gzip or zstd".to_owned())),
    }
}

/// Waits until the bodies being taken leave room for one more of at most `n_bytes`; without a number
/// it may be the longest. The time limit of requests bounds the wait.
async fn room(inserts: &Semaphore, n_bytes: Option<u64>) -> Option<SemaphorePermit<'_>> {
    let told = n_bytes.and_then(|n_bytes| usize::try_from(n_bytes).ok());
    let n_kib = told.unwrap_or(BODY_BYTES_MAX).min(BODY_BYTES_MAX).div_ceil(1024);
    // The semaphore is never closed.
    inserts.acquire_many(n_kib.try_into().unwrap_or(u32::MAX)).await.ok()
}
