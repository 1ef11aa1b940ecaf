//! `POST /api/rows/bulk_insert/`: stores all rows of a body or no row.
//!
//! The content type selects the format: JSON, NDJSON, CSV or Parquet. The default is JSON, unless the
//! body begins like a Parquet file. The content encoding can be gzip or zstd. The query names the
//! dataset, or the body if it is JSON. The memory for bodies is limited, in total and for each key.

use std::time::Duration;

use axum::body::{Body, HttpBody as _};
use axum::extract::Request;
use axum::http::HeaderMap;
use axum::http::header::CONTENT_ENCODING;
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use formats::content_coding::Coding;
use futures::StreamExt as _;
use model::idempotency::{IdempotencyKey, IdempotencyKeyError};
use model::key::KeyId;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tsdb::store::{AppendMode, Appended};
use utoipa::openapi::schema::Object;
use web::extract::{BodyError, media_type};
use web::response::Created;
use wire::datasets::{BulkInsert, BulkInserted};
use wire::paths::{self, IDEMPOTENCY_KEY_HEADER};

use super::error::{CROWDED, STALLED};
use super::headers::set_revision;
use super::openapi::{WhichDataset, one_of};
use super::{App, Caller, read_params};
use crate::error::{BODY_BYTES_MAX, Invalid, OperationError, Result};
use crate::insert::{Format, InsertBatch, PARQUET_MAGIC};
use crate::key_limit::{KeyLimit, KeyPermit};

/// Maximum length of a body that is read before the service checks that the key owns the dataset.
/// Reading such a body is faster than the check.
const UNCHECKED_BYTES_MAX: u64 = 64 * 1024;

/// Memory that is reserved at first for a decompressed body, as a multiple of the compressed length.
/// Text is rarely compressed better.
const UNPACKED_TIMES: usize = 16;

/// Like [`UNPACKED_TIMES`], for a Parquet file. The multiple is lower, since values are encoded before
/// pages are compressed.
const PAGES_TIMES: usize = 4;

/// Minimum memory that is reserved for a Parquet file, since a dictionary can encode many texts in a few
/// bytes.
const PAGES_BYTES_MIN: usize = 1024 * 1024;

/// Factor by which the memory for a body grows with each attempt to insert it. Each failed attempt stops
/// early. All of them together take a fraction of the time of the last one.
const MORE_TIMES: usize = 8;

/// Mode of an insert.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what the handler reads")]
pub(super) struct InMode {
    #[param(schema_with = modes)]
    mode: Option<String>,
}

fn modes() -> Object {
    let about = "Effect of a row on the stored row with the same timestamp: it replaces that row, or, for \
        at most 10 000 rows, changes only the columns that it names.";
    one_of(&["replace", "merge"], about)
}

