//! `GET /api/rows/bulk_download/`: a whole range in one answer, streamed as it is read.

use axum::{
    body::Body,
    extract::State,
    http::{
        HeaderName, HeaderValue, Uri,
        header::{ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_TYPE},
    },
    response::{IntoResponse as _, Response},
};
use futures::stream;

use super::{
    App, Caller,
    compressed::{Accepted, label},
    error::ApiError,
    unchanged::{IfNoneMatch, set_tag, unchanged},
};
use crate::{
    coding::Coding,
    download::{Downloaded, Wanted},
    query::params::Params,
};

/// How many rows follow, where that is known before them.
const ROW_COUNT: HeaderName = HeaderName::from_static("x-row-count");

/// The parameters of a download, as document 2 lists them.
const PARAMS: [&str; 6] = ["dataset", "dataset_name", "start", "end", "resolution", "output"];

pub(super) async fn get(
    State(app): State<App>,
    Caller(key): Caller,
    accepted: Accepted,
    IfNoneMatch(seen): IfNoneMatch,
    uri: Uri,
) -> Result<Response, ApiError> {
    let query = Params(web::extract::pairs(&uri)?).check_names(&PARAMS)?.download()?;
    let output = query.output;
    let coding = if output.is_text() { accepted.coding()? } else { Coding::Identity };
    let download = match app.datasets.download(key, Wanted { query, coding, seen }).await? {
        Downloaded::Same(known) => return Ok(unchanged(&known)),
        Downloaded::New(download) => download,
    };
    let body = stream::unfold(download.body, async |mut body| Some((body.next().await?, body)));
    let mut response = Body::from_stream(body).into_response();
    let headers = response.headers_mut();
    // Its length is not known before its end. Who wants a part asks for it by `start` and `end`.
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("none"));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(output.content_type()));
    let disposition = format!("attachment; filename=\"{}\"", download.file_name);
    if let Ok(disposition) = HeaderValue::try_from(disposition) {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    if let Some(facts) = download.facts {
        set_tag(headers, facts.tag, coding);
        headers.insert(ROW_COUNT, HeaderValue::from(facts.n_rows));
    }
    label(headers, coding);
    Ok(response)
}
