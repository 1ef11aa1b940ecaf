//! `GET /api/rows/bulk_download/`: a whole range in one response, with byte ranges, and by `HEAD` the
//! length. Long ones are streamed as they are read.

use axum::{
    body::Body,
    extract::Request,
    http::{
        HeaderName, HeaderValue, Method,
        header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_TYPE, RANGE},
    },
    response::{IntoResponse as _, Response},
};
use formats::{content_coding::Coding, write::Output};
use futures::stream;
use strum::VariantNames as _;
use utoipa::openapi::schema::Object;
use wire::{datasets::FlatRow, paths};

use super::{
    Caller, byte_range,
    compressed::{Accepted, set_coding},
    conditional::{IfNoneMatch, not_modified, set_tag},
    error::Result,
    openapi::{AtResolution, InBounds, KeyInQuery, SeenCommit, WhichDataset, one_of},
    read_params,
    revision::{Seen, set_revision},
};
use crate::download::{Download, DownloadRequest, DownloadResponse, RangeFacts};

/// The number of rows, where it is known before them.
const ROW_COUNT: HeaderName = HeaderName::from_static("x-row-count");

/// Maximum number of rows of a text that is spooled before it is sent, for its length: they take a
/// second at most.
const SPOOLED_ROWS_MAX: u64 = 500_000;

/// The form of a download.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct InForm {
    /// Format of the rows.
    #[param(schema_with = outputs)]
    output: Option<String>,
}

fn outputs() -> Object {
    one_of(Output::VARIANTS)
}

/// Reads a snapshot of a whole range in one response.
///
/// The range has no limit. `Range` reads a part of the file and `HEAD` its length, so that tools that
/// scan files over HTTP read what they need. Name `end` if rows are still added, for a file that stays
/// the same. Both are of the uncompressed file, of at most 2 GiB. A longer one, or one of more than
/// half a million rows whose length was not asked for, is sent as it is read, without
/// `Content-Length`. A response that is truncated says so by the connection: it is never shorter than
/// it claims. A key has four downloads at a time.
#[utoipa::path(get, path = paths::ROWS_BULK_DOWNLOAD, operation_id = "download_rows", tag = "rows",
    params(WhichDataset, InBounds, AtResolution, InForm, KeyInQuery, SeenCommit),
    responses((status = 200, description = "All rows, oldest first", content(
            (Vec<FlatRow> = "application/json"), (String = "text/csv"),
            (String = "application/x-ndjson"), (Vec<u8> = "application/vnd.apache.parquet"),
            (Vec<u8> = "application/vnd.apache.arrow.stream")),
            headers(("X-Revision" = u64,
                description = "A commit of the dataset that it includes, the last one as it began"))),
        (status = 206, description = "The bytes that `Range` asks for", content(
            (Vec<u8> = "application/vnd.apache.parquet"), (String = "text/csv"),
            (String = "application/x-ndjson")),
            headers(("X-Revision" = u64, description = "As of the whole file")))))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    accepted: Accepted,
    IfNoneMatch(known): IfNoneMatch,
    Seen(seen): Seen,
    request: Request,
) -> Result<Response> {
    let query = read_params(request.uri())?.download()?;
    let output = query.output;
    let is_part = request.method() == Method::HEAD || request.headers().contains_key(RANGE);
    let coding = if output.is_text() && !is_part { accepted.coding()? } else { Coding::Identity };
    let rows_max = if is_part { u64::MAX } else { SPOOLED_ROWS_MAX };
    let is_spooled = is_part || output.is_text() && coding == Coding::Identity;
    let file = if is_spooled {
        app.datasets.spool_download(key, query.clone(), seen, rows_max).await?
    } else {
        None
    };
    if let Some(file) = file {
        if let Some(known) = file.facts.and_then(|facts| known.find(facts.tag)) {
            return Ok(set_revision(not_modified(&known), file.revision));
        }
        let response = byte_range::respond(file.clone(), request.headers());
        let response = set_headers(response, output, coding, &file.file_name, file.facts);
        return Ok(set_revision(response, file.revision));
    }
    let wanted = DownloadRequest { query, coding, known, seen };
    let download = match app.datasets.download(key, wanted).await? {
        DownloadResponse::NotModified(known, revision) => {
            return Ok(set_revision(not_modified(&known), revision));
        }
        DownloadResponse::Range(download) => download,
    };
    let Download { body, file_name, facts, revision } = download;
    let body = stream::unfold(body, async |mut body| Some((body.next().await?, body)));
    let response = Body::from_stream(body).into_response();
    Ok(set_revision(set_headers(response, output, coding, &file_name, facts), revision))
}

/// Sets the headers that describe a download.
fn set_headers(
    mut response: Response,
    output: Output,
    coding: Coding,
    file_name: &str,
    facts: Option<RangeFacts>,
) -> Response {
    let headers = response.headers_mut();
    let ranges = if coding == Coding::Identity { "bytes" } else { "none" };
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static(ranges));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(output.content_type()));
    let disposition = format!("attachment; filename=\"{file_name}\"");
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    if let Some(facts) = facts {
        set_tag(headers, facts.tag, coding);
        headers.insert(ROW_COUNT, HeaderValue::from(facts.n_rows));
    }
    set_coding(headers, coding);
    response
}
