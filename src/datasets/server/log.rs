//! `GET /api/rows/log/`: what the commits after a revision stored, once there is one.
//!
//! The answers about datasets that every key may read are made for caches: those with commits never
//! change, and those without any hold for a second, so that a cache which has many readers wait for one
//! request answers them all.

use std::time::Duration;

use accounts::gate::Admitted;
use axum::{
    Extension,
    http::{
        HeaderValue, Uri,
        header::{CACHE_CONTROL, CONTENT_TYPE},
    },
    response::{IntoResponse as _, NoContent, Response},
};
use tsdb::catalog::DatasetRef;
use wire::{
    datasets::{LogGone, RowLog},
    paths,
};

use super::{
    Caller,
    error::{Result, STREAMS_FULL},
    read_params,
};
use crate::{
    error::Unfit,
    log::{LogAnswer, LogPart, LogQuery, WAIT_MAX},
    query::params::Params,
};

/// How caches keep commits: for an hour, which is longer than a reader is usually away, and how long
/// rows that are deleted, or hidden from a key, can still be read in a cache.
const NEVER_CHANGES: &str = "public, max-age=3600, immutable";

/// How caches keep an answer that changes with the next commit: long enough to share it among the
/// callers that wait for it.
const CHANGES_SOON: &str = "public, max-age=1";

/// Which commits of which dataset.
#[derive(Debug, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `parse` parses")]
pub(super) struct WhichCommits {
    /// The dataset's number.
    #[param(minimum = 1)]
    dataset: i64,
    /// The last commit that the reader has: the `revision` of an earlier answer.
    #[param(minimum = 0)]
    after: Option<u64>,
    /// The last commit of the answer, at most 1000 after `after`; the one after `after` where it is
    /// left out.
    #[param(minimum = 1)]
    until: Option<u64>,
    /// The `era` of an earlier answer: 410 where the revisions are of another one.
    #[param(pattern = "^[0-9a-f]{8}$")]
    era: Option<String>,
    /// Seconds to wait for the commits.
    #[param(minimum = 0, maximum = 30, default = 0)]
    wait: Option<u64>,
}

/// Reads what the commits after a revision stored, in their order; waits for one if there is none yet.
///
/// Without `after` it tells where the log ends. Read the rows after that, then follow from there: with
/// `after=`*revision* the answer is the next commit alone, with `until` all commits up to that one; ask
/// again after the answer's `revision`. Rows replace those of the same timestamp, `deleted` removes
/// some.
///
/// An answer with commits is the same bytes whenever it is asked for, and for datasets with the tag
/// `public` caches may keep it. 204 is for a wait that is over: ask again, with another `wait` or after
/// a second, since a cache may repeat it for that long. 410 is for commits that are not kept any more,
/// which are the last thousand or so, or fewer after the service was restarted: read the rows again,
/// then go on after the revision in `details`.
#[utoipa::path(get, path = paths::ROWS_LOG, operation_id = "read_log", tag = "rows",
    params(WhichCommits),
    responses(
        (status = 200, description = "The commits", body = RowLog),
        (status = 204, description = "The commits did not come in time"),
        (status = 410, description = "The commits are not kept any more", body = LogGone)))]
pub(super) async fn get(
    caller: Caller,
    Extension(admitted): Extension<Admitted>,
    uri: Uri,
) -> Response {
    let mut response = read(caller, admitted, &uri).await.into_response();
    // Without the header caches keep some refusals.
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

fn parse(params: &Params) -> Result<LogQuery, Unfit> {
    // A name means another dataset to another key, which a cache does not tell apart.
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
        Some(_) => return Err("era must be that of an earlier answer".into()),
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
