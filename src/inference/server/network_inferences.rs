//! `GET /emissions/{version}/network_inferences/{topic_id}?from=&to=&limit=`: a topic's past bundles,
//! page by page from the newest. Ours: the chain tells one at a time.

use axum::{
    Json,
    extract::{Path, State},
    http::Uri,
};
use model::topic::BlockHeight;
use wire::inference::{LatestNetworkInferences, network::NetworkInferencesPage};

use super::{
    emissions::in_query,
    error::{ApiError, served, topic_id},
};
use crate::Inference;

/// How many bundles a page has where the request does not say.
const LIMIT_DEFAULT: u64 = 100;

/// The most bundles of a page.
const LIMIT_MAX: u64 = 1000;

pub(super) async fn get(
    State(inference): State<Inference>,
    Path((version, topic)): Path<(String, String)>,
    uri: Uri,
) -> Result<Json<NetworkInferencesPage>, ApiError> {
    served(&version)?;
    let topic = topic_id(&topic)?;
    let from = number(&uri, "from", 0)?;
    let to = number(&uri, "to", BlockHeight::MAX)?;
    let limit = number(&uri, "limit", LIMIT_DEFAULT)?.clamp(1, LIMIT_MAX);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    // One more than asked for says whether there is another page.
    let mut epochs = inference.history(topic, from..=to, limit.saturating_add(1)).await?;
    let is_more = epochs.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    let next = is_more.then(|| epochs.remove(0)).map(|older| older.bundle.nonce.to_string());
    let bundles = epochs.into_iter().map(|epoch| LatestNetworkInferences::from(epoch.bundle));
    Ok(Json(NetworkInferencesPage {
        network_inferences: bundles.map(|body| body.network_inferences).collect(),
        next_to: next,
    }))
}

fn number(uri: &Uri, name: &'static str, default: u64) -> Result<u64, ApiError> {
    let Some(text) = in_query(uri, name)? else { return Ok(default) };
    let reason = format!("parsing {:?}: invalid syntax", text.chars().take(32).collect::<String>());
    text.parse().map_err(|_| ApiError::Mismatch { parameter: name, reason })
}
