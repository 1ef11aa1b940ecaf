//! Losses, regrets and weights. The topic's dataset appears as the only reputer, which reports all
//! losses.

use axum::response::Response;
use model::topic::{Address, BlockHeight, decimal};
use wire::inference::chain::{
    NetworkLoss, ReputerLossBundles, ReputerLossBundlesV9, ReputerNonce, ReputerValueBundle,
    ReputerValueBundles, TimestampedValue, ValueBundle, WorkerValue,
};

use super::super::bundle_body::{self, PairBody};
use super::{ApiError, App, ByVersion, OpenApiRouter, Params, Queries, Result, routes};
use crate::math::regret::Role::{self, Forecaster, Inferer};
use crate::math::regret::{ByActor, Losses};
use crate::network::addresses;
use crate::network::queries::Against;
use crate::network::topic::Topic;

/// Returns the router of these queries.
pub(super) fn api() -> OpenApiRouter<App> {
    Queries::new("losses")
        .member("inferer_network_regret", "regret", |params| {
            regret(params, Against::Combined, Inferer, "actor_id")
        })
        .member("forecaster_network_regret", "regret", |params| {
            regret(params, Against::Combined, Forecaster, "worker")
        })
        .member("one_in_forecaster_network_regret", "regret", one_in_regret)
        .member("naive_inferer_network_regret", "regret", naive_regret)
        .member("native_inferer_network_regret", "regret", naive_regret)
        .member("one_out_inferer_inferer_network_regret", "regret", |params| {
            one_out_regret(params, Inferer, Inferer)
        })
        .member("one_out_inferer_forecaster_network_regret", "regret", |params| {
            one_out_regret(params, Inferer, Forecaster)
        })
        .member("one_out_forecaster_inferer_network_regret", "regret", |params| {
            one_out_regret(params, Forecaster, Inferer)
        })
        .member("one_out_forecaster_forecaster_network_regret", "regret", |params| {
            one_out_regret(params, Forecaster, Forecaster)
        })
        .member("latest_regret_stdnorm", "value", latest_regret_stdnorm)
        .member("latest_inferer_weight", "weight", |params| weight(params, Inferer))
        .member("latest_forecaster_weight", "weight", |params| weight(params, Forecaster))
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

async fn naive_regret(params: Params) -> Result<TimestampedValue> {
    regret(params, Against::Naive, Inferer, "inferer").await
}

async fn one_in_regret(params: Params) -> Result<TimestampedValue> {
    params.topic()?;
    let with = params.address("forecaster")?;
    let is_own = params.address("inferer")? == with;
    let role = if is_own { Forecaster } else { Inferer };
    regret(params, Against::OneIn(with), role, "inferer").await
}

/// Returns the regret of an actor in `role` against the combined value without an actor in `out_role`.
/// Both are named by the request.
async fn one_out_regret(params: Params, out_role: Role, role: Role) -> Result<TimestampedValue> {
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
) -> Result<TimestampedValue> {
    let topic = params.topic()?;
    let actor = params.address(name)?;
    let (nonce, regret) = params.service.inference.regret(topic.id, against, role, actor).await?;
    Ok(TimestampedValue { block_height: nonce.to_string(), value: decimal(regret) })
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

async fn latest_regret_stdnorm(params: Params) -> Result<String> {
    let learned = params.service.inference.learned(params.topic_id()?).await?;
    Ok(decimal(learned.regret_scale.unwrap_or_default()))
}

async fn weight(params: Params, role: Role) -> Result<String> {
    let (topic, name) = (params.topic()?, params.address("actor_id")?);
    let shares = params.service.inference.learned_shares(topic.id).await?;
    Ok(decimal(shares[role].get(&name).copied().unwrap_or_default()))
}
