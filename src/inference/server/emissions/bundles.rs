//! Bundles, in the format of each version.
//!
//! For a topic with a single output, three arrays about forecasters are empty unless the request has
//! `leave_out=all`. A request for an unknown topic or a topic without a bundle gets a 404. The chain
//! returns an empty bundle instead, which its own clients cannot read. The latest bundles are cached as
//! JSON.

use std::sync::Arc;

use axum::body::Bytes;
use axum::response::Response;
use model::topic::{BlockHeight, TopicId};
use serde::Serialize;
use task::cache::{Cache, Capacity};
use wire::inference::chain::{LatestNetworkInferencesV9, NetworkInferencesAtBlock, ValueBundle};
use wire::inference::{Bundle, LatestBundle};
use wire::paths;

use super::super::bundle_body::{self, PairBody, json, pieces};
use super::{ApiError, App, AtBlock, ByVersion, OpenApiRouter, Params, Result, no_form, routes};
use crate::math::pair_values::FullBundle;
use crate::network::topic::{Topic, TopicKind};
use crate::network::topics::TOPICS_MAX;
use crate::store::Bundles;

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(network_inferences_at_block))
        .routes(routes!(network_inferences_at_block_outlier_resistant))
}

/// Format of a bundle.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct BundleForm {
    /// True if each value is a single number, as in versions up to v9, instead of a list of labeled
    /// values.
    is_old: bool,
    /// True if the three arrays about forecasters are filled.
    is_full: bool,
    /// True if outliers are excluded.
    is_resistant: bool,
}

/// Nonce and body of a bundle.
type Written = (BlockHeight, Bytes);

/// Cached bodies of the latest bundles, at most one for each topic and format. Long bodies are not
/// cached.
#[derive(Debug)]
pub(in crate::server) struct Bodies(Cache<(TopicId, BundleForm), Written>);

impl Default for Bodies {
    fn default() -> Self {
        Self(Cache::new(Capacity { n_values_max: 2 * TOPICS_MAX, bytes_max: 32 << 20 }))
    }
}

impl Bodies {
    fn respond(&self, topic: &Topic, form: BundleForm, bundles: &Bundles) -> Result<Response> {
        let (key, nonce) = ((topic.id, form), bundles.bundle.nonce);
        if let Some((_, body)) = self.0.get(&key).filter(|(of, _)| *of == nonce) {
            return Ok(json(body));
        }
        let bundle = select_bundle(topic, form, bundles);
        let pairs = PairBody::new(&bundle, form.is_old);
        if form.is_old {
            let head = LatestNetworkInferencesV9 {
                inference_block_height: nonce.to_string(),
                network_inferences: single(topic, bundle.bundle)?,
            };
            return self.keep(key, nonce, &head, pairs);
        }
        let latest = LatestBundle { bundle: bundle.bundle, block_height: nonce };
        self.keep(key, nonce, &latest, pairs)
    }

    /// Returns a response with `head`, into which `pairs` are inserted. Caches its body unless it is
    /// long.
    fn keep(
        &self,
        key: (TopicId, BundleForm),
        nonce: BlockHeight,
        head: &impl Serialize,
        pairs: PairBody,
    ) -> Result<Response> {
        if pairs.is_long() {
            return bundle_body::response(head, vec![pairs]);
        }
        let body = bundle_body::join(pieces(head, [pairs])?)?;
        self.0.put(key, (nonce, body.clone()), body.len());
        Ok(json(body))
    }
}

/// Returns the latest bundle of a topic without outliers.
///
/// Excludes submissions whose distance from the epoch's median exceeds 11 times the moving average of
/// the median deviation, which includes this epoch. If there are no such submissions, this is the
/// ordinary bundle. Not supported for topics with several labels: code 3.
#[utoipa::path(get, path = paths::LATEST_OUTLIER_RESISTANT,
    tag = "bundles", params(("leave_out" = Option<String>, Query)),
    responses((status = 200, body = inline(ByVersion<LatestBundle, LatestNetworkInferencesV9>))))]
pub(super) async fn latest_network_inferences_outlier_resistant(
    params: Params,
) -> Result<Response> {
    newest_bundle(&params, true).await
}

