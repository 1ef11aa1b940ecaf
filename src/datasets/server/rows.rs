//! `/api/rows/`: reads pages of rows or buckets, and deletes ranges of rows.

use axum::Json;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse as _, Response};
use formats::content_coding::Coding;
use formats::write::{EnvelopeLinks, Writer, push_envelope};
use tsdb::span::Span;
use utoipa::openapi::schema::Object;
use wire::datasets::RowsDeleted;
use wire::paths;

use super::headers::{IfNoneMatch, Seen, not_modified, set_revision, set_tag};
use super::openapi::{
    AtResolution, InBounds, InColumns, InExtras, PageBody, PageOf, SeenCommit, WhichDataset, one_of,
};
use super::{Caller, read_params};
use crate::error::{Invalid, Result};
use crate::query::params::Params;
use crate::query::{self, RowsQuery};
use crate::read::{PageRequest, PageResponse, PageResponseBody, RowsPage};

/// Estimated number of bytes of a row in a page, enough for seven columns with nearly full precision.
const ROW_BYTES: usize = 320;

/// Position of a page.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct PagePosition {
    /// The page starts after the row with this timestamp, in the order of the query. Cannot be
    /// combined with `offset`.
    #[param(format = DateTime)]
    after: Option<String>,
    #[param(schema_with = orders)]
    ordering: Option<String>,
}

fn orders() -> Object {
    one_of(&["timestamp", "-timestamp"], "Oldest first, or newest first.")
}

/// Reads rows or buckets, page by page.
///
/// Without `start` and `end`, the query covers the widest span that the resolution allows, up to
/// the latest row that is not in the future. If all rows are in the future, up to the latest row. With
/// both, the span is limited: a day of raw rows, 7 days of `5m`, 21 days of `15m`, 90 days of `1h`,
/// 360 days of `4h`, no limit for `1d`, and 2016 buckets that are not stored: those of other lengths,
/// and days in a time zone.
///
/// With `after`, the cost of a page does not depend on its position, `count` is 0 and `previous`
/// null. Follow `next` until it is null. With `offset`, `previous` is the page that starts `limit`
/// rows earlier. Both links of such a query without `start` and `end` contain the span of the query,
/// so that all pages cover the same rows. With `start`, without `end` and newest first, rows that arrive
/// between two requests shift the pages by offset. Use `after` or add `end`.
///
/// A page is limited to about 16 MB, so it has fewer rows than requested if the rows are very long
/// or have very many columns. Its `next` continues after its last row.
#[utoipa::path(get, path = paths::ROWS, operation_id = "list_rows", tag = "rows",
    params(WhichDataset, InBounds, AtResolution, InColumns, InExtras, PageOf, PagePosition,
        SeenCommit),
    responses((status = 200, description = "A page of rows or buckets", body = PageBody,
        headers(("X-Revision" = u64,
            description = "The last commit of the dataset that the page includes"))),
        (status = 304, description = "`If-None-Match` has the tag of the page")))]
pub(super) async fn get(
    Caller { app, key }: Caller,
    IfNoneMatch(known): IfNoneMatch,
    Seen(seen): Seen,
    uri: Uri,
) -> Result<Response> {
    let params = read_params(&uri)?;
    let query = params.rows()?;
    let request = PageRequest { query, params, known, seen };
    let PageResponse { revision, body } = app.datasets.rows(key, request, render_body).await?;
    let (body, tag) = match body {
        PageResponseBody::NotModified(tag) => {
            return Ok(set_revision(not_modified(&tag), revision));
        }
        PageResponseBody::Page(body, tag) => (body, tag),
    };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(tag) = tag {
        set_tag(headers, tag, Coding::Identity);
    }
    Ok(set_revision(response, revision))
}

/// Deletes the rows of a range from a dataset that the key owns.
///
/// The buckets of these rows are updated, too, including buckets whose rows are no longer kept. Very many
/// rows are deleted in several commits, from the oldest row on; repeat a request that failed to delete
/// the rest. Both bounds are required, since a request with a forgotten bound would delete too much.
#[utoipa::path(delete, path = paths::ROWS, operation_id = "delete_rows", tag = "producing",
    params(WhichDataset,
        ("start" = String, Query, format = DateTime, description = "The first timestamp, inclusive."),
        ("end" = String, Query, format = DateTime, description = "The last timestamp, inclusive.")),
    responses((status = 200, description = "Number of deleted rows", body = RowsDeleted,
        headers(("X-Revision" = u64, description = "The last commit that deleted rows")))))]
pub(super) async fn delete(Caller { app, key }: Caller, uri: Uri) -> Result<Response> {
    let params = read_params(&uri)?;
    let (which, bounds) = (params.dataset()?, params.bounds()?);
    let (Some(first), Some(last)) = (bounds.start, bounds.end) else {
        return Err(Invalid::from("start and end are required").into());
    };
    if first > last {
        return Err(Invalid::from("start must not be after end").into());
    }
    let (removed, buckets) = app.datasets.delete_rows(key, which, Span { first, last }).await?;
    let body = Json(RowsDeleted { deleted: removed.n_rows, buckets });
    Ok(set_revision(body.into_response(), removed.revision))
}

fn render_body(page: &RowsPage<'_>, params: &Params) -> Vec<u8> {
    let next = page.next.map(|next| match next {
        query::Position::Offset(offset) => query::link_at_offset(paths::ROWS, params, offset),
        query::Position::After(cursor) => query::link_after(paths::ROWS, params, cursor),
    });
    let mut body = Vec::with_capacity(page.rows.len() * ROW_BYTES);
    let previous = match params.rows() {
        Ok(RowsQuery { position: query::Position::Offset(offset), limit, .. }) => {
            query::link_before(paths::ROWS, params, offset, limit)
        }
        _ => None,
    };
    let links = EnvelopeLinks { next: next.as_deref(), previous: previous.as_deref() };
    push_envelope(&mut body, i64::try_from(page.count).unwrap_or(i64::MAX), links);
    let mut writer = Writer::new(page.dataset, page.columns).with_current(page.current);
    writer.page(&mut body, &page.rows);
    body.extend_from_slice(b"]}");
    body
}
