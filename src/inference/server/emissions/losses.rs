//! Losses, regrets and weights. The dataset is the only reputer: it reports the network's losses.

use axum::Json;
use axum::response::Response;
use model::topic::{Address, BlockHeight, decimal};
use wire::inference::chain::{
    NetworkLoss, RegretResponse, ReputerLossBundles, ReputerLossBundlesV9, ReputerNonce,
    ReputerValueBundle, ReputerValueBundles, TimestampedValue, ValueBundle, ValueResponse,
    WeightResponse, WorkerValue,
};

use super::super::bundle_body::{self, PairBody};
use super::{Answer, ApiError, App, ByVersion, OpenApiRouter, Params, Result, routes};
use crate::math::regret::{ByActor, Losses, Role};
use crate::network::addresses;
use crate::network::queries::Against;
use crate::network::topic::Topic;

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(network_loss))
        .routes(routes!(reputer_loss_bundles))
        .routes(routes!(inferer_network_regret))
        .routes(routes!(forecaster_network_regret))
        .routes(routes!(one_in_forecaster_network_regret))
        .routes(routes!(naive_inferer_network_regret))
        .routes(routes!(native_inferer_network_regret))
        .routes(routes!(one_out_inferer_inferer_network_regret))
        .routes(routes!(one_out_inferer_forecaster_network_regret))
        .routes(routes!(one_out_forecaster_inferer_network_regret))
        .routes(routes!(one_out_forecaster_forecaster_network_regret))
        .routes(routes!(latest_regret_stdnorm))
        .routes(routes!(latest_inferer_weight))
        .routes(routes!(latest_forecaster_weight))
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

/// Returns an inferer's regret.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/inferer_network_regret/{topic_id}/{actor_id}",
    tag = "losses", responses((status = 200, body = RegretResponse)))]
async fn inferer_network_regret(params: Params) -> Answer<RegretResponse> {
    regret(&params, Against::Combined, Role::Inferer, "actor_id").await
}

/// Returns a forecaster's regret.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/forecaster_network_regret/{topic_id}/{worker}",
    tag = "losses", responses((status = 200, body = RegretResponse)))]
async fn forecaster_network_regret(params: Params) -> Answer<RegretResponse> {
    regret(&params, Against::Combined, Role::Forecaster, "worker").await
}

/// Returns a regret with a single forecaster.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/one_in_forecaster_network_regret/{topic_id}/{forecaster}/{inferer}",
    tag = "losses", responses((status = 200, body = RegretResponse)))]
async fn one_in_forecaster_network_regret(params: Params) -> Answer<RegretResponse> {
    params.topic()?;
    let with = params.address("forecaster")?;
    let is_own = params.address("inferer")? == with;
    let role = if is_own { Role::Forecaster } else { Role::Inferer };
    regret(&params, Against::OneIn(with), role, "inferer").await
}

/// Returns an inferer's regret against the naive value.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/naive_inferer_network_regret",
    tag = "losses", params(("topic_id" = u64, Query), ("inferer" = String, Query)),
    responses((status = 200, body = RegretResponse)))]
async fn naive_inferer_network_regret(params: Params) -> Answer<RegretResponse> {
    regret(&params, Against::Naive, Role::Inferer, "inferer").await
}

/// Returns an inferer's regret against the naive value, by its name up to `v9`.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/native_inferer_network_regret",
    tag = "losses", params(("topic_id" = u64, Query), ("inferer" = String, Query)),
    responses((status = 200, body = RegretResponse)))]
async fn native_inferer_network_regret(params: Params) -> Answer<RegretResponse> {
    regret(&params, Against::Naive, Role::Inferer, "inferer").await
}

/// Returns an inferer's regret without another inferer.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/one_out_inferer_inferer_network_regret",
    tag = "losses",
    params(("topic_id" = u64, Query), ("one_out_inferer" = String, Query), ("inferer" = String, Query)),
    responses((status = 200, body = RegretResponse)))]