/// Returns the bundle of an epoch.
///
/// `v9` does not support topics with several labels: code 3.
#[utoipa::path(get, path = "/network_inferences/{topic_id}/last_inference/{block_height}",
    tag = "bundles", params(("leave_out" = Option<String>, Query)), responses((status = 200, body = inline(AtBlock))))]
async fn network_inferences_at_block(params: Params) -> Result<Response> {
    older_bundle(&params, false).await
}

/// Returns the bundle of an epoch without outliers.
///
/// Excludes submissions whose distance from the epoch's median exceeds 11 times the moving average of
/// the median deviation, which includes this epoch. If there are no such submissions, this is the
/// ordinary bundle. Not supported for topics with several labels: code 3.
#[utoipa::path(get, path = "/network_inferences_outlier_resistant/{topic_id}/last_inference/{block_height}",
    tag = "bundles", params(("leave_out" = Option<String>, Query)), responses((status = 200, body = inline(AtBlock))))]
async fn network_inferences_at_block_outlier_resistant(params: Params) -> Result<Response> {
    older_bundle(&params, true).await
}

/// Returns the latest bundle, without outliers if `is_resistant`.
pub(in crate::server) async fn newest_bundle(
    params: &Params,
    is_resistant: bool,
) -> Result<Response> {
    let topic = params.topic()?;
    let form = BundleForm::read(params, &topic, is_resistant)?;
    let bundles = params.service.inference.latest(topic.id).await?;
    params.service.bodies.respond(&topic, form, &bundles)
}

async fn older_bundle(params: &Params, is_resistant: bool) -> Result<Response> {
    let topic = params.topic()?;
    let form = BundleForm::read(params, &topic, is_resistant)?;
    let bundles = params.service.inference.bundle_at(topic.id, params.height()?).await?;
    let bundle = select_bundle(&topic, form, &bundles);
    let pairs = PairBody::new(&bundle, form.is_old);
    if form.is_old {
        let network_inferences = single(&topic, bundle.bundle)?;
        return bundle_body::response(
            &NetworkInferencesAtBlock { network_inferences },
            vec![pairs],
        );
    }
    let body = NetworkInferencesAtBlock { network_inferences: bundle.bundle };
    bundle_body::response(&body, vec![pairs])
}

impl BundleForm {
    fn read(params: &Params, topic: &Topic, is_resistant: bool) -> Result<Self> {
        let unsupported = match topic.kind {
            _ if topic.labels.len() != 1 => Some("multi-label"),
            TopicKind::Classification => Some("classification"),
            TopicKind::Regression => None,
        };
        if let Some(kind) = unsupported.filter(|_| is_resistant) {
            return Err(ApiError::invalid(format!(
                "outlier resistant network inferences are not supported for {kind} topics"
            )));
        }
        let leave_out = params.find("leave_out")?;
        if leave_out.as_ref().is_some_and(|arrays| arrays != "all") {
            return Err(ApiError::mismatch("leave_out", "expected `all`"));
        }
        Ok(Self { is_old: params.is_old(), is_full: leave_out.is_some(), is_resistant })
    }
}

/// Returns the bundle in `bundles` that `form` selects, without the arrays that `form` excludes.
fn select_bundle(topic: &Topic, form: BundleForm, bundles: &Bundles) -> FullBundle {
    let resistant = bundles.resistant.as_ref().filter(|_| form.is_resistant);
    let FullBundle { mut bundle, mut without_inferer } =
        resistant.unwrap_or(&bundles.bundle).clone();
    if topic.is_single() && !form.is_full {
        without_inferer = Arc::default();
        bundle.one_out_forecaster_values.clear();
        bundle.one_in_forecaster_values.clear();
    }
    FullBundle { bundle, without_inferer }
}

fn single(topic: &Topic, bundle: Bundle) -> Result<ValueBundle> {
    bundle.try_into().map_err(|_| no_form(topic))
}

/// Returns the latest bundle of a topic.
///
/// `v9` does not support topics with several labels: code 3.
#[utoipa::path(get, path = paths::LATEST_NETWORK_INFERENCES,
    tag = "bundles", params(("leave_out" = Option<String>, Query)),
    responses((status = 200, body = inline(ByVersion<LatestBundle, LatestNetworkInferencesV9>))))]
pub(super) async fn latest_network_inferences(params: Params) -> Result<Response> {
    newest_bundle(&params, false).await
}
