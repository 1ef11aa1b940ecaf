//! `GET /api/rows/live/`: the newest rows as NDJSON, newest first.

use axum::{
    extract::State,
    http::{HeaderValue, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};

use super::{App, Caller, error::ApiError};
use crate::{block::Rows, query::params::Params, read::RowsPage, render::Writer};

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let params = Params(web::extract::pairs(&uri)?);
    let body = app.datasets.newest(key, params.live()?, |page| body(&page)).await?;
    Ok(([(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"))], body).into_response())
}

fn body(page: &RowsPage) -> Vec<u8> {
    let mut body = Vec::new();
    let mut writer = Writer::new(page.dataset, &page.columns);
    if let Rows::Raw(block) = &page.rows {
        for row_idx in 0..block.len() {
            writer.flat_row(&mut body, block, row_idx);
            body.push(b'\n');
        }
    }
    body
}
