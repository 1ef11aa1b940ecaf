//! `GET /emissions/{version}/network_inferences/{topic_id}?from=&to=&limit=`: a topic's past
//! bundles, page by page from the newest. Ours: the chain tells one at a time. A page is read while
//! it is sent, one bundle after the other.

use std::{future::ready, io, iter::once};

use axum::{
    body::{Body, Bytes},
    response::Response,
};
use futures::{StreamExt as _, stream};
use model::topic::{BlockHeight, TopicId};
use wire::{inference::network::NetworkInferencesPage, paths};

use super::{
    bundle_body::{PairBody, Pieces, json, pieces},
    error::ApiError,
    openapi::parameters::{PageMembers, TopicPart, Version},
    request::Asked,
};
use crate::{Inference, InferenceError};

/// How many bundles a page has where the request does not say.
const LIMIT_DEFAULT: u64 = 100;

/// Where a page has its bundles.
const PLACE: &str = "\"network_inferences\":[";

/// The most bundles of a page.
const LIMIT_MAX: u64 = 1000;

/// Past bundles of a topic, page by page from the newest. Ours.
///
/// In the form of `v10`, whatever the version, with every array. `next_to` is what `to` is on the page
/// before; it is null on the oldest.
#[utoipa::path(get, path = paths::NETWORK_INFERENCES, operation_id = "network_inferences",
    tag = "bundles", params(Version, TopicPart, PageMembers),
    responses((status = 200, description = "What was asked for", body = NetworkInferencesPage)))]
pub(super) async fn get(asked: Asked) -> Result<Response, ApiError> {
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
    let (head, tail) = page.split_at(page.find(PLACE).unwrap_or_default() + PLACE.len());
    let (head, tail) = (Bytes::from(head.to_owned()), Bytes::from(tail.to_owned()));
    let bundles = stream::unfold((nonces.into_iter(), true), move |(mut nonces, is_first)| {
        let inference = inference.clone();
        async move {
            loop {
                match bundle(&inference, topic, nonces.next()?, is_first).await {
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
async fn bundle(
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
