//! Losses, regrets and weights. The topic's dataset appears as the only reputer, which reports all
//! losses.

use axum::Json;
use axum::response::Response;
use model::topic::{Address, BlockHeight, decimal};
use wire::inference::chain::{
    NetworkLoss, RegretResponse, ReputerLossBundles, ReputerLossBundlesV9, ReputerNonce,
    ReputerValueBundle, ReputerValueBundles, TimestampedValue, ValueBundle, ValueResponse,
    WeightResponse, WorkerValue,
};

use super::super::bundle_body::{self, PairBody};
use super::{Answer, ApiError, App, ByVersion, OpenApiRouter, Params, Queries, Result, routes};
use crate::math::regret::Role::{self, Forecaster, Inferer};
use crate::math::regret::{ByActor, Losses};
use crate::network::addresses;
use crate::network::queries::Against;
use crate::network::topic::Topic;

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    Queries::new("losses")
        .get("inferer_network_regret", |params| {
            regret(params, Against::Combined, Inferer, "actor_id")
        })
        .get("forecaster_network_regret", |params| {
            regret(params, Against::Combined, Forecaster, "worker")
        })
        .get("one_in_forecaster_network_regret", one_in_regret)
        .get("naive_inferer_network_regret", naive_regret)
        .get("native_inferer_network_regret", naive_regret)
        .get("one_out_inferer_inferer_network_regret", |params| {
            one_out_regret(params, Inferer, Inferer)
        })
        .get("one_out_inferer_forecaster_network_regret", |params| {
            one_out_regret(params, Inferer, Forecaster)
        })
        .get("one_out_forecaster_inferer_network_regret", |params| {
            one_out_regret(params, Forecaster, Inferer)
        })
        .get("one_out_forecaster_forecaster_network_regret", |params| {
            one_out_regret(params, Forecaster, Forecaster)
        })
        .get("latest_regret_stdnorm", latest_regret_stdnorm)
        .get("latest_inferer_weight", |params| weight(params, Inferer))
        .get("latest_forecaster_weight", |params| weight(params, Forecaster))
        .router
        .routes(routes!(network_loss))
        .routes(routes!(reputer_loss_bundles))
}

/// Returns all losses of an epoch.
///
/// Base-10 logarithms, unless the topic allows negative losses.
#[utoipa::path(get, path = "/network_loss/{topic_id}/{block_height}",
    tag = "losses", responses((status = 200, body = NetworkLoss)))]
async fn network_loss(params: Params) -> Result<Response> {
    let topic = params.topic()?;
    let (loss_bundle, pairs) = read_losses(&params, &topic, "").await?;
    bundle_body::response(&NetworkLoss { loss_bundle }, vec![pairs])
}

/// Returns the losses that the only reputer, the dataset, reported for an epoch.
#[utoipa::path(get, path = "/reputer_loss_bundles/{topic_id}/{block_height}",
    tag = "losses",
    responses((status = 200, body = inline(ByVersion<ReputerLossBundles, ReputerLossBundlesV9>))))]
async fn reputer_loss_bundles(params: Params) -> Result<Response> {
    let topic = params.topic()?;
    let reputer = addresses::of_reputer(&topic.source.dataset);
    let (bundle, pairs) = read_losses(&params, &topic, reputer.as_str()).await?;
    if params.is_old() {
        let (signature, pubkey) = (None, String::new());
        let bundle = ReputerValueBundle { value_bundle: bundle, signature, pubkey };
        let loss_bundles = ReputerValueBundles { reputer_value_bundles: vec![bundle] };
        return bundle_body::response(&ReputerLossBundlesV9 { loss_bundles }, vec![pairs]);
    }
    bundle_body::response(&ReputerLossBundles { loss_bundles: vec![bundle] }, vec![pairs])
}

async fn naive_regret(params: Params) -> Answer<RegretResponse> {
    regret(params, Against::Naive, Inferer, "inferer").await
}

async fn one_in_regret(params: Params) -> Answer<RegretResponse> {
    params.topic()?;
    let with = params.address("forecaster")?;
    let is_own = params.address("inferer")? == with;
    let role = if is_own { Forecaster } else { Inferer };
    regret(params, Against::OneIn(with), role, "inferer").await
}

/// Returns the regret of an actor in `role` against the combined value without an actor in `out_role`.
/// Both are named by the request.
async fn one_out_regret(params: Params, out_role: Role, role: Role) -> Answer<RegretResponse> {
    params.topic()?;
    let out = params.address(&format!("one_out_{}", out_role.name()))?;
    regret(params, Against::OneOut(out_role, out), role, role.name()).await
}

/// Returns the regret, against a value, of the actor named by the parameter `name`.
async fn regret(
    params: Params,
    against: Against,
    role: Role,
    name: &str,
) -> Answer<RegretResponse> {
    let topic = params.topic()?;
    let actor = params.address(name)?;
    let (nonce, regret) = params.service.inference.regret(topic.id, against, role, actor).await?;
    let regret = TimestampedValue { block_height: nonce.to_string(), value: decimal(regret) };
    Ok(Json(RegretResponse { regret }))
}

/// Returns the losses of the requested epoch in the form of the API, and separately the losses of
/// pairs.
async fn read_losses(
    params: &Params,
    topic: &Topic,
    reputer: &str,
) -> Result<(ValueBundle, PairBody)> {
    let nonce = params.height()?;
    let found = params.service.inference.losses_at(topic.id, nonce).await?;
    let losses = found.ok_or_else(|| {
        ApiError::not_found(format!("no network losses of topic {} at block {nonce}", topic.id))
    })?;
    Ok((body(topic, nonce, reputer, &losses), PairBody::of_losses(&losses)))
}

/// Converts losses to the form in which a reputer reports them on the chain, without the losses of
/// pairs.
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

async fn latest_regret_stdnorm(params: Params) -> Answer<ValueResponse> {
    let learned = params.service.inference.learned(params.topic_id()?).await?;
    Ok(Json(ValueResponse { value: decimal(learned.regret_scale.unwrap_or_default()) }))
}

async fn weight(params: Params, role: Role) -> Answer<WeightResponse> {
    let (topic, name) = (params.topic()?, params.address("actor_id")?);
    let shares = params.service.inference.learned_shares(topic.id).await?;
    let weight = shares[role].get(&name).copied().unwrap_or_default();
    Ok(Json(WeightResponse { weight: decimal(weight) }))
}
