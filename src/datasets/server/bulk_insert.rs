//! `POST /api/rows/bulk_insert/`: stores all rows of a body, or none.
//!
//! The content type names the format: JSON, NDJSON, CSV or Parquet; JSON by default, unless the body
//! starts as Parquet does. The content encoding may be gzip or zstd. The query names the dataset, or
//! the body if it is JSON.

use axum::{
    body::HttpBody as _,
    extract::{Request, State},
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_TYPE},
    },
};
use tsdb::store::AppendMode;
use web::response::Created;
use wire::datasets::BulkInserted;

use super::{App, BODY_BYTES_MAX, Caller, body_limit, error::ApiError};
use crate::{
    error::OperationError,
    insert::{Encoding, Format, InsertBatch, PARQUET_MAGIC},
    query::params::Params,
};

/// The longest body that is read before checking that the key owns the dataset: the check takes longer
/// than reading it.
const UNASKED_BYTES_MAX: u64 = 64 * 1024;

/// The memory reserved at first for decompressing a body, as a multiple of its length. Rows as text
/// rarely compress better.
const UNPACKED_TIMES: usize = 16;

/// The same for Parquet, whose pages are packed before they are compressed.
const PAGES_TIMES: usize = 4;

/// Memory reserved for any small body of Parquet: a dictionary encodes many texts in a few bytes.
const PAGES_BYTES_MIN: usize = 1024 * 1024;

pub(super) async fn post(
    State(app): State<App>,
    Caller(key): Caller,
    request: Request,
) -> Result<Created<BulkInserted>, ApiError> {
    let (format, encoding) = (parse_format(request.headers()), parse_encoding(request.headers())?);
    let params = Params(web::extract::pairs(request.uri())?);
    let params = params.check_names(&["dataset", "dataset_name", "mode"])?;
    let mode = match params.get("mode") {
        None | Some("replace") => AppendMode::Replace,
        Some("merge") => AppendMode::Merge,
        Some(_) => return Err(ApiError::Unfit("mode must be replace or merge".to_owned())),
    };
    let dataset = match format {
        Format::Json if params.get("dataset").or(params.get("dataset_name")).is_none() => None,
        _ => Some(params.dataset()?),
    };
    let is_long = request.body().size_hint().upper().is_none_or(|most| most > UNASKED_BYTES_MAX)
        || encoding != Encoding::Identity;
    // JSON may name another dataset than the query does.
    if let Some(dataset) = dataset.clone().filter(|_| is_long && format != Format::Json) {
        app.datasets.find_owned(key, dataset).await?;
    }
    let mut limited =
        body_limit::read_body(request.into_body(), app.inserts.empty_permit(key)).await?;
    let body = limited.bytes.clone();
    // Parquet compresses its pages itself.
    let bytes_max = match encoding {
        Encoding::Gzip | Encoding::Zstd => body.len() * UNPACKED_TIMES,
        Encoding::Identity if body.starts_with(PARQUET_MAGIC) => {
            PAGES_BYTES_MIN.max(body.len() * PAGES_TIMES)
        }
        Encoding::Identity => body.len(),
    };
    let bytes_max = bytes_max.min(BODY_BYTES_MAX);
    limited.reserve(bytes_max).await?;
    let batch = InsertBatch { dataset, mode, format, encoding, body, bytes_max };
    let appended = match app.datasets.insert(key, batch.clone()).await {
        // It may be compressed better.
        Err(OperationError::TooLarge) if bytes_max < BODY_BYTES_MAX => {
            limited.reserve(BODY_BYTES_MAX).await?;
            app.datasets.insert(key, InsertBatch { bytes_max: BODY_BYTES_MAX, ..batch }).await?
        }
        appended => appended?,
    };
    Ok(Created(BulkInserted { inserted: appended.n_rows }))
}

/// The format of the body, by its content type.
fn parse_format(headers: &HeaderMap) -> Format {
    let text = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let kind = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match kind.as_str() {
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines" => Format::Ndjson,
        "text/csv" => Format::Csv,
        "application/vnd.apache.parquet" => Format::Parquet,
        _ => Format::Json,
    }
}

/// The content encoding of the body.
fn parse_encoding(headers: &HeaderMap) -> Result<Encoding, ApiError> {
    let text = headers.get(CONTENT_ENCODING).map_or(Ok(""), |value| value.to_str());
    match text.unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Encoding::Identity),
        "gzip" | "x-gzip" => Ok(Encoding::Gzip),
        "zstd" => Ok(Encoding::Zstd),
        _ => Err(ApiError::Unfit("content-encoding must be gzip or zstd".to_owned())),
    }
}