async fn one_out_inferer_inferer_network_regret(params: Params) -> Answer<RegretResponse> {
    one_out_regret(&params, Role::Inferer, Role::Inferer).await
}

/// Returns a forecaster's regret without an inferer.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/one_out_inferer_forecaster_network_regret",
    tag = "losses",
    params(("topic_id" = u64, Query), ("one_out_inferer" = String, Query), ("forecaster" = String, Query)),
    responses((status = 200, body = RegretResponse)))]
async fn one_out_inferer_forecaster_network_regret(params: Params) -> Answer<RegretResponse> {
    one_out_regret(&params, Role::Inferer, Role::Forecaster).await
}

/// Returns an inferer's regret without a forecaster.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/one_out_forecaster_inferer_network_regret",
    tag = "losses",
    params(("topic_id" = u64, Query), ("one_out_forecaster" = String, Query), ("inferer" = String, Query)),
    responses((status = 200, body = RegretResponse)))]
async fn one_out_forecaster_inferer_network_regret(params: Params) -> Answer<RegretResponse> {
    one_out_regret(&params, Role::Forecaster, Role::Inferer).await
}

/// Returns a forecaster's regret without another forecaster.
///
/// Defaults to the topic's initial regret, at block 0.
#[utoipa::path(get, path = "/one_out_forecaster_forecaster_network_regret",
    tag = "losses",
    params(("topic_id" = u64, Query), ("one_out_forecaster" = String, Query), ("forecaster" = String, Query)),
    responses((status = 200, body = RegretResponse)))]
async fn one_out_forecaster_forecaster_network_regret(params: Params) -> Answer<RegretResponse> {
    one_out_regret(&params, Role::Forecaster, Role::Forecaster).await
}

/// Returns the regret of an actor of `role` against the combined value without an actor of
/// `out_role`.
async fn one_out_regret(params: &Params, out_role: Role, role: Role) -> Answer<RegretResponse> {
    params.topic()?;
    let out = params.address(&format!("one_out_{}", out_role.name()))?;
    regret(params, Against::OneOut(out_role, out), role, role.name()).await
}

/// Returns the regret of the actor in the parameter `name`.
async fn regret(
    params: &Params,
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

/// Returns the losses of the requested epoch and, separately, the losses of pairs.
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

/// Returns losses as a reputer reports them, without losses of pairs.
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

/// Returns the current scale of regrets; 0 before the first one.
#[utoipa::path(get, path = "/latest_regret_stdnorm/{topic_id}",
    tag = "losses", responses((status = 200, body = ValueResponse)))]
async fn latest_regret_stdnorm(params: Params) -> Answer<ValueResponse> {
    let learned = params.service.inference.learned(params.topic_id()?).await?;
    Ok(Json(ValueResponse { value: decimal(learned.regret_scale.unwrap_or_default()) }))
}

/// Returns an inferer's weight by the latest regrets.
///
/// The weights of all actors of a topic sum to 1.
#[utoipa::path(get, path = "/latest_inferer_weight/{topic_id}/{actor_id}",
    tag = "losses", responses((status = 200, body = WeightResponse)))]
async fn latest_inferer_weight(params: Params) -> Answer<WeightResponse> {
    weight(&params, Role::Inferer).await
}

/// Returns a forecaster's weight by the latest regrets.
///
/// The weights of all actors of a topic sum to 1.
#[utoipa::path(get, path = "/latest_forecaster_weight/{topic_id}/{actor_id}",
    tag = "losses", responses((status = 200, body = WeightResponse)))]
async fn latest_forecaster_weight(params: Params) -> Answer<WeightResponse> {
    weight(&params, Role::Forecaster).await
}

async fn weight(params: &Params, role: Role) -> Answer<WeightResponse> {
    let (topic, name) = (params.topic()?, params.address("actor_id")?);
    let shares = params.service.inference.learned_shares(topic.id).await?;
    let weight = shares[role].get(&name).copied().unwrap_or_default();
    Ok(Json(WeightResponse { weight: decimal(weight) }))
}
