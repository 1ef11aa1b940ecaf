//! `GET /api/rows/live/`: the newest rows, newest first, as NDJSON unless asked otherwise.

use axum::{
    http::{HeaderValue, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use formats::write::{Output, document::Document};
use model::resolution::Resolution;
use wire::{datasets::FlatRow, paths};

use super::{
    Caller,
    bulk_download::InForm,
    error::Result,
    openapi::{InBounds, SeenCommit, WhichDataset},
    read_params,
    revision::{Seen, set_revision},
};
use crate::read::RowsPage;

/// Reads the newest rows, newest first, a line each.
///
/// There are fewer than asked for where they are very long: about 16 MB at most.
#[utoipa::path(get, path = paths::ROWS_LIVE, operation_id = "newest_rows", tag = "rows",
    params(WhichDataset, InBounds, InForm, SeenCommit, ("limit" = Option<u64>, Query, minimum = 1,
        description = "Maximum number of rows, 100 by default. A limit above 10 000 is lowered to that.")),
    responses((status = 200, description = "Rows, by default one JSON object in each line", content(
            (String = "application/x-ndjson"), (Vec<FlatRow> = "application/json"),
            (String = "text/csv"), (Vec<u8> = "application/vnd.apache.parquet"),
            (Vec<u8> = "application/vnd.apache.arrow.stream")),
        headers(("X-Revision" = u64,
            description = "The last commit of the dataset that they include")))))]
pub(super) async fn get(
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
    let mut document = Document::new(output, page.dataset, page.columns, Resolution::Raw);
    document.begin(&mut body);
    document.rows(&mut body, &page.rows);
    document.end(&mut body);
    body
}
