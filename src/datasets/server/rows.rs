//! `/api/rows/`: rows or buckets, page by page; and rows deleted, by range.

use axum::{
    Json,
    extract::State,
    http::{HeaderValue, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use formats::{
    content_coding::Coding,
    write::{Writer, push_envelope},
};
use tsdb::span::Span;
use wire::{datasets::RowsDeleted, paths::ROWS};

use super::{
    App, Caller,
    conditional::{IfNoneMatch, not_modified, set_tag},
    error::ApiError,
};
use crate::{
    query::{link, params::Params},
    read::{NextPage, PageRequest, PageResponse, RowsPage},
};

/// About how long a row of a page is: seven columns of full precision have some more.
const ROW_BYTES: usize = 320;

/// The parameters of a page, as document 2 lists them.
const PARAMS: [&str; 9] = [
    "dataset",
    "dataset_name",
    "start",
    "end",
    "resolution",
    "limit",
    "offset",
    "after",
    "ordering",
];

/// The parameters of a deletion.
const DELETE_PARAMS: [&str; 4] = ["dataset", "dataset_name", "start", "end"];

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    IfNoneMatch(known): IfNoneMatch,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params(web::extract::pairs(&uri)?).check_names(&PARAMS)?;
    let query = params.rows()?;
    let (body, tag) =
        match app.datasets.rows(key, PageRequest { query, params, known }, render_body).await? {
            PageResponse::NotModified(tag) => return Ok(not_modified(&tag)),
            PageResponse::Page(body, tag) => (body, tag),
        };
    let mut response = body.into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    if let Some(tag) = tag {
        set_tag(headers, tag, Coding::Identity);
    }
    Ok(response)
}

/// Deletes the rows from `start` to `end`, both inclusive. Both are required: a forgotten bound would
/// delete everything.
pub(super) async fn delete(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Json<RowsDeleted>, ApiError> {
    let params = Params(web::extract::pairs(&uri)?).check_names(&DELETE_PARAMS)?;
    let (which, bounds) = (params.dataset()?, params.bounds()?);
    let (Some(first), Some(last)) = (bounds.start, bounds.end) else {
        return Err(ApiError::Unfit("start and end are required".to_owned()));
    };
    if first > last {
        return Err(ApiError::Unfit("start must not be after end".to_owned()));
    }
    let deleted = app.datasets.delete_rows(key, which, Span { first, last }).await?;
    Ok(Json(RowsDeleted { deleted }))
}

fn render_body(page: &RowsPage<'_>, params: &Params) -> Vec<u8> {
    let next = match page.next {
        NextPage::End => None,
        NextPage::Offset(offset) => Some(link::link_at_offset(ROWS, params, offset)),
        NextPage::After(cursor) => Some(link::link_after(ROWS, params, cursor)),
    };
    let mut body = Vec::with_capacity(page.rows.len() * ROW_BYTES);
    push_envelope(&mut body, i64::try_from(page.count).unwrap_or(i64::MAX), next.as_deref());
    let mut writer = Writer::new(page.dataset, page.columns);
    writer.page(&mut body, &page.rows);
    body.extend_from_slice(b"]}");
    body
}
