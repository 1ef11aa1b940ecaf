//! Which commits responses include: the header `X-Revision`, in both directions.
//!
//! A read-only service reads a copy of the database, which may be behind. Its responses include the commit
//! that the request names, or it responds 503.

use axum::{
    extract::FromRequestParts,
    http::{HeaderName, HeaderValue, request::Parts},
    response::Response,
};
use wire::paths::REVISION_HEADER;

use super::error::{ApiError, Result};
use crate::error::Unfit;

/// Names a commit, in a request as in a response.
const REVISION: HeaderName = HeaderName::from_static(REVISION_HEADER);

/// The last commit that the caller has seen of the dataset, if it says.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen(pub(super) Option<u64>);

impl<S: Sync> FromRequestParts<S> for Seen {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        let Some(value) = parts.headers.get(REVISION) else { return Ok(Self(None)) };
        let seen = value.to_str().ok().and_then(|text| text.parse().ok());
        seen.map(|seen| Self(Some(seen))).ok_or_else(|| {
            Unfit::from("X-Revision is the number of a commit, as an answer had it").into()
        })
    }
}

/// Sets the last commit of the dataset that a response includes.
pub(super) fn set_revision(mut response: Response, revision: u64) -> Response {
    response.headers_mut().insert(REVISION, HeaderValue::from(revision));
    response
}
