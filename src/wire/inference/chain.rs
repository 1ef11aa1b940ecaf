//! The chain's own messages, beside the bundle: submissions, losses, regrets, windows and scores.
//!
//! As its gateway writes them: whole numbers of 64 bits and decimals are texts, a message that is
//! not there is null.

use model::topic::{Address, decimal};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Bundle, LabeledValue};

/// Declares messages of one member each: what a message is, its name, its member, and what that says.
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
    /// Inferences of one nonce.
    Inferences { inferences: Vec<InferenceBody> } "One inference per worker, sorted by address.";

    /// The answer to `inferences/{topic_id}/{block_height}`.
    InferencesAtBlock { inferences: Inferences } "What was submitted.";

    /// The answer to `topics/{topic_id}/workers/{worker_address}/latest_input_inference`.
    LatestInputInference { latest_input_inference: InputInferenceBody } "The newest one.";

    /// The same up to v9.
    LatestInference { latest_inference: InferenceBody } "The newest one.";

    /// Forecasts of one nonce.
    Forecasts { forecasts: Vec<ForecastBody> } "One forecast per worker, sorted by address.";

    /// The answer to `forecasts/{topic_id}/{block_height}`.
    ForecastsAtBlock { forecasts: Forecasts } "What was submitted.";

    /// A nonce, as the chain's API wraps it.
    Nonce { block_height: String } "The block at which the epoch opened.";

    /// A nonce that reputers report for.
    ReputerNonce { reputer_nonce: Nonce } "The nonce whose losses are reported.";

    /// The answer to `network_loss/{topic_id}/{block_height}`.
    NetworkLoss { loss_bundle: ValueBundle } "The losses of every quantity.";

    /// What reputers reported, up to v9.
    ReputerValueBundles { reputer_value_bundles: Vec<ReputerValueBundle> } "One for each reputer.";

    /// The answer to `reputer_loss_bundles/{topic_id}/{block_height}` in v9.
    ReputerLossBundlesV9 { loss_bundles: ReputerValueBundles } "One bundle per reputer.";

    /// The answer to `reputer_loss_bundles/{topic_id}/{block_height}`.
    ReputerLossBundles { loss_bundles: Vec<ValueBundle> } "One for each reputer.";

    /// The answer to the queries for a regret.
    RegretResponse { regret: TimestampedValue } "The regret and the nonce it is of.";

    /// The answer to `latest_regret_stdnorm/{topic_id}`.
    ValueResponse { value: String } "A decimal number, as text.";

    /// The answer to the queries for a weight.
    WeightResponse { weight: String } "The weight, 0 to 1.";

    /// The answer to the queries for one score.
    ScoreResponse { score: ScoreBody } "The actor's newest score.";

    /// A list of scores, as the chain's API wraps it.
    Scores { scores: Vec<ScoreBody> } "By actor, or newest first.";

    /// The answer to the queries for scores at a block.
    ScoresAtBlock { scores: Scores } "The scores, sorted by address.";

    /// The answer to the counts of inclusions.
    CountResponse { count: String } "In how many epochs.";

    /// The answer to `topic_exists/{topic_id}`.
    TopicExists { exists: bool } "Whether it does.";

    /// The answer to `is_topic_active/{topic_id}`.
    IsTopicActive { is_active: bool } "Whether epochs open.";

    /// The answer to `next_churning_block_by_topic_id/{topic_id}`.
    NextChurningBlock { block_height: String } "When the next epoch opens.";

    /// The answer to `is_worker_nonce_unfulfilled/{topic_id}/{block_height}`.
    IsWorkerNonceUnfulfilled { is_worker_nonce_unfulfilled: bool } "Whether the epoch is open.";

    /// The answer to `is_reputer_nonce_unfulfilled/{topic_id}/{block_height}`.
    IsReputerNonceUnfulfilled { is_reputer_nonce_unfulfilled: bool }
        "Whether the epoch is to be learned from.";

    /// Response to the queries for a registration.
    IsRegistered { is_registered: bool } "Whether the actor is known.";

    /// Response to `is_whitelisted_topic_reputer/{topic_id}/{address}`.
    IsWhitelistedTopicReputer { is_whitelisted_topic_reputer: bool } "Whether it is listed.";

    /// Response to `can_submit_reputer_payload/{topic_id}/{address}`.
    CanSubmitReputerPayload { can_submit_reputer_payload: bool } "Whether losses are taken.";

    /// Response to `can_update_topic_whitelist/{topic_id}/{address}`.
    CanUpdateTopicWhitelist { can_update_topic_whitelist: bool } "Whether it may.";

    /// Response to the queries for a node.
    NodeInfo { node_info: OffchainNode } "The node.";

    /// Response to the queries for an initial score.
    InitialScore { score: String } "The score, a decimal number.";

    /// The answer to `is_topic_worker_whitelist_enabled/{topic_id}`.
    IsTopicWorkerWhitelistEnabled { is_topic_worker_whitelist_enabled: bool }
        "Whether it takes submissions of the workers on its whitelist alone.";

    /// The answer to `is_whitelisted_topic_worker/{topic_id}/{address}`.
    IsWhitelistedTopicWorker { is_whitelisted_topic_worker: bool }
        "Whether it is on the whitelist.";

    /// The answer to `can_submit_worker_payload/{topic_id}/{address}`.
    CanSubmitWorkerPayload { can_submit_worker_payload: bool }
        "Whether it may: it is on the whitelist, or that is not enabled.";

    /// The answer to `active_inferers/{topic_id}`.
    ActiveInferers { inferers: Vec<String> } "The addresses of the inferers.";

    /// The answer to `active_forecasters/{topic_id}`.
    ActiveForecasters { forecasters: Vec<String> } "The addresses of the forecasters.";

    /// The answer to the queries for last commits.
    LastCommit { last_commit: Option<Commit> } "The newest; null before the first.";

    /// The answer to `topic_reward_nonce/{topic_id}`.
    RewardNonce { nonce: String } "The nonce learned from last; 0 before the first.";

    /// Where the next page is.
    Pagination { next_key: Option<String> } "Null: there is one page.";
}

