//! `GET /api/rows/bulk_download/`: all rows of a range in one response, with byte ranges and `HEAD`. A
//! long range is sent while it is read. `GET /api/rows/live/`: the latest rows.

use std::io;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, IF_RANGE,
    RANGE,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, Uri};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use formats::content_coding::Coding;
use formats::write::Output;
use formats::write::document::Document;
use futures::stream;
use percent_encoding::utf8_percent_encode;
use strum::VariantNames as _;
use utoipa::openapi::schema::Object;
use wire::datasets::FlatRow;
use wire::paths;

use super::error::BEYOND_END;
use super::headers::{
    Accepted, IfNoneMatch, Seen, not_modified, set_coding, set_revision, set_tag,
};
use super::openapi::{
    AtResolution, InBounds, InColumns, InExtras, KeyInQuery, SeenCommit, WhichDataset, one_of,
};
use super::{Caller, read_params};
use crate::download::spool::SpooledFile;
use crate::download::{Download, DownloadRequest, DownloadResponse, RangeFacts};
use crate::error::Result;
use crate::query::ESCAPED;
use crate::read::RowsPage;

/// Header with the number of rows, if it is known before the rows are read.
const ROW_COUNT: HeaderName = HeaderName::from_static("x-row-count");

/// Maximum number of rows of a text file that is stored as a file before it is sent, so that its length
/// is known. Storing takes at most a second.
const SPOOLED_ROWS_MAX: u64 = 500_000;

/// Form of a download.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct InForm {
    #[param(schema_with = outputs)]
    output: Option<String>,
}

fn outputs() -> Object {
    let about =
        "Format of the rows. The default is `ndjson` for the latest rows, otherwise `json`.";
    let mut outputs = one_of(Output::VARIANTS, about);
    outputs.default = None;
    outputs
}

/// Reads a whole range in one response.
///
/// The response is a snapshot if the rows are in a file of the service. Rows in PostgreSQL and archived
/// rows are read in parts: a part has the changes that were made before it was read, even if an earlier
/// part lacks them. Rows that are added after the start at the end of the range are omitted.
///
/// The range has no limit. `Range` reads a part of the file and `HEAD` its length, so that tools
/// that scan files over HTTP read only what they need. Both apply to the uncompressed file, which
/// can have up to 2 GiB. Pass `end` while rows are being added, so that the file stays the same. A
/// longer file, or one of more than half a million rows requested without `Range` or `HEAD`, is
/// sent as it is read, without `Content-Length`. A truncated response ends its connection with an
/// error. A key can have four concurrent downloads.
#[utoipa::path(get, path = paths::ROWS_BULK_DOWNLOAD, operation_id = "download_rows", tag = "rows",
    params(WhichDataset, InBounds, AtResolution, InColumns, InExtras, InForm, KeyInQuery, SeenCommit),
    responses((status = 200, description = "All rows, oldest first", content(
            (Vec<FlatRow> = "application/json"), (String = "text/csv"),
            (String = "application/x-ndjson"), (Vec<u8> = "application/vnd.apache.parquet"),
            (Vec<u8> = "application/vnd.apache.arrow.stream")),
            headers(("X-Revision" = u64,
                description = "A commit of the dataset that the rows include: the last one when reading began"))),
        (status = 206, description = "The requested bytes", content(
            (Vec<u8> = "application/vnd.apache.parquet"), (String = "text/csv"),
            (String = "application/x-ndjson"), (String = "application/json"),
            (Vec<u8> = "application/vnd.apache.arrow.stream")),
            headers(("X-Revision" = u64, description = "The same as of the whole file"),
                ("Content-Range" = String, description = "The range and the length of the file"))),
        (status = 304, description = "`If-None-Match` has the tag of the file")))]
pub(super) async fn bulk_download(
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
        app.datasets.spool_download(key, query.clone(), seen, &known, rows_max).await?
    } else {
        None
    };
    if let Some(file) = file {
        if let Some(known) = file.facts.and_then(|facts| known.find(facts.tag)) {
            return Ok(set_revision(not_modified(&known), file.revision));
        }
        let response = respond_part(file.clone(), request.headers());
        if response.status() == StatusCode::RANGE_NOT_SATISFIABLE {
            return Ok(set_revision(response, file.revision));
        }
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

/// Sets the headers that describe a download in its response.
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
    let plain = file_name.replace(|letter: char| !letter.is_ascii(), "_");
    let mut disposition = format!("attachment; filename=\"{plain}\"");
    if plain != file_name {
        // RFC 6266 and RFC 8187.
        let escaped = utf8_percent_encode(file_name, ESCAPED);
        disposition = format!("{disposition}; filename*=UTF-8''{escaped}");
    }
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

/// Part of a file that a request selects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ByteRange {
    All,
    /// Bytes from the first offset up to the second, which is excluded.
    Part(u64, u64),
    /// The range begins beyond the end of the file.
    Unsatisfiable,
}

