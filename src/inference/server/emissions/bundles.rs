//! Bundles, in the form of each version.
//!
//! On a single-output topic the three arrays about forecasters are empty, as the document says;
//! `?leave_out=all` fills them as the chain does. A topic that is unknown, or has no bundle yet, is
//! a 404: the chain answers an empty bundle, and its clients fall over the missing value. The
//! newest bundles are written once, and then sent as they are.

use std::{collections::HashMap, future::ready, io, iter::once, sync::Arc};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use futures::{StreamExt as _, stream};
use model::topic::{BlockHeight, TopicId};
use parking_lot::RwLock;
use serde::Serialize;
use wire::{
    inference::{
        Bundle, LatestBundle,
        chain::{LatestNetworkInferencesV9, NetworkInferencesAtBlock, ValueBundle},
        network::NetworkInferencesPage,
    },
    paths::{self, emissions::bundles as of},
};

use super::{
    super::bundle_body::{self, PairBody, Pieces, json, pieces},
    ApiError, Asked, AtBlock, ByVersion, FOUND, HeightPart, LeaveOut, PageMembers, TopicPart,
    Version, no_form,
};
use crate::{
    Inference, InferenceError,
    math::pair_values::FullBundle,
    network::topic::{Topic, TopicKind},
    store::Bundles,
};

/// How a bundle is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Form {
    /// One number for each quantity, as up to v9; labeled values otherwise.
    is_old: bool,
    /// Whether a single output's arrays about forecasters are filled.
    is_full: bool,
    /// Whether outliers are left out.
    is_resistant: bool,
}

/// A body, and the nonce of the bundle it was written from.
type Written = (BlockHeight, Bytes);

/// The newest bundles as they are sent, but for long ones. At most one for each topic and form.
#[derive(Debug, Default)]
pub(in crate::server) struct Bodies(RwLock<HashMap<(TopicId, Form), Written>>);

impl Bodies {
    fn respond(&self, topic: &Topic, form: Form, bundles: &Bundles) -> Result<Response, ApiError> {
        let (key, nonce) = ((topic.id, form), bundles.bundle.nonce);
        let held = self.0.read().get(&key).filter(|(of, _)| *of == nonce).map(|(_, b)| b.clone());
        if let Some(body) = held {
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

    /// Answers with `head` and `pairs`, and keeps that where it is short.
    fn keep(
        &self,
        key: (TopicId, Form),
        nonce: BlockHeight,
        head: &impl Serialize,
        pairs: PairBody,
    ) -> Result<Response, ApiError> {
        if pairs.is_long() {
            return bundle_body::answer(head, vec![pairs]);
        }
        let body = bundle_body::join(pieces(head, [pairs])?)?;
        self.0.write().insert(key, (nonce, body.clone()));
        Ok(json(body))
    }
}

/// The newest bundle of a topic without outliers.
///
/// Leaves out submissions that are further from the epoch's median than 11 times the moving
/// average of the median deviation, this epoch included. Without any it is the ordinary bundle. A
/// topic with several labels has no such form: code 3.
#[utoipa::path(get, path = of::LATEST_OUTLIER_RESISTANT, tag = "bundles", params(Version, TopicPart, LeaveOut),
    responses((status = 200, description = FOUND, body = inline(ByVersion<LatestBundle, LatestNetworkInferencesV9>))))]
pub(super) async fn latest_network_inferences_outlier_resistant(
    asked: Asked,
) -> Result<Response, ApiError> {
    newest_bundle(&asked, true).await
}

/// The bundle of one epoch, as it was made when the epoch closed.
///
/// A topic with several labels has no form in `v9`: code 3, which says so.
#[utoipa::path(get, path = of::AT_BLOCK, tag = "bundles", params(Version, TopicPart, HeightPart, LeaveOut),
    responses((status = 200, description = FOUND, body = inline(AtBlock))))]
pub(super) async fn network_inferences_at_block(asked: Asked) -> Result<Response, ApiError> {
    older_bundle(&asked, false).await
}

/// The bundle of one epoch without outliers.
///
/// Leaves out submissions that are further from the epoch's median than 11 times the moving
/// average of the median deviation, this epoch included. Without any it is the ordinary bundle. A
/// topic with several labels has no such form: code 3.
#[utoipa::path(get, path = of::AT_BLOCK_OUTLIER_RESISTANT, tag = "bundles", params(Version, TopicPart, HeightPart, LeaveOut),
    responses((status = 200, description = FOUND, body = inline(AtBlock))))]
pub(super) async fn network_inferences_at_block_outlier_resistant(
    asked: Asked,
) -> Result<Response, ApiError> {
    older_bundle(&asked, true).await
}

/// Answers the newest bundle, without outliers where it `is_resistant`.
pub(in crate::server) async fn newest_bundle(
    asked: &Asked,
    is_resistant: bool,
) -> Result<Response, ApiError> {
    let topic = asked.topic()?;
    let form = Form::read(asked, &topic, is_resistant)?;
    let bundles = asked.service.inference.latest(topic.id).await?;
    asked.service.bodies.respond(&topic, form, &bundles)
}