/// One inference as it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InferenceBody {
    /// The topic's number, from 1.
    pub topic_id: String,
    /// The nonce: the block at which the epoch opened.
    pub block_height: String,
    /// The address of the inferer.
    pub inferer: String,
    /// Its value; up to v9 alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// One value for each label of the epoch; as of v10.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub values: Option<Vec<String>>,
    /// Always empty: nothing of the kind is taken.
    pub extra_data: Option<String>,
    /// Always empty: nothing of the kind is taken.
    pub proof: String,
}

/// One inference as a worker submitted it, as of v10.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputInferenceBody {
    /// The topic's number, from 1.
    pub topic_id: String,
    /// The nonce: the block at which the epoch opened.
    pub block_height: String,
    /// The address of the inferer.
    pub inferer: String,
    /// Its value on a topic with one output; 0 on others.
    pub value: String,
    /// One value for each label.
    pub values: Vec<InputLabeledValueBody>,
    /// Always empty: nothing of the kind is taken.
    pub extra_data: Option<String>,
    /// Always empty: nothing of the kind is taken.
    pub proof: String,
}

/// A value as a worker submitted it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InputLabeledValueBody {
    /// The label's name, `y` on a topic with a single output.
    pub label: String,
    /// A decimal number.
    pub value: String,
}

/// The answer to `latest_inferences/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatestInferences {
    /// What was submitted.
    pub inferences: Inferences,
    /// For which nonce.
    pub block_height: String,
}

/// The loss that a forecaster expects of one inferer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastElement {
    /// The address of the inferer forecast about.
    pub inferer: String,
    /// The loss that is expected of the inferer.
    pub value: String,
}

/// The losses one forecaster expects for an epoch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastBody {
    /// The topic's number, from 1.
    pub topic_id: String,
    /// The nonce: the block at which the epoch opened.
    pub block_height: String,
    /// The address of the forecaster.
    pub forecaster: String,
    /// What it expects.
    pub forecast_elements: Vec<ForecastElement>,
    /// Always empty: nothing of the kind is taken.
    pub extra_data: Option<String>,
}

/// A list of nonces, as the chain's API wraps it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NonceList<N> {
    /// The nonces, oldest first.
    pub nonces: Vec<N>,
}

/// The answer to the lists of nonces and windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Nonces<N> {
    /// The list, oldest nonce first.
    pub nonces: NonceList<N>,
}

/// A number for an actor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct WorkerValue {
    /// The address of the worker.
    pub worker: String,
    /// A decimal number, as text.
    pub value: String,
}

/// A forecaster's numbers without each inferer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OneOutInfererForecasterValues {
    /// The address of the forecaster.
    pub forecaster: String,
    /// By inferer left out.
    pub one_out_inferer_values: Vec<WorkerValue>,
}

