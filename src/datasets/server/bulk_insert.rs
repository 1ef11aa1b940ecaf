//! `POST /api/rows/bulk_insert/`: stores all rows of a body, or none.
//!
//! The content type names the format: JSON, NDJSON, CSV or Parquet; JSON by default, unless the body
//! starts as Parquet does. The content encoding may be gzip or zstd. The query names the dataset, or
//! the body if it is JSON. Bodies are read within a common limit of memory and a limit for each key.

use std::time::Duration;

use axum::{
    body::{Body, HttpBody as _},
    extract::Request,
    http::{
        HeaderMap,
        header::{CONTENT_ENCODING, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
};
use bytes::Bytes;
use formats::content_coding::Coding;
use futures::StreamExt as _;
use model::idempotency::{IdempotencyKey, IdempotencyKeyError};
use tokio::time::timeout;
use tsdb::store::AppendMode;
use utoipa::openapi::schema::Object;
use web::{extract::BodyError, response::Created};
use wire::{
    datasets::{BulkInsert, BulkInserted},
    paths::{self, IDEMPOTENCY_KEY_HEADER},
};

use super::{
    BODY_BYTES_MAX, Caller,
    conditional::set_revision,
    error::{CROWDED, Result, STALLED},
    openapi::{WhichDataset, one_of},
    read_params,
};
use crate::{
    error::{OperationError, Unfit},
    insert::{Format, InsertBatch, PARQUET_MAGIC},
    key_limit::{KeyLimit, KeyPermit},
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
/// How rows are inserted.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what the handler reads")]
pub(super) struct InMode {
    /// What a row does to the one at its timestamp: replaces it, or, for at most 10 000 rows, changes
    /// the columns that it names and no others.
    #[param(schema_with = modes)]
    mode: Option<String>,
}

fn modes() -> Object {
    one_of(&["replace", "merge"])
}

/// Inserts rows into a dataset that the key owns: all of them, or none.
///
/// A row at an existing timestamp replaces it, so that a batch may be sent again; with `mode=merge` the
/// values that it leaves out stay as they are. When the answer comes the rows and their buckets are
/// durable, and followers have them.
///
/// NDJSON has a row in each line, flat or as in JSON; CSV has a header line that names `timestamp` and
/// columns; Parquet has them as columns, its timestamps in UTC where they name no zone, compressed with
/// snappy, zstd, `lz4_raw` or not at all. All three have their dataset in the query. Refused rows are in
/// `details`: how many, and what is wrong with the first of them.
///
/// `Idempotency-Key` names the request, so that it is stored once however often it is sent. The
/// answer to it is kept for a day, or until 100 000 others of the key followed: the same request
/// gets it again, with the same `revision`, while another body or query is a 422. While its first try
/// is under way it is a 409 with `Retry-After`. A request that was refused is not kept.
///
/// A row has a timestamp of the years 0 to 9999, up to 9999-12-29. A text has at most 10 000 bytes, all
/// texts of a row have at most 16 384.
#[utoipa::path(post, path = paths::ROWS_BULK_INSERT, operation_id = "insert_rows", tag = "producing",
    params(WhichDataset, InMode, ("Content-Encoding" = Option<String>, Header,
        pattern = "^(identity|gzip|zstd)$", description = "How the body is compressed, if it is."),
        ("Idempotency-Key" = Option<String>, Header, description = "A name of 1 to 128 visible \
            characters for this request, such as a UUID, in quotes or not. A key of its own for each \
            request, and the same when it is sent again.",
            pattern = r#"^([!#-\[\]-~]{1,128}|"[!#-\[\]-~]{1,128}")$"#)),
    request_body(content((BulkInsert = "application/json"), (String = "application/x-ndjson"),
        (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet"))),
    responses((status = 201, description = "How many rows are stored", body = BulkInserted,
        headers(("X-Revision" = u64, description = "The commit that stored them")))))]
pub(super) async fn post(Caller { app, key }: Caller, request: Request) -> Result<Response> {
    let (format, coding) = (parse_format(request.headers()), parse_encoding(request.headers())?);
    let name = parse_key(request.headers())?;
    let params = read_params(request.uri())?;
    let mode = match params.get("mode") {
        None | Some("replace") => AppendMode::Replace,
        Some("merge") => AppendMode::Merge,
        Some(_) => return Err(Unfit::from("mode must be replace or merge").into()),
    };
    let dataset = match format {
        Format::Json if params.get("dataset").or(params.get("dataset_name")).is_none() => None,
        _ => Some(params.dataset()?),
    };
    let is_long = request.body().size_hint().upper().is_none_or(|most| most > UNASKED_BYTES_MAX)
        || coding != Coding::Identity;
    // JSON may name another dataset than the query does.
    if let Some(dataset) = dataset.clone().filter(|_| is_long && format != Format::Json) {
        app.datasets.find_owned(key, dataset).await?;
    }
    let mut limited = read_body(request.into_body(), app.inserts.empty_permit(key)).await?;
    let body = limited.bytes.clone();
    // Parquet compresses its pages itself.
    let bytes_max = match coding {
        Coding::Gzip | Coding::Zstd => body.len() * UNPACKED_TIMES,
        Coding::Identity if body.starts_with(PARQUET_MAGIC) => {
            PAGES_BYTES_MIN.max(body.len() * PAGES_TIMES)
        }
        Coding::Identity => body.len(),
    };
    let bytes_max = bytes_max.min(BODY_BYTES_MAX);
    limited.reserve(bytes_max).await?;
    let batch = InsertBatch { dataset, mode, format, coding, body, bytes_max, key: name.clone() };
    let appended = match app.datasets.insert(key, batch.clone()).await {
        // It may be compressed better.
        Err(OperationError::TooLarge) if bytes_max < BODY_BYTES_MAX => {
            limited.reserve(BODY_BYTES_MAX).await?;
            app.datasets.insert(key, InsertBatch { bytes_max: BODY_BYTES_MAX, ..batch }).await?
        }
        appended => appended?,
    };
    let revision = name.map(|_| appended.revision);
    let created = Created(BulkInserted { inserted: appended.n_rows, revision });
    Ok(set_revision(created.into_response(), appended.revision))
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

/// The idempotency key, if there is one.
fn parse_key(headers: &HeaderMap) -> Result<Option<IdempotencyKey>> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY_HEADER).iter();
    let key = match (values.next(), values.next()) {
        (None, _) => return Ok(None),
        (Some(value), None) => value.to_str().ok().and_then(|text| text.parse().ok()),
        // Which of them is meant?
        (Some(_), Some(_)) => None,
    };
    let unfit = || Unfit::from(IdempotencyKeyError.to_string());
    Ok(Some(key.ok_or_else(unfit)?))
}

/// The content encoding of the body.
fn parse_encoding(headers: &HeaderMap) -> Result<Coding> {
    let text = headers.get(CONTENT_ENCODING).map_or(Ok(""), |value| value.to_str());
    match text.unwrap_or("?").trim().to_ascii_lowercase().as_str() {
        "" | "identity" => Ok(Coding::Identity),
        "gzip" | "x-gzip" => Ok(Coding::Gzip),
        "zstd" => Ok(Coding::Zstd),
        _ => Err(Unfit::from("content-encoding must be gzip or zstd").into()),
    }
}

/// Bytes of one permit.
pub(super) const PERMIT_BYTES: usize = 16 * 1024;

/// Bytes of bodies in memory at a time: two of the longest, or thousands of small ones. The rows of a
/// body take about five times its length.
const BYTES_MAX: usize = 2 * BODY_BYTES_MAX;

/// How long a body waits for permits. It ends a deadlock of two bodies that wait for each other.
const ROOM_WITHIN: Duration = Duration::from_secs(10);

/// How long the next part of a body may take to arrive, while its beginning holds permits.
const NEXT_WITHIN: Duration = Duration::from_secs(10);

/// Memory at most that is allocated for a body before it arrives.
const FIRST_BYTES_MAX: usize = 1024 * 1024;

/// A limit of [`BYTES_MAX`], of which each key may hold one of the longest bodies.
pub(super) fn new_limit() -> KeyLimit {
    KeyLimit::new(BYTES_MAX.div_ceil(PERMIT_BYTES), BODY_BYTES_MAX.div_ceil(PERMIT_BYTES))
}

/// A body, and the permits for it and for the rows made of it.
#[derive(Debug)]
struct LimitedBody {
    bytes: Bytes,
    permit: KeyPermit,
    /// Bytes that the permits stand for.
    n_bytes: usize,
}

/// Reads a body of at most [`BODY_BYTES_MAX`].
///
/// # Errors
/// [`BodyError`] if it is too long or truncated, [`STALLED`] if it stops arriving,
/// [`CROWDED`] if there are no permits for it in time.
async fn read_body(body: Body, permit: KeyPermit) -> Result<LimitedBody> {
    let length_min = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if length_min > BODY_BYTES_MAX {
        return Err(BodyError::TooLarge.into());
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
            return Err(BodyError::TooLarge.into());
        }
        limited.reserve(n_bytes).await?;
        // Most small bodies arrive in one part.
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
    /// Waits for permits for `n_bytes` in all.
    ///
    /// # Errors
    /// [`CROWDED`] if they are not available in time.
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
