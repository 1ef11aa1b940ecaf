//! Bundles, in the form of each version.
//!
//! On a single-output topic the three arrays about forecasters are empty, as the document says;
//! `?leave_out=all` fills them as the chain does. A topic that is unknown, or has no bundle yet, is
//! a 404: the chain answers an empty bundle, and its clients fall over the missing value. The
//! newest bundles are written once, and then sent as they are.

use std::{collections::HashMap, sync::Arc};

use axum::{
    body::Bytes,
    extract::{Path, State},
    http::Uri,
    response::Response,
};
use model::topic::{BlockHeight, TopicId};
use parking_lot::RwLock;
use serde::Serialize;
use wire::{
    inference::{
        Bundle, LatestBundle,
        chain::{LatestNetworkInferencesV9, NetworkInferencesAtBlock, ValueBundle},
    },
    paths::EMISSIONS_OLD,
};

use super::{Service, height, in_query, no_form, topic};
use crate::{
    math::pair_values::FullBundle,
    network::topic::{Topic, TopicKind},
    server::{
        bundle_body::{self, PairBody},
        error::ApiError,
    },
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
            return Ok(bundle_body::json(body));
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
        let body = bundle_body::join(bundle_body::pieces(head, [pairs])?)?;
        self.0.write().insert(key, (nonce, body.clone()));
        Ok(bundle_body::json(body))
    }
}

/// Serves `GET …/latest_network_inferences/{topic_id}`.
pub(in crate::server) async fn latest(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    newest(&service, &version, &id, &uri, false).await
}

pub(super) async fn latest_outlier_resistant(
    State(service): State<Service>,
    Path((version, id)): Path<(String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    newest(&service, &version, &id, &uri, true).await
}

pub(super) async fn at_block(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    older(&service, &version, &id, &nonce, &uri, false).await
}

pub(super) async fn at_block_outlier_resistant(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
    uri: Uri,
) -> Result<Response, ApiError> {
    older(&service, &version, &id, &nonce, &uri, true).await
}

async fn newest(
    service: &Service,
    version: &str,
    id: &str,
    uri: &Uri,
    is_resistant: bool,
) -> Result<Response, ApiError> {
    let topic = topic(&service.inference, version, id)?;
    let form = form(&topic, version, uri, is_resistant)?;
    let bundles = service.inference.latest(topic.id).await?;
    service.bodies.respond(&topic, form, &bundles)
}

async fn older(
    service: &Service,
    version: &str,
    id: &str,
    nonce: &str,
    uri: &Uri,
    is_resistant: bool,
) -> Result<Response, ApiError> {
    let topic = topic(&service.inference, version, id)?;
    let form = form(&topic, version, uri, is_resistant)?;
    let bundles = service.inference.bundle_at(topic.id, height(nonce)?).await?;
    let bundle = select_bundle(&topic, form, &bundles);
    let pairs = PairBody::new(&bundle, form.is_old);
    if form.is_old {
        let network_inferences = single(&topic, bundle.bundle)?;
        return bundle_body::answer(&NetworkInferencesAtBlock { network_inferences }, vec![pairs]);
    }
    let body = NetworkInferencesAtBlock { network_inferences: bundle.bundle };
    bundle_body::answer(&body, vec![pairs])
}

fn form(
    topic: &Arc<Topic>,
    version: &str,
    uri: &Uri,
    is_resistant: bool,
) -> Result<Form, ApiError> {
    let resists = topic.labels.len() == 1 && topic.kind == TopicKind::Regression;
    if is_resistant && !resists {
        let message =
            "outlier resistant network inferences are not supported for multi-label topics";
        return Err(ApiError::Invalid(message.to_owned()));
    }
    let is_full = match in_query(uri, "leave_out")?.as_deref() {
        None => false,
        Some("all") => true,
        Some(_) => {
            let reason = "it is `all`, or not there".to_owned();
            return Err(ApiError::Mismatch { parameter: "leave_out", reason });
        }
    };
    Ok(Form { is_old: version == EMISSIONS_OLD, is_full, is_resistant })
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