async fn older_bundle(asked: &Asked, is_resistant: bool) -> Result<Response, ApiError> {
    let topic = asked.topic()?;
    let form = Form::read(asked, &topic, is_resistant)?;
    let bundles = asked.service.inference.bundle_at(topic.id, asked.height()?).await?;
    let bundle = select_bundle(&topic, form, &bundles);
    let pairs = PairBody::new(&bundle, form.is_old);
    if form.is_old {
        let network_inferences = single(&topic, bundle.bundle)?;
        return bundle_body::answer(&NetworkInferencesAtBlock { network_inferences }, vec![pairs]);
    }
    let body = NetworkInferencesAtBlock { network_inferences: bundle.bundle };
    bundle_body::answer(&body, vec![pairs])
}

impl Form {
    fn read(asked: &Asked, topic: &Topic, is_resistant: bool) -> Result<Self, ApiError> {
        let resists = topic.labels.len() == 1 && topic.kind == TopicKind::Regression;
        if is_resistant && !resists {
            let message =
                "outlier resistant network inferences are not supported for multi-label topics";
            return Err(ApiError::invalid(message));
        }
        let leave_out = asked.find("leave_out")?;
        if leave_out.as_ref().is_some_and(|arrays| arrays != "all") {
            return Err(ApiError::mismatch("leave_out", "it is `all`, or not there"));
        }
        Ok(Self { is_old: asked.is_old(), is_full: leave_out.is_some(), is_resistant })
    }
}

/// The bundle that `form` asks for.
fn select_bundle(topic: &Topic, form: Form, bundles: &Bundles) -> FullBundle {
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

fn single(topic: &Topic, bundle: Bundle) -> Result<ValueBundle, ApiError> {
    bundle.try_into().map_err(|_| no_form(topic))
}

/// The newest bundle of a topic.
///
/// A topic with several labels has no form in `v9`: code 3, which says so.
#[utoipa::path(get, path = paths::LATEST_NETWORK_INFERENCES, tag = "bundles",
    params(Version, TopicPart, LeaveOut),
    responses((status = 200, description = FOUND,
        body = inline(ByVersion<LatestBundle, LatestNetworkInferencesV9>))))]
pub(super) async fn latest_network_inferences(asked: Asked) -> Result<Response, ApiError> {
    newest_bundle(&asked, false).await
}

/// How many bundles a page has where the request does not say.
const LIMIT_DEFAULT: u64 = 100;

/// Start of the bundles in the JSON of a page.
const PAGE_START: &str = "\"network_inferences\":[";

/// The most bundles of a page.
const LIMIT_MAX: u64 = 1000;

/// Past bundles of a topic, page by page from the newest. Ours.
///
/// In the form of `v10`, whatever the version, with every array. `next_to` is what `to` is on the page
/// before; it is null on the oldest.
#[utoipa::path(get, path = paths::NETWORK_INFERENCES, operation_id = "network_inferences",
    tag = "bundles", params(Version, TopicPart, PageMembers),
    responses((status = 200, description = FOUND, body = NetworkInferencesPage)))]
pub(super) async fn network_inferences(asked: Asked) -> Result<Response, ApiError> {
    let topic = asked.topic_id()?;
    let (from, to) = (asked.read_or("from", 0)?, asked.read_or("to", BlockHeight::MAX)?);
    let limit = asked.read_or("limit", LIMIT_DEFAULT)?.clamp(1, LIMIT_MAX);
    let limit = u32::try_from(limit).unwrap_or(u32::MAX);
    // One more than asked for says whether there is another page.
    let inference = asked.service.inference.clone();
    let mut nonces = inference.nonces(topic, from..=to, limit.saturating_add(1)).await?;
    let is_more = nonces.len() > usize::try_from(limit).unwrap_or(usize::MAX);
    let next_to = is_more.then(|| nonces.remove(0)).map(|older| older.to_string());
    let page = NetworkInferencesPage { network_inferences: Vec::new(), next_to };
    let page = serde_json::to_string(&page)?;
    let (head, tail) = page.split_at(page.find(PAGE_START).unwrap_or_default() + PAGE_START.len());
    let (head, tail) = (Bytes::from(head.to_owned()), Bytes::from(tail.to_owned()));
    let bundles = stream::unfold((nonces.into_iter(), true), move |(mut nonces, is_first)| {
        let inference = inference.clone();
        async move {
            loop {
                match page_bundle(&inference, topic, nonces.next()?, is_first).await {
                    Ok(None) => {}
                    Ok(Some(pieces)) => return Some((stream::iter(pieces), (nonces, false))),
                    Err(error) => {
                        let broken: Pieces = Box::new(once(Err(error)));
                        return Some((stream::iter(broken), (Vec::new().into_iter(), false)));
                    }
                }
            }
        }
    });
    let ends = |piece: Bytes| stream::once(ready(Ok::<_, io::Error>(piece)));
    let body = ends(head).chain(bundles.flatten()).chain(ends(tail));
    Ok(json(Body::from_stream(body)))
}

/// One bundle of a page; none where it is no longer kept.
async fn page_bundle(
    inference: &Inference,
    topic: TopicId,
    nonce: BlockHeight,
    is_first: bool,
) -> io::Result<Option<Pieces>> {
    let bundles = match inference.bundle_at(topic, nonce).await {
        Ok(bundles) => bundles,
        Err(InferenceError::NoBundle { .. }) => return Ok(None),
        Err(error) => return Err(io::Error::other(error)),
    };
    let pairs = PairBody::new(&bundles.bundle, false);
    let pieces =
        pieces(&bundles.bundle.bundle, [pairs]).map_err(|_| io::Error::other("write a bundle"))?;
    let comma = (!is_first).then(|| Ok(Bytes::from_static(b",")));
    Ok(Some(Box::new(comma.into_iter().chain(pieces))))
}
