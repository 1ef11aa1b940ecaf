//! Losses and regrets. The dataset is the one reputer here: it reports what the network takes.

use std::sync::Arc;

use axum::{
    Json,
    extract::{Path, State},
    http::Uri,
    response::Response,
};
use model::bundle::decimal;
use model::topic::{Address, BlockHeight};
use wire::{
    inference::chain::{
        NetworkLoss, RegretResponse, ReputerLossBundles, ReputerLossBundlesV9, ReputerNonce,
        ReputerValueBundle, ReputerValueBundles, TimestampedValue, ValueBundle, WorkerValue,
    },
    paths::EMISSIONS_OLD,
};

use super::{Service, address, height, needed, queried, topic};
use crate::{
    math::regret::{ByActor, Losses},
    network::{queries::RegretOf, topic::Topic},
    server::{
        bundle_body::{self, PairBody},
        error::ApiError,
    },
};

type Answer = Result<Json<RegretResponse>, ApiError>;

pub(super) async fn network_loss(
    State(service): State<Service>,
    Path(parts): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    let (loss_bundle, pairs) = read_losses(&service, parts, "").await?;
    bundle_body::answer(&NetworkLoss { loss_bundle }, vec![pairs])
}

pub(super) async fn reputer_loss_bundles(
    State(service): State<Service>,
    Path((version, id, nonce)): Path<(String, String, String)>,
) -> Result<Response, ApiError> {
    let is_old = version == EMISSIONS_OLD;
    let topic = topic(&service.inference, &version, &id)?;
    let reputer = crate::network::addresses::of_reputer(&topic.source.dataset)?;
    let parts = (version, id, nonce);
    let (bundle, pairs) = read_losses(&service, parts, reputer.as_str()).await?;
    if is_old {
        let (signature, pubkey) = (None, String::new());
        let bundle = ReputerValueBundle { value_bundle: bundle, signature, pubkey };
        let loss_bundles = ReputerValueBundles { reputer_value_bundles: vec![bundle] };
        return bundle_body::answer(&ReputerLossBundlesV9 { loss_bundles }, vec![pairs]);
    }
    bundle_body::answer(&ReputerLossBundles { loss_bundles: vec![bundle] }, vec![pairs])
}

pub(super) async fn inferer_regret(
    State(service): State<Service>,
    Path((version, id, actor)): Path<(String, String, String)>,
) -> Answer {
    let topic = topic(&service.inference, &version, &id)?;
    regret(&service, &topic, RegretOf::Inferer(&address("actor_id", &actor)?)).await
}

pub(super) async fn forecaster_regret(
    State(service): State<Service>,
    Path((version, id, actor)): Path<(String, String, String)>,
) -> Answer {
    let topic = topic(&service.inference, &version, &id)?;
    regret(&service, &topic, RegretOf::Forecaster(&address("worker", &actor)?)).await
}

pub(super) async fn one_in_forecaster_regret(
    State(service): State<Service>,
    Path((version, id, forecaster, inferer)): Path<(String, String, String, String)>,
) -> Answer {
    let topic = topic(&service.inference, &version, &id)?;
    let (with, name) = (address("forecaster", &forecaster)?, address("inferer", &inferer)?);
    regret(&service, &topic, RegretOf::OneInForecaster(&with, &name)).await
}

pub(super) async fn naive_regret(
    State(service): State<Service>,
    Path(version): Path<String>,
    uri: Uri,
) -> Answer {
    let topic = topic(&service.inference, &version, &needed(&uri, "topic_id")?)?;
    let name = queried(&uri, "inferer")?;
    regret(&service, &topic, RegretOf::Naive(&name)).await
}

pub(super) async fn one_out_inferer_inferer_regret(
    State(service): State<Service>,
    Path(version): Path<String>,
    uri: Uri,
) -> Answer {
    let (topic, out, name) = one_out(&service, &version, &uri, ["one_out_inferer", "inferer"])?;
    regret(&service, &topic, RegretOf::OneOutInfererInferer(&out, &name)).await
}

