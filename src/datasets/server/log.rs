//! `GET /api/rows/log/`: the contents of the commits after a revision, once they exist.
//!
//! Responses for public datasets are cacheable. With commits they never change. Without, they are valid
//! for a second, so that a cache can send a response to many waiting readers.

use std::time::Duration;

use accounts::gate::Admitted;
use axum::Extension;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse as _, NoContent, Response};
use tsdb::catalog::DatasetRef;
use wire::datasets::{LogGone, RowLog};
use wire::paths;

use super::error::{Result, STREAMS_FULL};
use super::{Caller, read_params};
use crate::error::Invalid;
use crate::log::{LogAnswer, LogPart, LogQuery, WAIT_MAX};
use crate::query::params::Params;

/// Cache policy for commits. An hour exceeds the usual absence of a reader. It limits how long a cache
/// can serve rows that were deleted or hidden since.
const NEVER_CHANGES: &str = "public, max-age=3600, immutable";

/// Cache policy for a response that changes with the next commit: long enough to be shared by the
/// callers that wait for it.
const CHANGES_SOON: &str = "public, max-age=1";

/// Dataset and range of commits.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `parse` parses")]
pub(super) struct WhichCommits {
    /// The dataset's number.
    #[param(minimum = 1)]
    dataset: i64,
    /// The last commit that the reader has: the `revision` of an earlier response.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// The last commit of the response, at most 1000 after `after`. Defaults to the one after
    /// `after`.
    #[param(minimum = 1)]
    until: Option<u64>,
    /// The `era` of an earlier response. If the revisions belong to another era, the response is a
    /// 410.
    #[param(pattern = "^[0-9a-f]{8}$")]
    era: Option<String>,
    /// Seconds to wait for the commits.
    #[param(minimum = 0, maximum = 30, default = 0)]
    wait: Option<u64>,
}

/// Reads the contents of the commits after a revision, in order, and waits for one if there is
/// none.
///
/// Without `after`, the response is the end of the log. Read the rows after that, and then follow
/// the log from there: with `after=`*revision* the response is the next commit, and with `until`
/// all commits up to that one. Continue after the `revision` of the response. Rows replace those of
/// the same timestamp, and `deleted` removes a range.
///
/// A response with commits never changes, and caches can store it for datasets with the tag
/// `public`. 204 is the end of a wait: repeat the request with another `wait` or after a second,
/// since a cache may repeat the response for that long. 410 means that the commits are no longer
/// kept. About a thousand are, or fewer after a restart of the service. Read the rows again, then
/// continue after the revision in `details`.
#[utoipa::path(get, path = paths::ROWS_LOG, operation_id = "read_log", tag = "rows",
    params(WhichCommits),
    responses(
        (status = 200, description = "The commits", body = RowLog),
        (status = 204, description = "The commits did not arrive in time"),
        (status = 410, description = "The commits are no longer kept", body = LogGone)))]
pub(super) async fn get(
    caller: Caller,
    Extension(admitted): Extension<Admitted>,
    uri: Uri,
) -> Response {
    let mut response = read(caller, admitted, &uri).await.into_response();
    // Without the header, caches store some error responses.
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().entry(CACHE_CONTROL).or_insert(no_store);
    response
}

async fn read(Caller { app, key }: Caller, admitted: Admitted, uri: &Uri) -> Result<Response> {
    let query = parse(&read_params(uri)?)?;
    let _permit = if query.wait.is_zero() {
        None
    } else {
        Some(app.streams.take(&admitted.0).ok_or(STREAMS_FULL)?)
    };
    let LogAnswer { part, is_public } = app.datasets.read_log(key, query).await?;
    let (response, kept) = match part {
        LogPart::Commits(body) => (json(body), NEVER_CHANGES),
        LogPart::End(body) => (json(body), CHANGES_SOON),
        LogPart::Nothing => (NoContent.into_response(), CHANGES_SOON),
    };
    if !is_public {
        return Ok(response);
    }
    Ok(([(CACHE_CONTROL, HeaderValue::from_static(kept))], response).into_response())
}

fn json(body: Vec<u8>) -> Response {
    ([(CONTENT_TYPE, HeaderValue::from_static("application/json"))], body).into_response()
}

fn parse(params: &Params) -> Result<LogQuery, Invalid> {
    // A name refers to different datasets for different keys, which a cache cannot distinguish.
    let DatasetRef::Id(dataset) = params.dataset()? else {
        return Err("dataset must be a positive integer".into());
    };
    let (after, until) = (params.number("after")?, params.number("until")?);
    if until.is_some() && after.is_none() {
        return Err("until needs after".into());
    }
    let era = match params.get("era") {
        None => None,
        Some(text) if text.len() == 8 && text.bytes().all(is_hex) => {
            u32::from_str_radix(text, 16).ok()
        }
        Some(_) => return Err("era must be that of an earlier response".into()),
    };
    let wait = Duration::from_secs(params.number("wait")?.unwrap_or(0));
    if wait > WAIT_MAX {
        return Err(format!("wait must be 0 to {}", WAIT_MAX.as_secs()).into());
    }
    Ok(LogQuery { dataset, after, until, era, wait })
}

const fn is_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}
