//! `GET /api/rows/bulk_download/`: a whole range in one response, streamed as it is read; of Parquet also
//! byte ranges, and by `HEAD` the length.

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
    stream::KEY_PARAM,
};
use crate::download::{Download, DownloadRequest, DownloadResponse, RangeFacts};

/// The number of rows, where it is known before them.
const ROW_COUNT: HeaderName = HeaderName::from_static("x-row-count");

/// The parameters of a download, as document 2 lists them, and the key of callers without headers.
const PARAMS: [&str; 7] =
    ["dataset", "dataset_name", "start", "end", "resolution", "output", KEY_PARAM];
/// The form of a download.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct InForm {
    /// How the rows are written.
    #[param(schema_with = outputs)]
    output: Option<String>,
}

fn outputs() -> Object {
    one_of(Output::VARIANTS)
}

/// Reads a snapshot of a whole range in one response.
///
/// The range has no limit, and the answer is sent as it is read. An answer that breaks off before its
/// end says so by the connection: it is never shorter than it claims. Of Parquet, `Range` reads a part
/// of the file and `HEAD` its length, so that tools that scan files over HTTP read what they need; name
/// `end` where rows still come, for a file that stays the same. Of text there are no ranges of bytes:
/// ask for a part by `start` and `end`. A key has four downloads at a time.
#[utoipa::path(get, path = paths::ROWS_BULK_DOWNLOAD, operation_id = "download_rows", tag = "rows",
    params(WhichDataset, InBounds, AtResolution, InForm, KeyInQuery, SeenCommit),
    responses((status = 200, description = "All rows, oldest first", content(
            (Vec<FlatRow> = "application/json"), (String = "text/csv"),
            (String = "application/x-ndjson"), (Vec<u8> = "application/vnd.apache.parquet"),
            (Vec<u8> = "application/vnd.apache.arrow.stream")),
            headers(("X-Revision" = u64,
                description = "A commit of the dataset that it includes, the last one as it began"))),
        (status = 206, description = "The bytes of Parquet that `Range` asks for",
            body = Vec<u8>, content_type = "application/vnd.apache.parquet",
            headers(("X-Revision" = u64, description = "As of the whole file")))))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    accepted: Accepted,
    IfNoneMatch(known): IfNoneMatch,
    Seen(seen): Seen,
    request: Request,
) -> Result<Response> {
    let query = read_params(request.uri(), &PARAMS)?.download()?;
    let output = query.output;
    let coding = if output.is_text() { accepted.coding()? } else { Coding::Identity };
    let is_part = request.method() == Method::HEAD || request.headers().contains_key(RANGE);
    if output == Output::Parquet && is_part {
        let file = app.datasets.spool_download(key, query, seen).await?;
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
    // The length of text is not known before its end: `start` and `end` ask for a part.
    let ranges = if output == Output::Parquet { "bytes" } else { "none" };
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
