//! Losses, regrets and weights. The dataset is the only reputer here: it reports the network's own
//! losses.

use axum::{Json, response::Response};
use model::topic::{Address, BlockHeight, decimal};
use wire::{
    inference::chain::{
        NetworkLoss, RegretResponse, ReputerLossBundles, ReputerLossBundlesV9, ReputerNonce,
        ReputerValueBundle, ReputerValueBundles, TimestampedValue, ValueBundle, ValueResponse,
        WeightResponse, WorkerValue,
    },
    paths::emissions::{losses as of, weights},
};

use super::{
    super::bundle_body::{self, PairBody},
    ActorAddress, Answer, ApiError, Asked, ByVersion, FOUND, HeightPart, TopicMember, TopicPart,
    Version,
};
use crate::{
    math::regret::{ByActor, Losses, Role},
    network::{addresses, queries::Against, topic::Topic},
};

/// The losses of every quantity of one epoch.
///
/// Base-10 logarithms, unless the topic allows negative losses.
#[utoipa::path(get, path = of::NETWORK_LOSS, tag = "losses", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = NetworkLoss)))]
pub(super) async fn network_loss(asked: Asked) -> Result<Response, ApiError> {
    let topic = asked.topic()?;
    let (loss_bundle, pairs) = read_losses(&asked, &topic, "").await?;
    bundle_body::answer(&NetworkLoss { loss_bundle }, vec![pairs])
}

/// What each reputer reported for one epoch: the dataset is the one reputer here.
#[utoipa::path(get, path = of::REPUTER_LOSS_BUNDLES, tag = "losses", params(Version, TopicPart, HeightPart),
    responses((status = 200, description = FOUND, body = inline(ByVersion<ReputerLossBundles, ReputerLossBundlesV9>))))]
pub(super) async fn reputer_loss_bundles(asked: Asked) -> Result<Response, ApiError> {
    let topic = asked.topic()?;
    let reputer = addresses::of_reputer(&topic.source.dataset);
    let (bundle, pairs) = read_losses(&asked, &topic, reputer.as_str()).await?;
    if asked.is_old() {
        let (signature, pubkey) = (None, String::new());
        let bundle = ReputerValueBundle { value_bundle: bundle, signature, pubkey };
        let loss_bundles = ReputerValueBundles { reputer_value_bundles: vec![bundle] };
        return bundle_body::answer(&ReputerLossBundlesV9 { loss_bundles }, vec![pairs]);
    }
    bundle_body::answer(&ReputerLossBundles { loss_bundles: vec![bundle] }, vec![pairs])
}

/// An inferer's regret.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::INFERER_REGRET, tag = "losses", params(Version, TopicPart,
    ("actor_id" = inline(ActorAddress), Path,
        description = "The actor's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn inferer_network_regret(asked: Asked) -> Answer<RegretResponse> {
    regret(&asked, Against::Combined, Role::Inferer, "actor_id").await
}

/// A forecaster's regret.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::FORECASTER_REGRET, tag = "losses", params(Version, TopicPart,
    ("worker" = inline(ActorAddress), Path,
        description = "The forecaster's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn forecaster_network_regret(asked: Asked) -> Answer<RegretResponse> {
    regret(&asked, Against::Combined, Role::Forecaster, "worker").await
}

/// A regret with one forecaster alone.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::ONE_IN_FORECASTER_REGRET, tag = "losses", params(Version, TopicPart,
    ("forecaster" = inline(ActorAddress), Path,
        description = "The forecaster's address."),
    ("inferer" = inline(ActorAddress), Path,
        description = "The inferer's address, or the forecaster's again.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn one_in_forecaster_network_regret(asked: Asked) -> Answer<RegretResponse> {
    asked.topic()?;
    let with = asked.address("forecaster")?;
    let is_own = asked.address("inferer")? == with;
    let role = if is_own { Role::Forecaster } else { Role::Inferer };
    regret(&asked, Against::OneIn(with), role, "inferer").await
}

/// An inferer's regret against the naive value.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::NAIVE_REGRET, tag = "losses", params(Version, TopicMember,
    ("inferer" = inline(ActorAddress), Query,
        description = "The inferer's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn naive_inferer_network_regret(asked: Asked) -> Answer<RegretResponse> {
    regret(&asked, Against::Naive, Role::Inferer, "inferer").await
}

/// The same as it is spelled up to `v9`.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::NATIVE_REGRET, tag = "losses", params(Version, TopicMember,
    ("inferer" = inline(ActorAddress), Query,
        description = "The inferer's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn native_inferer_network_regret(asked: Asked) -> Answer<RegretResponse> {
    regret(&asked, Against::Naive, Role::Inferer, "inferer").await
}

/// An inferer's regret without another one.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::ONE_OUT_INFERER_INFERER_REGRET, tag = "losses", params(Version, TopicMember,
    ("one_out_inferer" = inline(ActorAddress), Query,
        description = "The address of the inferer left out."),
    ("inferer" = inline(ActorAddress), Query,
        description = "The inferer's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn one_out_inferer_inferer_network_regret(asked: Asked) -> Answer<RegretResponse> {
    one_out_regret(&asked, Role::Inferer, Role::Inferer).await
}

