//! `GET /api/rows/bulk_download/`: a whole range in one answer, streamed as it is read.

use axum::{
    body::Body,
    extract::State,
    http::{HeaderValue, Uri, header::CONTENT_TYPE},
    response::{IntoResponse as _, Response},
};
use futures::stream;

use super::{App, Caller, error::ApiError};
use crate::query::params::{Output, Params};

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Params(web::extract::pairs(&uri)?).download()?;
    let content_type = HeaderValue::from_static(match query.output {
        Output::Json => "application/json",
        Output::Csv => "text/csv; charset=utf-8",
    });
    let pieces = app.datasets.download(key, query).await?;
    let body = stream::unfold(pieces, async |mut pieces| Some((pieces.next().await?, pieces)));
    Ok(([(CONTENT_TYPE, content_type)], Body::from_stream(body)).into_response())
}