/// Inserts rows into a dataset that the key owns: all rows of the body, or none.
///
/// A row replaces the stored row with the same timestamp, so a batch can be sent again. With
/// `mode=merge`, values that the row leaves out stay unchanged. When the response arrives, the rows and
/// their buckets are durable, and followers have received them.
///
/// NDJSON has a row per line, flat or as in JSON. CSV has a header line that names `timestamp` and
/// the columns. Parquet has the same columns. Its timestamps are in UTC unless they name a zone,
/// and its pages are compressed with snappy, zstd, `lz4_raw` or not at all. These three formats
/// name their dataset in the query. If rows are rejected, `details` has their number and the first
/// reasons.
///
/// `Idempotency-Key` names the request, so that its rows are stored once even if it is sent several
/// times. The response is kept for a day, or until 100 000 later requests of the API key. A
/// repeated request gets the same response, with the same `revision`. A request with the same name
/// but a different body or query is a 422. While the first attempt is in progress, the response is
/// a 409 with `Retry-After`. Rejected requests are not kept.
///
/// Timestamps are in the years 0 to 9999, up to 9999-12-29. A text has at most 10 000 bytes, and
/// all texts of a row have at most 16 384. A request has at most 100 000 rows, and its rows times the
/// columns of the dataset are at most 10 000 000.
#[utoipa::path(post, path = paths::ROWS_BULK_INSERT, operation_id = "insert_rows", tag = "producing",
    params(WhichDataset, InMode, ("Content-Encoding" = Option<String>, Header,
        pattern = "^(identity|gzip|zstd)$", description = "Compression of the body, if any."),
        ("Idempotency-Key" = Option<String>, Header, description = "A name of 1 to 128 visible \
            characters for this request, such as a UUID, in quotes or not. Each request needs a \
            new key, and a retry the same key.",
            pattern = r#"^([!#-\[\]-~]{1,128}|"[!#-\[\]-~]{1,128}")$"#)),
    request_body(content((BulkInsert = "application/json"), (String = "application/x-ndjson"),
        (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet"))),
    responses((status = 201, description = "Number of stored rows", body = BulkInserted,
        headers(("X-Revision" = u64, description = "The commit that stored the rows")))))]
pub(super) async fn post(Caller { app, key }: Caller, request: Request) -> Result<Response> {
    let (format, coding) = (parse_format(request.headers()), parse_encoding(request.headers())?);
    let name = parse_key(request.headers())?;
    let params = read_params(request.uri())?;
    let mode = match params.get("mode") {
        None | Some("replace") => AppendMode::Replace,
        Some("merge") => AppendMode::Merge,
        Some(_) => return Err(Invalid::from("mode must be replace or merge").into()),
    };
    let dataset = match format {
        Format::Json if params.get("dataset").or(params.get("dataset_name")).is_none() => None,
        _ => Some(params.dataset()?),
    };
    let is_long = request.body().size_hint().upper().is_none_or(|most| most > UNCHECKED_BYTES_MAX)
        || coding != Coding::Identity;
    // Rejects a long or compressed body before it is read if the key does not own the dataset.
    if let Some(dataset) = dataset.clone().filter(|_| is_long) {
        app.datasets.find_owned(key, dataset).await?;
    }
    let limited = read_body(request.into_body(), app.inserts.empty_permit(key)).await?;
    let body = limited.bytes.clone();
    // Parquet files are compressed internally, without a content encoding.
    let bytes_max = match coding {
        Coding::Gzip | Coding::Zstd => body.len() * UNPACKED_TIMES,
        Coding::Identity if body.starts_with(PARQUET_MAGIC) => {
            PAGES_BYTES_MIN.max(body.len() * PAGES_TIMES)
        }
        Coding::Identity => body.len(),
    };
    let bytes_max = bytes_max.min(BODY_BYTES_MAX);
    let batch = InsertBatch { dataset, mode, format, coding, body, bytes_max, key: name.clone() };
    let appended = insert_to_end(app, key, batch, limited).await?;
    let revision = name.map(|_| appended.revision);
    let created = Created(BulkInserted { inserted: appended.n_rows, revision });
    Ok(set_revision(created.into_response(), appended.revision))
}

/// Inserts a batch. The permits of `limited` are held until its rows are stored, even if the caller is
/// cancelled.
async fn insert_to_end(
    app: App,
    key: KeyId,
    mut batch: InsertBatch,
    mut limited: LimitedBody,
) -> Result<Appended> {
    let (reply, answer) = oneshot::channel();
    let group = app.group.clone();
    let insert = async move {
        loop {
            limited.reserve(batch.bytes_max).await?;
            match app.datasets.insert(key, batch.clone()).await {
                // Repeats the insert with more memory, since the body can have a higher compression
                // ratio than assumed, or rows with many missing values.
                Err(OperationError::TooLarge | OperationError::TooManyCells)
                    if batch.bytes_max < BODY_BYTES_MAX =>
                {
                    let more = batch.bytes_max.max(PERMIT_BYTES) * MORE_TIMES;
                    batch.bytes_max = more.min(BODY_BYTES_MAX);
                    // Returns the permits first: two inserts that wait for more while they hold some
                    // would wait for each other.
                    (limited.permit, limited.n_bytes) = (app.inserts.empty_permit(key), 0);
                }
                inserted => return inserted,
            }
        }
    };
    group.spawn_to_end("insert", async move { drop(reply.send(insert.await)) });
    answer.await.map_err(|_| OperationError::lost_task(&group))?
}

/// Returns the format of the body by its content type.
fn parse_format(headers: &HeaderMap) -> Format {
    match media_type(headers).as_str() {
        "application/x-ndjson"
        | "application/ndjson"
        | "application/jsonl"
        | "application/x-jsonlines" => Format::Ndjson,
        "text/csv" => Format::Csv,
        "application/vnd.apache.parquet" => Format::Parquet,
        _ => Format::Json,
    }
}

/// Returns the idempotency key of the request, if it has one.
fn parse_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
    let key = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().ok().and_then(|text| text.parse().ok()),
        // Two keys are rejected, since it is unclear which of them applies.
        (Some(_), Some(_)) => None,
    };
    let unfit = || Invalid::from(IdempotencyKeyError.to_string());
    Ok(Some(key.ok_or_else(unfit)?))
}

/// Returns the content encoding of the body.
fn parse_encoding(headers: &HeaderMap) -> Result<Coding> {
    let text = headers.get(CONTENT_ENCODING).map_or(Ok(""), |value| value.to_str());
    match text.unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Coding::Identity),
        "gzip" | "x-gzip" => Ok(Coding::Gzip),
        "zstd" => Ok(Coding::Zstd),
        _ => Err(Invalid::from("content-encoding must be gzip or zstd").into()),
    }
}