/// A forecaster's regret without an inferer.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::ONE_OUT_INFERER_FORECASTER_REGRET, tag = "losses", params(Version, TopicMember,
    ("one_out_inferer" = inline(ActorAddress), Query,
        description = "The address of the inferer left out."),
    ("forecaster" = inline(ActorAddress), Query,
        description = "The forecaster's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn one_out_inferer_forecaster_network_regret(
    asked: Asked,
) -> Answer<RegretResponse> {
    one_out_regret(&asked, Role::Inferer, Role::Forecaster).await
}

/// An inferer's regret without a forecaster.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::ONE_OUT_FORECASTER_INFERER_REGRET, tag = "losses", params(Version, TopicMember,
    ("one_out_forecaster" = inline(ActorAddress), Query,
        description = "The address of the forecaster left out."),
    ("inferer" = inline(ActorAddress), Query,
        description = "The inferer's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn one_out_forecaster_inferer_network_regret(
    asked: Asked,
) -> Answer<RegretResponse> {
    one_out_regret(&asked, Role::Forecaster, Role::Inferer).await
}

/// A forecaster's regret without another one.
///
/// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
#[utoipa::path(get, path = of::ONE_OUT_FORECASTER_FORECASTER_REGRET, tag = "losses", params(Version, TopicMember,
    ("one_out_forecaster" = inline(ActorAddress), Query,
        description = "The address of the forecaster left out."),
    ("forecaster" = inline(ActorAddress), Query,
        description = "The forecaster's address.")),
    responses((status = 200, description = FOUND, body = RegretResponse)))]
pub(super) async fn one_out_forecaster_forecaster_network_regret(
    asked: Asked,
) -> Answer<RegretResponse> {
    one_out_regret(&asked, Role::Forecaster, Role::Forecaster).await
}

/// The regret of an actor of `role` against the combined value without one of `out_role`.
async fn one_out_regret(asked: &Asked, out_role: Role, role: Role) -> Answer<RegretResponse> {
    asked.topic()?;
    let out = asked.address(&format!("one_out_{}", out_role.name()))?;
    regret(asked, Against::OneOut(out_role, out), role, role.name()).await
}

/// The regret of the actor that is called `name` in the request.
async fn regret(asked: &Asked, against: Against, role: Role, name: &str) -> Answer<RegretResponse> {
    let topic = asked.topic()?;
    let actor = asked.address(name)?;
    let (nonce, regret) = asked.service.inference.regret(topic.id, against, role, actor).await?;
    let regret = TimestampedValue { block_height: nonce.to_string(), value: decimal(regret) };
    Ok(Json(RegretResponse { regret }))
}

/// The losses of the epoch that is asked for, without those of pairs, and these.
async fn read_losses(
    asked: &Asked,
    topic: &Topic,
    reputer: &str,
) -> Result<(ValueBundle, PairBody), ApiError> {
    let nonce = asked.height()?;
    let found = asked.service.inference.losses_until(topic.id, nonce, 1).await?;
    let found = found.into_iter().find(|(of, _)| *of == nonce);
    let (_, losses) = found.ok_or_else(|| {
        ApiError::not_found(format!("no network losses of topic {} at block {nonce}", topic.id))
    })?;
    Ok((body(topic, nonce, reputer, &losses), PairBody::of_losses(&losses)))
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

/// The scale of regrets that weights are reckoned with; 0 before there is one.
#[utoipa::path(get, path = weights::REGRET_STDNORM, tag = "losses", params(Version, TopicPart),
    responses((status = 200, description = FOUND, body = ValueResponse)))]
pub(super) async fn latest_regret_stdnorm(asked: Asked) -> Answer<ValueResponse> {
    let learned = asked.service.inference.learned(asked.topic_id()?).await?;
    Ok(Json(ValueResponse { value: decimal(learned.regret_scale.unwrap_or_default()) }))
}

/// An inferer's share, as it follows from the newest regrets.
///
/// 0 to 1; those of all actors of a topic sum to 1. 0 for who has none.
#[utoipa::path(get, path = weights::INFERER_WEIGHT, tag = "losses", params(Version, TopicPart,
    ("actor_id" = inline(ActorAddress), Path,
        description = "The actor's address.")),
    responses((status = 200, description = FOUND, body = WeightResponse)))]
pub(super) async fn latest_inferer_weight(asked: Asked) -> Answer<WeightResponse> {
    weight(&asked, Role::Inferer).await
}

/// A forecaster's share, as it follows from the newest regrets.
///
/// 0 to 1; those of all actors of a topic sum to 1. 0 for who has none.
#[utoipa::path(get, path = weights::FORECASTER_WEIGHT, tag = "losses", params(Version, TopicPart,
    ("actor_id" = inline(ActorAddress), Path,
        description = "The actor's address.")),
    responses((status = 200, description = FOUND, body = WeightResponse)))]
pub(super) async fn latest_forecaster_weight(asked: Asked) -> Answer<WeightResponse> {
    weight(&asked, Role::Forecaster).await
}

async fn weight(asked: &Asked, role: Role) -> Answer<WeightResponse> {
    let (topic, name) = (asked.topic()?, asked.address("actor_id")?);
    let shares = asked.service.inference.learned_shares(topic.id).await?;
    let weight = shares[role].get(&name).copied().unwrap_or_default();
    Ok(Json(WeightResponse { weight: decimal(weight) }))
}
