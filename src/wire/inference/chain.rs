//! Messages of the chain other than the bundle: submissions, losses, regrets, windows and scores.
//!
//! As in the chain's gateway, 64-bit integers and decimals are texts, and a missing message is null.

use model::topic::{Address, decimal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Bundle, LabeledValue};

/// Declares messages with a single field. Each has its documentation, its name, the field, and the
/// documentation of the field.
macro_rules! messages {
    ($($(#[$about:meta])+ $message:ident { $member:ident: $kind:ty } $says:tt;)+) => {$(
        $(#[$about])+
        #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
        pub struct $message {
            #[doc = $says]
            pub $member: $kind,
        }
    )+};
}

messages! {
    /// Inferences of an epoch.
    Inferences { inferences: Vec<InferenceBody> } "One inference per worker, sorted by address.";

    /// Forecasts of an epoch.
    Forecasts { forecasts: Vec<ForecastBody> } "One forecast per worker, sorted by address.";

    /// A nonce in the envelope of the chain's API.
    Nonce { block_height: String } "Block at which the epoch opened.";

    /// A nonce for which a reputer reports losses.
    ReputerNonce { reputer_nonce: Nonce } "Nonce of the losses.";

    /// Response to `network_loss/{topic_id}/{block_height}`.
    NetworkLoss { loss_bundle: ValueBundle } "Losses of all values.";

    /// Losses reported by reputers, in versions up to v9.
    ReputerValueBundles { reputer_value_bundles: Vec<ReputerValueBundle> } "One bundle per reputer.";

    /// Response to `reputer_loss_bundles/{topic_id}/{block_height}` in v9.
    ReputerLossBundlesV9 { loss_bundles: ReputerValueBundles } "One bundle per reputer.";

    /// Response to `reputer_loss_bundles/{topic_id}/{block_height}`.
    ReputerLossBundles { loss_bundles: Vec<ValueBundle> } "One bundle per reputer.";

    /// A list of scores in the envelope of the chain's API.
    Scores { scores: Vec<ScoreBody> } "Scores by actor, or newest first.";

    /// Position of the next page.
    Pagination { next_key: Option<String> } "Null: there is one page.";
}

/// An inference that was accepted for an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InferenceBody {
    /// Id of the topic, from 1.
    pub topic_id: String,
    /// Nonce: the block at which the epoch opened.
    pub block_height: String,
    /// Address of the inferer.
    pub inferer: String,
    /// Inferred value. Only in versions up to v9.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// One value per label of the epoch, since v10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Always empty, since submissions cannot contain it.
    pub extra_data: Option<String>,
    /// Always empty, since submissions cannot contain it.
    pub proof: String,
}

/// An inference as submitted by a worker, since v10.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputInferenceBody {
    /// Id of the topic, from 1.
    pub topic_id: String,
    /// Nonce: the block at which the epoch opened.
    pub block_height: String,
    /// Address of the inferer.
    pub inferer: String,
    /// Inferred value for a topic with a single output; 0 for other topics.
    pub value: String,
    /// One value per label.
    pub values: Vec<InputLabeledValueBody>,
    /// Always empty, since submissions cannot contain it.
    pub extra_data: Option<String>,
    /// Always empty, since submissions cannot contain it.
    pub proof: String,
}

/// A value of an inference as submitted by a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputLabeledValueBody {
    /// Name of the label: `y` for a topic with a single output.
    pub label: String,
    /// Value as a decimal number.
    pub value: String,
}

/// Response to `latest_inferences/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatestInferences {
    /// Inferences that workers submitted.
    pub inferences: Inferences,
    /// Nonce of the inferences.
    pub block_height: String,
}

/// Loss that a forecaster predicts for one inferer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastElement {
    /// Address of the inferer.
    pub inferer: String,
    /// Predicted loss of the inferer.
    pub value: String,
}

/// Losses that one forecaster predicts for an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastBody {
    /// Id of the topic, from 1.
    pub topic_id: String,
    /// Nonce: the block at which the epoch opened.
    pub block_height: String,
    /// Address of the forecaster.
    pub forecaster: String,
    /// Predicted loss of each inferer.
    pub forecast_elements: Vec<ForecastElement>,
    /// Always empty, since submissions cannot contain it.
    pub extra_data: Option<String>,
}

/// A list of nonces in the envelope of the chain's API.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NonceList<N> {
    /// Nonces, oldest first.
    pub nonces: Vec<N>,
}

/// Value of an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerValue {
    /// Address of the worker.
    pub worker: String,
    /// Decimal number as text.
    pub value: String,
}

/// Values that one forecaster implies with an inferer left out, for each inferer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OneOutInfererForecasterValues {
    /// Address of the forecaster.
    pub forecaster: String,
    /// Value for each inferer that is left out.
    pub one_out_inferer_values: Vec<WorkerValue>,
}

/// A single number for each value of a bundle: the value's loss, or in versions up to v9 the value
/// itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValueBundle {
    /// Id of the topic, from 1.
    pub topic_id: String,
    /// Nonce of the epoch.
    pub reputer_request_nonce: ReputerNonce,
    /// Address of the reputer that reports losses; empty if the numbers are values.
    pub reputer: String,
    /// Always empty, since submissions cannot contain it.
    pub extra_data: Option<String>,
    /// Number of the combined value.
    pub combined_value: String,
    /// Numbers of the inferers' values.
    pub inferer_values: Vec<WorkerValue>,
    /// Values implied by forecasters, as numbers.
    pub forecaster_values: Vec<WorkerValue>,
    /// Naive value, as a number.
    pub naive_value: String,
    /// Numbers of the combined values with an inferer left out, for each inferer.
    pub one_out_inferer_values: Vec<WorkerValue>,
    /// Numbers of the combined values with a forecaster left out, for each forecaster.
    pub one_out_forecaster_values: Vec<WorkerValue>,
    /// Numbers of the values combined from the inferers and only one forecaster.
    pub one_in_forecaster_values: Vec<WorkerValue>,
    /// Numbers of the values that a forecaster implies with an inferer left out, for each forecaster
    /// and inferer.
    pub one_out_inferer_forecaster_values: Vec<OneOutInfererForecasterValues>,
}