/// Number of bytes of memory for which a body needs one permit.
pub(super) const PERMIT_BYTES: usize = 16 * 1024;

/// Maximum size of all bodies in memory: two bodies of maximum length, or thousands of small bodies. The
/// parsed rows of a body occupy about five times as much.
const BYTES_MAX: usize = 2 * BODY_BYTES_MAX;

/// Maximum time to wait for permits, which ends a deadlock between two bodies that wait for each other.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// Maximum time to wait for the next part of a body, since the parts already received hold permits.
const NEXT_WITHIN: Duration = Duration::from_secs(10);

/// Maximum memory that is allocated for a body before its content arrives.
const FIRST_BYTES_MAX: usize = 1024 * 1024;

/// Creates a limit of [`BYTES_MAX`] in total. A key can use as much of it as one body of maximum length.
pub(super) fn new_limit() -> KeyLimit {
    KeyLimit::new(BYTES_MAX.div_ceil(PERMIT_BYTES), BODY_BYTES_MAX.div_ceil(PERMIT_BYTES))
}

/// Body of an insert, and the permits for the memory that it occupies.
#[derive(Debug)]
struct LimitedBody {
    bytes: Bytes,
    permit: KeyPermit,
    /// Number of bytes that the permits cover.
    n_bytes: usize,
}

/// Reads a body of at most [`BODY_BYTES_MAX`] bytes.
///
/// # Errors
/// [`OperationError::TooLarge`] if the body is too long, [`BodyError`] if it is truncated, [`STALLED`] if
/// the next part does not arrive in time, or [`CROWDED`] if no permits become available in time.
async fn read_body(body: Body, permit: KeyPermit) -> Result<LimitedBody> {
    let length_min = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if length_min > BODY_BYTES_MAX {
        return Err(OperationError::TooLarge);
    }
    let mut limited = LimitedBody { bytes: Bytes::new(), permit, n_bytes: 0 };
    let mut parts = body.into_data_stream();
    let mut bytes = Vec::new();
    loop {
        let next = timeout(NEXT_WITHIN, parts.next()).await.map_err(|_| STALLED)?;
        let Some(part) = next else { break };
        let part = part.map_err(|_| BodyError::Broken)?;
        let n_bytes = bytes.len() + part.len();
        if n_bytes > BODY_BYTES_MAX {
            return Err(OperationError::TooLarge);
        }
        limited.reserve(n_bytes).await?;
        // Fast path for a body that arrives as a single part, as most small bodies do.
        if bytes.is_empty() && part.len() == length_min {
            limited.bytes = part;
            return Ok(limited);
        }
        if bytes.is_empty() {
            bytes.reserve(length_min.min(FIRST_BYTES_MAX).max(part.len()));
        }
        bytes.extend_from_slice(&part);
    }
    limited.bytes = bytes.into();
    Ok(limited)
}

impl LimitedBody {
    /// Waits until permits for `n_bytes` bytes are held in total.
    ///
    /// # Errors
    /// [`CROWDED`] if the permits do not become available in time.
    async fn reserve(&mut self, n_bytes: usize) -> Result<()> {
        if n_bytes <= self.n_bytes {
            return Ok(());
        }
        let n_permits = (n_bytes - self.n_bytes).div_ceil(PERMIT_BYTES);
        let more = self.permit.acquire(u32::try_from(n_permits).unwrap_or(u32::MAX));
        timeout(ROOM_WITHIN, more).await.map_err(|_| CROWDED)?;
        self.n_bytes += n_permits * PERMIT_BYTES;
        Ok(())
    }
}
