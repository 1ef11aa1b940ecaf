//! Losses and regrets. The dataset is the one reputer here: it reports what the network takes.

use axum::Json;
use model::{
    bundle::decimal,
    topic::{Address, BlockHeight},
};
use wire::{
    inference::chain::{
        NetworkLoss, RegretResponse, ReputerLossBundles, ReputerLossBundlesV9, ReputerNonce,
        ReputerValueBundle, ReputerValueBundles, TimestampedValue, ValueBundle, WorkerValue,
    },
    paths::emissions::losses as of,
};

use super::{
    super::bundle_body::{self, PairBody},
    ApiError, Asked, ByVersion,
};
use crate::{
    math::regret::{ByActor, Losses, Role},
    network::{addresses, queries::Against, topic::Topic},
};

type Answer = Result<Json<RegretResponse>, ApiError>;

queries! {
    "losses";

    /// The losses of every quantity of one epoch.
    ///
    /// Base-10 logarithms, unless the topic allows negative losses.
    NETWORK_LOSS[TopicPart, HeightPart] network_loss(asked) -> NetworkLoss = {
        let topic = asked.topic()?;
        let (loss_bundle, pairs) = read_losses(&asked, &topic, "").await?;
        bundle_body::answer(&NetworkLoss { loss_bundle }, vec![pairs])
    };

    /// What each reputer reported for one epoch: the dataset is the one reputer here.
    REPUTER_LOSS_BUNDLES[TopicPart, HeightPart]
    reputer_loss_bundles(asked) -> inline(ByVersion<ReputerLossBundles, ReputerLossBundlesV9>) = {
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
    };

    /// An inferer's regret.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    INFERER_REGRET[TopicPart; Path "actor_id" = "The actor's address."]
    inferer_network_regret(asked) -> RegretResponse =
        regret(&asked, Against::Combined, Role::Inferer, "actor_id").await;

    /// A forecaster's regret.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    FORECASTER_REGRET[TopicPart; Path "worker" = "The forecaster's address."]
    forecaster_network_regret(asked) -> RegretResponse =
        regret(&asked, Against::Combined, Role::Forecaster, "worker").await;

    /// A regret with one forecaster alone.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    ONE_IN_FORECASTER_REGRET[TopicPart;
        Path "forecaster" = "The forecaster's address.";
        Path "inferer" = "The inferer's address, or the forecaster's again."]
    one_in_forecaster_network_regret(asked) -> RegretResponse = {
        asked.topic()?;
        let with = asked.address("forecaster")?;
        let is_own = asked.address("inferer")? == with;
        let role = if is_own { Role::Forecaster } else { Role::Inferer };
        regret(&asked, Against::OneIn(with), role, "inferer").await
    };

    /// An inferer's regret against the naive value.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    NAIVE_REGRET[TopicMember; Query "inferer" = "The inferer's address."]
    naive_inferer_network_regret(asked) -> RegretResponse =
        regret(&asked, Against::Naive, Role::Inferer, "inferer").await;

    /// The same as it is spelled up to `v9`.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    NATIVE_REGRET[TopicMember; Query "inferer" = "The inferer's address."]
    native_inferer_network_regret(asked) -> RegretResponse =
        regret(&asked, Against::Naive, Role::Inferer, "inferer").await;

    /// An inferer's regret without another one.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    ONE_OUT_INFERER_INFERER_REGRET[TopicMember;
        Query "one_out_inferer" = "The address of the inferer left out.";
        Query "inferer" = "The inferer's address."]
    one_out_inferer_inferer_network_regret(asked) -> RegretResponse =
        one_out_regret(&asked, Role::Inferer, Role::Inferer).await;

    /// A forecaster's regret without an inferer.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    ONE_OUT_INFERER_FORECASTER_REGRET[TopicMember;
        Query "one_out_inferer" = "The address of the inferer left out.";
        Query "forecaster" = "The forecaster's address."]
    one_out_inferer_forecaster_network_regret(asked) -> RegretResponse =
        one_out_regret(&asked, Role::Inferer, Role::Forecaster).await;

    /// An inferer's regret without a forecaster.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    ONE_OUT_FORECASTER_INFERER_REGRET[TopicMember;
        Query "one_out_forecaster" = "The address of the forecaster left out.";
        Query "inferer" = "The inferer's address."]
    one_out_forecaster_inferer_network_regret(asked) -> RegretResponse =
        one_out_regret(&asked, Role::Forecaster, Role::Inferer).await;

    /// A forecaster's regret without another one.
    ///
    /// Who has none yet has the topic's initial regret, at block 0. Unit: that of the topic's losses.
    ONE_OUT_FORECASTER_FORECASTER_REGRET[TopicMember;
        Query "one_out_forecaster" = "The address of the forecaster left out.";
        Query "forecaster" = "The forecaster's address."]
    one_out_forecaster_forecaster_network_regret(asked) -> RegretResponse =
        one_out_regret(&asked, Role::Forecaster, Role::Forecaster).await;
}

/// The regret of an actor of `role` against the combined value without one of `out_role`.
async fn one_out_regret(asked: &Asked, out_role: Role, role: Role) -> Answer {
    asked.topic()?;
    let out = asked.address(&format!("one_out_{}", out_role.name()))?;
    regret(asked, Against::OneOut(out_role, out), role, role.name()).await
}

/// The regret of the actor that is called `name` in the request.
async fn regret(asked: &Asked, against: Against, role: Role, name: &str) -> Answer {
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
