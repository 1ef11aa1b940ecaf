//! `GET /api/rows/`: rows or buckets, page by page.

use axum::{
    extract::State,
    http::{HeaderValue, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use wire::paths::ROWS;

use super::{App, Caller, error::ApiError};
use crate::{
    block::Rows,
    query::{link, params::Params},
    read::{Next, RowsPage},
    render::{Writer, push_comma, push_envelope},
};

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params(web::extract::pairs(&uri)?);
    let query = params.rows()?;
    let body = app.datasets.rows(key, query, move |page| body(&page, &params)).await?;
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response())
}

fn body(page: &RowsPage, params: &Params) -> Vec<u8> {
    let next = match page.next {
        Next::End => None,
        Next::Offset(offset) => Some(link::at_offset(ROWS, params, offset)),
        Next::After(cursor) => Some(link::after(ROWS, params, cursor)),
    };
    let mut body = Vec::new();
    push_envelope(&mut body, i64::try_from(page.count).unwrap_or(i64::MAX), next.as_deref());
    let mut writer = Writer::new(page.dataset, &page.columns);
    match &page.rows {
        Rows::Raw(block) => {
            for row_idx in 0..block.len() {
                push_comma(&mut body);
                writer.page_row(&mut body, block, row_idx);
            }
        }
        Rows::Buckets(buckets) => {
            for bucket in buckets {
                push_comma(&mut body);
                writer.page_bucket(&mut body, bucket);
            }
        }
    }
    body.extend_from_slice(b"]}");
    body
}