/// Response to `latest_network_inferences` in v9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatestNetworkInferencesV9 {
    /// Bundle with a single number for each value.
    pub network_inferences: ValueBundle,
    /// Nonce: the block at which the epoch opened.
    pub inference_block_height: String,
}

/// Response to the queries for a bundle at a block, in either version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkInferencesAtBlock<B> {
    /// All values of the epoch.
    pub network_inferences: B,
}

/// Losses reported by a reputer, in versions up to v9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReputerValueBundle {
    /// Losses of the reputer.
    pub value_bundle: ValueBundle,
    /// Always empty, since the dataset does not sign.
    pub signature: Option<String>,
    /// Always empty, since the dataset has no key.
    pub pubkey: String,
}

/// A node that an actor runs off the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OffchainNode {
    /// Address of the node's owner.
    pub owner: String,
    /// Address of the node.
    pub node_address: String,
}

/// A number and the nonce of its epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimestampedValue {
    /// Nonce: the block at which the epoch opened.
    pub block_height: String,
    /// Decimal number as text.
    pub value: String,
}

/// Score of an actor in an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScoreBody {
    /// Id of the topic, from 1.
    pub topic_id: String,
    /// Nonce: the block at which the epoch opened.
    pub block_height: String,
    /// Address of the actor.
    pub address: String,
    /// Score as a decimal number.
    pub score: String,
}

/// Response to the queries for the status of a window.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the chain's message has them")]
pub struct WindowStatus {
    /// True if a submission window is open.
    pub is_open: bool,
    /// Nonce of the open window, or of the latest window if no window is open.
    pub current_nonce_block_height: String,
    /// First block of this window.
    pub window_start_block: String,
    /// Last block of this window.
    pub window_end_block: String,
    /// First block of the next window.
    pub next_window_start_block: String,
    /// Last block of the next window.
    pub next_window_end_block: String,
    /// True if the address in the query was active in an epoch.
    pub is_registered: bool,
    /// True if submissions of the address are accepted: the address is on the whitelist, or the
    /// whitelist is disabled.
    pub is_whitelisted: bool,
    /// True if the topic is active, so epochs open.
    pub is_topic_active: bool,
}

/// Latest accepted submissions or losses of a topic.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Commit {
    /// Block at which the submissions or losses were accepted.
    pub block_height: String,
    /// Nonce of the epoch of these submissions or losses.
    pub nonce: Nonce,
}

/// Response to `active_topics_at_block/{block_height}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActiveTopics {
    /// Topics that are active at the block.
    pub topics: Vec<super::TopicBody>,
    /// Position of the next page.
    pub pagination: Pagination,
}

/// Error for a bundle with several labels, which cannot be converted to single numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("bundle has several labels, expected one")]
pub struct LabelsError;

impl Nonce {
    /// Creates the nonce of the epoch that opened at `height`.
    #[must_use]
    pub fn new(height: u64) -> Self {
        Self { block_height: height.to_string() }
    }
}

impl ReputerNonce {
    /// Creates the nonce of the epoch that opened at `height`.
    #[must_use]
    pub fn new(height: u64) -> Self {
        Self { reputer_nonce: Nonce::new(height) }
    }
}

impl TryFrom<Bundle> for ValueBundle {
    type Error = LabelsError;

    fn try_from(bundle: Bundle) -> Result<Self, Self::Error> {
        Ok(Self {
            topic_id: bundle.topic_id.to_string(),
            reputer_request_nonce: ReputerNonce::new(bundle.nonce),
            reputer: String::new(),
            extra_data: None,
            combined_value: only(bundle.combined_value)?,
            naive_value: only(bundle.naive_value)?,
            inferer_values: each(bundle.inferer_values)?,
            forecaster_values: each(bundle.forecaster_values)?,
            one_out_inferer_values: each(bundle.one_out_inferer_values)?,
            one_out_forecaster_values: each(bundle.one_out_forecaster_values)?,
            one_in_forecaster_values: each(bundle.one_in_forecaster_values)?,
            one_out_inferer_forecaster_values: Vec::new(),
        })
    }
}

/// Returns the only element of `values` as text, or an error if there is not exactly one.
fn only(mut values: Vec<LabeledValue>) -> Result<String, LabelsError> {
    match values.pop() {
        Some(value) if values.is_empty() => Ok(decimal(value.value)),
        _ => Err(LabelsError),
    }
}

/// Converts each actor's entry to a single number. Returns an error if an entry does not have exactly
/// one value.
fn each(
    entries: Vec<impl Into<(Address, Vec<LabeledValue>)>>,
) -> Result<Vec<WorkerValue>, LabelsError> {
    let value = |entry: (Address, Vec<LabeledValue>)| {
        Ok(WorkerValue { worker: entry.0.to_string(), value: only(entry.1)? })
    };
    entries.into_iter().map(Into::into).map(value).collect()
}

/// Value of a parameter of the chain: a number as string, or a flag.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ChainParam {
    /// A number as decimal text.
    Text(String),
    /// Value of a flag.
    Flag(bool),
}