/// Returns the response with the file, or with the part that `headers` select (RFC 9110, section 14).
fn respond_part(file: SpooledFile, headers: &HeaderMap) -> Response {
    let text = |value: &HeaderValue| value.to_str().unwrap_or_default().to_owned();
    let tag = file.facts.map(|facts| format!("\"{}\"", facts.tag));
    // Ignores `Range` if the caller has parts of another version, with which a part of this file would
    // not fit together.
    let is_same = headers.get(IF_RANGE).is_none_or(|known| Some(text(known)) == tag);
    let range = headers.get(RANGE).filter(|_| is_same).map(text);
    let size = file.size_bytes;
    let wanted = range.map_or(ByteRange::All, |range| parse_range(&range, size));
    let (begin, end) = match wanted {
        ByteRange::All => (0, size),
        ByteRange::Part(begin, end) => (begin, end),
        ByteRange::Unsatisfiable => {
            let mut response = BEYOND_END.into_response();
            set_header(&mut response, CONTENT_RANGE, &format!("bytes */{size}"));
            return response;
        }
    };
    let file = Arc::new(file);
    let parts = stream::try_unfold(begin, move |at| {
        let file = Arc::clone(&file);
        async move {
            if at >= end {
                return Ok::<_, io::Error>(None);
            }
            let part: Bytes = file.read(at, end).await?;
            let next = at + part.len() as u64;
            Ok(Some((part, next)))
        }
    });
    let mut response = Body::from_stream(parts).into_response();
    set_header(&mut response, CONTENT_LENGTH, &(end - begin).to_string());
    if wanted != ByteRange::All {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        set_header(&mut response, CONTENT_RANGE, &format!("bytes {begin}-{}/{size}", end - 1));
    }
    response
}

fn set_header(response: &mut Response, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        response.headers_mut().insert(name, value);
    }
}

/// Parses the `Range` header for a file of `size` bytes. Several ranges, other units and malformed
/// ranges result in the whole file, as the RFC allows.
fn parse_range(range: &str, size: u64) -> ByteRange {
    let Some(bounds) = range.trim().strip_prefix("bytes=") else { return ByteRange::All };
    let Some((first, last)) = bounds.split_once('-') else { return ByteRange::All };
    let (first, last) = (first.trim(), last.trim());
    let part = match (first.parse::<u64>(), last.parse::<u64>()) {
        (Ok(first), Ok(last)) if first <= last => (first, size.min(last.saturating_add(1))),
        (Ok(first), Err(_)) if last.is_empty() => (first, size),
        (Err(_), Ok(n_last)) if first.is_empty() => (size.saturating_sub(n_last), size),
        _ => return ByteRange::All,
    };
    match part {
        (begin, end) if begin < end => ByteRange::Part(begin, end),
        _ => ByteRange::Unsatisfiable,
    }
}

/// Reads the latest rows, newest first, one per line.
///
/// The response is limited to about 16 MB, so it has fewer rows than requested if they are very
/// long.
#[utoipa::path(get, path = paths::ROWS_LIVE, operation_id = "newest_rows", tag = "rows",
    params(WhichDataset, InBounds, InColumns, InForm, SeenCommit, ("limit" = Option<u64>, Query, minimum = 1,
        description = "Maximum number of rows, 100 by default. A limit above 10 000 is lowered to that.")),
    responses((status = 200, description = "Rows, by default one JSON object in each line", content(
            (String = "application/x-ndjson"), (Vec<FlatRow> = "application/json"),
            (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet"),
            (Vec<u8> = "application/vnd.apache.arrow.stream")),
        headers(("X-Revision" = u64,
            description = "The last commit of the dataset that the rows include")))))]
pub(super) async fn live(
    Caller { app, key }: Caller,
    Seen(seen): Seen,
    uri: Uri,
) -> Result<Response> {
    let (query, output) = read_params(&uri)?.live()?;
    let render = move |page: &RowsPage<'_>| (body(page, output), page.revision);
    let (body, revision) = app.datasets.newest(key, query, seen, render).await?;
    let content_type = HeaderValue::from_static(output.content_type());
    Ok(set_revision(([(CONTENT_TYPE, content_type)], body).into_response(), revision))
}

fn body(page: &RowsPage<'_>, output: Output) -> Vec<u8> {
    let mut body = Vec::new();
    let mut document = Document::new(output, page.dataset, page.columns, None);
    document.begin(&mut body);
    document.rows(&mut body, &page.rows);
    document.end(&mut body);
    body
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn range_header_is_parsed_as_a_part_or_the_whole_file_or_unsatisfiable() {
        for (range, want) in [
            ("bytes=0-0", ByteRange::Part(0, 1)),
            ("bytes=5-", ByteRange::Part(5, 10)),
            ("bytes=5-99", ByteRange::Part(5, 10)),
            ("bytes=-3", ByteRange::Part(7, 10)),
            ("bytes=-99", ByteRange::Part(0, 10)),
            ("bytes=10-", ByteRange::Unsatisfiable),
            ("bytes=-0", ByteRange::Unsatisfiable),
            ("bytes=5-4", ByteRange::All),
            ("bytes=0-1,3-4", ByteRange::All),
            ("rows=0-1", ByteRange::All),
            ("bytes=x", ByteRange::All),
        ] {
            assert_eq!(parse_range(range, 10), want, "{range}");
        }
        assert_eq!(parse_range("bytes=0-", 0), ByteRange::Unsatisfiable);
    }
}