/// One number for every quantity: losses, or the values of a bundle up to v9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ValueBundle {
    /// The topic's number, from 1.
    pub topic_id: String,
    /// The nonce whose losses these are.
    pub reputer_request_nonce: ReputerNonce,
    /// Who reports; empty for the network itself.
    pub reputer: String,
    /// Always empty: nothing of the kind is taken.
    pub extra_data: Option<String>,
    /// Of the combined value.
    pub combined_value: String,
    /// Of each inferer.
    pub inferer_values: Vec<WorkerValue>,
    /// Of what each forecaster implies.
    pub forecaster_values: Vec<WorkerValue>,
    /// Of the naive value.
    pub naive_value: String,
    /// Without each inferer.
    pub one_out_inferer_values: Vec<WorkerValue>,
    /// Without each forecaster.
    pub one_out_forecaster_values: Vec<WorkerValue>,
    /// With each forecaster alone.
    pub one_in_forecaster_values: Vec<WorkerValue>,
    /// Of what each forecaster implies without each inferer.
    pub one_out_inferer_forecaster_values: Vec<OneOutInfererForecasterValues>,
}

/// The answer to `latest_network_inferences` in v9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LatestNetworkInferencesV9 {
    /// The bundle, one number for each quantity.
    pub network_inferences: ValueBundle,
    /// The block at which it was made.
    pub inference_block_height: String,
}

/// The answer to the queries at a block, in either version.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NetworkInferencesAtBlock<B> {
    /// Every value of the epoch.
    pub network_inferences: B,
}

/// What a reputer reported, up to v9.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ReputerValueBundle {
    /// The losses the reputer reports.
    pub value_bundle: ValueBundle,
    /// Always empty: the dataset signs nothing.
    pub signature: Option<String>,
    /// Always empty: the dataset has no key.
    pub pubkey: String,
}

/// A node that an actor runs outside of the chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OffchainNode {
    /// The address of its owner.
    pub owner: String,
    /// The address of the node.
    pub node_address: String,
}

/// A number, and when it was computed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TimestampedValue {
    /// The nonce: the block at which the epoch opened.
    pub block_height: String,
    /// A decimal number, as text.
    pub value: String,
}

/// An actor's score at one nonce.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScoreBody {
    /// The topic's number, from 1.
    pub topic_id: String,
    /// The nonce: the block at which the epoch opened.
    pub block_height: String,
    /// The address of the actor.
    pub address: String,
    /// The score, a decimal number.
    pub score: String,
}

/// The answer to the states of windows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[expect(clippy::struct_excessive_bools, reason = "the chain's message has them")]
pub struct WindowStatus {
    /// Whether a window is open.
    pub is_open: bool,
    /// The nonce of the open one, else of the newest.
    pub current_nonce_block_height: String,
    /// Its first block.
    pub window_start_block: String,
    /// Its last block.
    pub window_end_block: String,
    /// The first block of the one after it.
    pub next_window_start_block: String,
    /// The last block of the one after it.
    pub next_window_end_block: String,
    /// Whether the address asked about ever took part.
    pub is_registered: bool,
    /// Whether its submissions are taken: it is on the whitelist, or that is not enabled.
    pub is_whitelisted: bool,
    /// Whether epochs open.
    pub is_topic_active: bool,
}

/// When an actor's work was last taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Commit {
    /// At which height.
    pub block_height: String,
    /// For which nonce.
    pub nonce: Nonce,
}

/// The answer to `active_topics_at_block/{block_height}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ActiveTopics {
    /// Those whose epochs open.
    pub topics: Vec<super::TopicBody>,
    /// Where the next page is.
    pub pagination: Pagination,
}

/// A bundle has several labels, which a form with one number has no place for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("write a bundle of several labels as single numbers")]
pub struct LabelsError;

impl Nonce {
    /// The nonce at `height`.
    #[must_use]
    pub fn new(height: u64) -> Self {
        Self { block_height: height.to_string() }
    }
}

impl ReputerNonce {
    /// The nonce at `height`.
    #[must_use]
    pub fn new(height: u64) -> Self {
        Self { reputer_nonce: Nonce::new(height) }
    }
}

impl<N> Nonces<N> {
    /// All of `nonces`.
    pub fn new(nonces: impl IntoIterator<Item = N>) -> Self {
        Self { nonces: NonceList { nonces: nonces.into_iter().collect() } }
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

/// The one value among `values`.
fn only(mut values: Vec<LabeledValue>) -> Result<String, LabelsError> {
    match values.pop() {
        Some(value) if values.is_empty() => Ok(decimal(value.value)),
        _ => Err(LabelsError),
    }
}

/// Each actor with the one value of its entry.
fn each(
    entries: Vec<impl Into<(Address, Vec<LabeledValue>)>>,
) -> Result<Vec<WorkerValue>, LabelsError> {
    let value = |entry: (Address, Vec<LabeledValue>)| {
        Ok(WorkerValue { worker: entry.0.to_string(), value: only(entry.1)? })
    };
    entries.into_iter().map(Into::into).map(value).collect()
}
