//! `GET /emissions/{version}/latest_network_inferences/{topic_id}`: the newest bundle of a topic.

use axum::response::Response;
use wire::{
    inference::{LatestBundle, chain::LatestNetworkInferencesV9},
    paths,
};

use super::{
    emissions::newest_bundle,
    error::ApiError,
    openapi::parameters::{ByVersion, LeaveOut, TopicPart, Version},
    request::Asked,
};

/// The newest bundle of a topic.
///
/// A topic with several labels has no form in `v9`: code 3, which says so.
#[utoipa::path(get, path = paths::LATEST_NETWORK_INFERENCES, tag = "bundles",
    params(Version, TopicPart, LeaveOut),
    responses((status = 200, description = "What was asked for",
        body = inline(ByVersion<LatestBundle, LatestNetworkInferencesV9>))))]
pub(super) async fn latest_network_inferences(asked: Asked) -> Result<Response, ApiError> {
    newest_bundle(&asked, false).await
}