pub(super) async fn one_out_inferer_forecaster_regret(
    State(service): State<Service>,
    Path(version): Path<String>,
    uri: Uri,
) -> Answer {
    let (topic, out, name) = one_out(&service, &version, &uri, ["one_out_inferer", "forecaster"])?;
    regret(&service, &topic, RegretOf::OneOutInfererForecaster(&out, &name)).await
}

pub(super) async fn one_out_forecaster_inferer_regret(
    State(service): State<Service>,
    Path(version): Path<String>,
    uri: Uri,
) -> Answer {
    let (topic, out, name) = one_out(&service, &version, &uri, ["one_out_forecaster", "inferer"])?;
    regret(&service, &topic, RegretOf::OneOutForecasterInferer(&out, &name)).await
}

pub(super) async fn one_out_forecaster_forecaster_regret(
    State(service): State<Service>,
    Path(version): Path<String>,
    uri: Uri,
) -> Answer {
    let (topic, out, name) =
        one_out(&service, &version, &uri, ["one_out_forecaster", "forecaster"])?;
    regret(&service, &topic, RegretOf::OneOutForecasterForecaster(&out, &name)).await
}

/// The topic of a query string, and two actors of it by their names there.
fn one_out(
    service: &Service,
    version: &str,
    uri: &Uri,
    names: [&'static str; 2],
) -> Result<(Arc<Topic>, Address, Address), ApiError> {
    let [out, name] = names;
    let topic = topic(&service.inference, version, &needed(uri, "topic_id")?)?;
    Ok((topic, queried(uri, out)?, queried(uri, name)?))
}

async fn regret(service: &Service, topic: &Topic, of: RegretOf<'_>) -> Answer {
    let timed = service.inference.regret(topic.id, of).await?;
    let regret =
        TimestampedValue { block_height: timed.nonce.to_string(), value: decimal(timed.regret) };
    Ok(Json(RegretResponse { regret }))
}

/// The losses that the path `parts` (version, topic, nonce) names, without those of pairs, and these.
async fn read_losses(
    service: &Service,
    parts: (String, String, String),
    reputer: &str,
) -> Result<(ValueBundle, PairBody), ApiError> {
    let (version, id, nonce) = parts;
    let topic = topic(&service.inference, &version, &id)?;
    let nonce = height(&nonce)?;
    let found = service.inference.losses_until(topic.id, nonce, 1).await?;
    let found = found.into_iter().find(|(of, _)| *of == nonce);
    let (_, losses) = found.ok_or_else(|| {
        ApiError::NotFound(format!("no network losses of topic {} at block {nonce}", topic.id))
    })?;
    Ok((body(&topic, nonce, reputer, &losses), PairBody::of_losses(&losses)))
}

/// Losses as a reputer reports them, without those of pairs.
pub(in crate::server) fn body(
    topic: &Topic,
    nonce: BlockHeight,
    reputer: &str,
    losses: &Losses,
) -> ValueBundle {
    ValueBundle {
        topic_id: topic.id.to_string(),
        reputer_request_nonce: ReputerNonce::new(nonce),
        reputer: reputer.to_owned(),
        extra_data: None,
        combined_value: decimal(losses.combined),
        inferer_values: values(&losses.inferer),
        forecaster_values: values(&losses.forecaster),
        naive_value: decimal(losses.naive),
        one_out_inferer_values: values(&losses.one_out_inferer),
        one_out_forecaster_values: values(&losses.one_out_forecaster),
        one_in_forecaster_values: values(&losses.one_in_forecaster),
        one_out_inferer_forecaster_values: Vec::new(),
    }
}

fn values(by_actor: &ByActor<f64>) -> Vec<WorkerValue> {
    let value = |(name, loss): (&Address, &f64)| WorkerValue {
        worker: name.to_string(),
        value: decimal(*loss),
    };
    by_actor.iter().map(value).collect()
}
