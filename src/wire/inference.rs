//! Bodies of the inference service's API. Bodies of topics and their latest bundles are as in the
//! chain's API. The history of a topic, and the list of topics with their schedule and actors, are
//! extensions.

pub mod cases;
pub mod chain;
pub mod consumer;
pub mod network;

use std::fmt::Display;
use std::str::FromStr;

use derive_more::{From, Into};
use model::topic::{Address, BlockHeight, TopicId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// Paths of the inference service. `{…}` marks a path parameter.
pub mod paths {
    /// The latest bundle of a topic.
    pub const LATEST_NETWORK_INFERENCES: &str =
        "/emissions/{version}/latest_network_inferences/{topic_id}";
    /// The latest bundle of a topic, computed without outliers.
    pub const LATEST_OUTLIER_RESISTANT: &str =
        "/emissions/{version}/latest_network_inferences_outlier_resistant/{topic_id}";
    /// Settings of a topic.
    pub const TOPIC: &str = "/emissions/{version}/topics/{topic_id}";
    /// Id that the next created topic will get.
    pub const NEXT_TOPIC_ID: &str = "/emissions/{version}/next_topic_id";
    /// Lists topics with their schedule and actors. A `POST` creates a topic. This path and all paths
    /// below are extensions, except the consumer API.
    pub const TOPICS: &str = "/api/v1/topics";
    /// Creates several topics, or no topic if one topic is refused.
    pub const TOPIC_BATCH: &str = "/api/v1/topics/batch";
    /// Settings of a topic, which can be read and replaced. A `DELETE` deletes the topic.
    pub const TOPIC_SETTINGS: &str = "/api/v1/topics/{topic_id}";
    /// Resumes or pauses a topic.
    pub const TOPIC_ACTIVE: &str = "/api/v1/topics/{topic_id}/active";
    /// The account that signs values for contracts.
    pub const SIGNER: &str = "/api/v1/signer";
    /// Health of a topic and retention of its epochs.
    pub const TOPIC_HEALTH: &str = "/api/v1/topics/{topic_id}/health";
    /// Learns again from a topic's past epochs, after reading their ground truth again.
    pub const TOPIC_RELEARN: &str = "/api/v1/topics/{topic_id}/relearn";
    /// One worker on a topic's whitelist, which can be added or removed.
    pub const TOPIC_WHITELISTED: &str = "/api/v1/topics/{topic_id}/whitelist/{worker}";
    /// Accepts a worker's payload for an epoch.
    pub const TOPIC_SUBMISSIONS: &str = "/api/v1/topics/{topic_id}/submissions";
    /// Latest bundle of a topic with weights and confidence intervals.
    pub const TOPIC_LATEST: &str = "/api/v1/topics/{topic_id}/latest";
    /// Streams the new bundles of a topic as server-sent events.
    pub const TOPIC_STREAM: &str = "/api/v1/topics/{topic_id}/stream";
    /// A past epoch of a topic with its values and results.
    pub const TOPIC_EPOCH: &str = "/api/v1/topics/{topic_id}/epochs/{nonce}";
    /// Latest value of the topic `?allora_topic_id=`, signed for the contract on chain `chain_id`.
    pub const CONSUMER: &str = "/v2/allora/consumer/{chain_id}";
    /// Latest price of an asset, signed for the contract on chain `chain_id`.
    pub const CONSUMER_PRICE: &str = "/v2/allora/consumer/price/{chain_id}/{asset}/{timeframe}";
    /// Lists topics page by page, starting after the position `?continuation_token=`.
    pub const CONSUMER_TOPICS: &str = "/v2/allora/{network}/topics";
    /// Past epochs of a topic as a file with a row for each epoch, actor and label, with the parameters
    /// `?from=&to=&actor=&limit=&output=`.
    pub const TOPIC_EPOCHS: &str = "/api/v1/topics/{topic_id}/epochs/";
    /// The latest epochs of a topic, at most `?limit=`, oldest first.
    pub const TOPIC_HISTORY: &str = "/api/v1/topics/{topic_id}/history";
    /// Actors of a topic ranked by mean loss, and the losses of the topic's values, over the latest
    /// `?epochs=`.
    pub const TOPIC_LEADERBOARD: &str = "/api/v1/topics/{topic_id}/leaderboard";
}

/// A labeled value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabeledValue {
    /// Id of the label within the epoch, from 1.
    pub label_id: u32,
    /// Name of the label: `y` for a topic with a single output.
    pub label_name: String,
    /// Value as a decimal text; `NaN` if unknown.
    #[serde(with = "decimal")]
    #[schema(value_type = String)]
    pub value: f64,
}

/// Values of one worker.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct WorkerValues {
    /// Address of the worker.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub worker: Address,
    /// One value per label.
    pub values: Vec<LabeledValue>,
}

/// Combined values without one inferer.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct WithheldInferer {
    /// Address of the inferer that is left out.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub withheld_inferer: Address,
    /// Values combined from all other actors.
    pub combined_inference: Vec<LabeledValue>,
}

/// Combined values without one forecaster.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct WithheldForecaster {
    /// Address of the forecaster that is left out.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub withheld_forecaster: Address,
    /// Values combined from all other actors.
    pub combined_inference: Vec<LabeledValue>,
}

/// Values combined from the inferers and only one forecaster.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct OneInForecaster {
    /// Address of the forecaster.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub forecaster: Address,
    /// Values combined from the inferers and this forecaster.
    pub combined_inference: Vec<LabeledValue>,
}

/// Value implied by one forecaster without one inferer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OneOutInfererForecaster {
    /// Address of the forecaster.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub forecaster: Address,
    /// Address of the inferer that is left out.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub withheld_inferer: Address,
    /// Values that the forecaster implies without the inferer.
    pub combined_inference: Vec<LabeledValue>,
}

/// A bundle: all values of a topic's epoch. The fields are in the order of the chain's message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bundle {
    /// Id of the topic, as text.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub topic_id: TopicId,
    /// Block at which the epoch opened, as text.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub nonce: BlockHeight,
    /// Values combined from inferers and forecasters, weighted by their regrets.
    pub combined_value: Vec<LabeledValue>,
    /// Values submitted by each inferer.
    pub inferer_values: Vec<WorkerValues>,
    /// Values implied by each forecaster.
    pub forecaster_values: Vec<WorkerValues>,
    /// Values combined from the inferers only, weighted by their naive regrets.
    pub naive_value: Vec<LabeledValue>,
    /// Combined values with an inferer left out, for each inferer.
    #[serde(default)]
    pub one_out_inferer_values: Vec<WithheldInferer>,
    /// Combined values with a forecaster left out, for each forecaster; empty with fewer than two
    /// forecasters.
    #[serde(default)]
    pub one_out_forecaster_values: Vec<WithheldForecaster>,
    /// Values combined from the inferers and only one forecaster, for each forecaster; empty with fewer
    /// than two forecasters.
    #[serde(default)]
    pub one_in_forecaster_values: Vec<OneInForecaster>,
    /// Values that a forecaster implies with an inferer left out, for each forecaster and inferer.
    #[serde(default)]
    pub one_out_inferer_forecaster_values: Vec<OneOutInfererForecaster>,
}

/// Latest bundle of a topic. The response to `GET
/// /emissions/{version}/latest_network_inferences/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatestBundle {
    /// All values of the epoch.
    #[serde(rename = "network_inferences")]
    pub bundle: Bundle,
    /// Block at which the epoch opened, as text.
    #[serde(rename = "inference_block_height", with = "text")]
    #[schema(value_type = String)]
    pub block_height: BlockHeight,
}

/// Response to `GET /emissions/{version}/topics/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicResponse {
    /// The topic and its settings.
    pub topic: TopicBody,
    /// Weight of the topic among all topics: 1 if the topic is active, 0 if the topic is paused.
    #[serde(default)]
    pub weight: String,
    /// Always 0, since there are no rewards.
    #[serde(default)]
    pub effective_revenue: String,
    /// Always 0, since there are no stakes.
    #[serde(default)]
    pub topic_stake: String,
}

/// Response to `POST /api/v1/topics/batch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicBatchResponse {
    /// The created topics, in the order of the request.
    pub topics: Vec<TopicResponse>,
}

/// A topic and its settings. 64-bit integers and decimals are texts, as in the chain's gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicBody {
    /// Id of the topic, from 1.
    pub id: String,
    /// Address of the key that created the topic; empty for a built-in topic.
    #[serde(default)]
    pub creator: String,
    /// Human-readable description of the prediction.
    pub metadata: String,
    /// Loss function, such as `mse`.
    pub loss_method: String,
    /// Nonce of the latest epoch; 0 if there is no epoch.
    pub epoch_last_ended: String,
    /// Blocks per epoch.
    pub epoch_length: String,
    /// Blocks from the opening of an epoch until its ground truth is read.
    pub ground_truth_lag: String,
    /// Exponent with which the preference for the best actors increases.
    pub p_norm: String,
    /// Regret, in units of the scale, from which weights increase strongly.
    pub c_norm: String,
    /// Weight of the latest loss in a regret.
    pub alpha_regret: String,
    /// True if losses can be negative.
    pub allow_negative: bool,
    /// Number added to the scale of regrets.
    pub epsilon: String,
    /// Regret of newcomers.
    pub initial_regret: String,
    /// Blocks after the opening of an epoch in which workers can submit.
    pub worker_submission_window: String,
    /// Weight of the latest score in its moving average.
    #[serde(default)]
    pub merit_sortition_alpha: String,
    /// Quantile of active inferers' scores, toward which the scores of inactive inferers move.
    #[serde(default)]
    pub active_inferer_quantile: String,
    /// Quantile of active forecasters' scores, toward which the scores of inactive forecasters
    /// move.
    #[serde(default)]
    pub active_forecaster_quantile: String,
    /// Quantile of active reputers' scores, toward which the scores of inactive reputers move.
    #[serde(default)]
    pub active_reputer_quantile: String,
    /// Settings of labels; omitted in versions up to v9.
    #[serde(flatten)]
    pub labeling: Option<TopicLabeling>,
}

/// Settings of a topic's labels, since v10.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicLabeling {
    /// `TOPIC_TYPE_REGRESSION` or `TOPIC_TYPE_CLASSIFICATION`.
    pub topic_type: String,
    /// `TOPIC_OUTPUT_ARITY_SINGLE` or `TOPIC_OUTPUT_ARITY_MULTI`.
    pub output_arity: String,
    /// True if the labels' values must sum to 1.
    pub require_unity: bool,
    /// Names of the accepted labels.
    pub label_whitelist: Vec<String>,
    /// Maximum difference between the sum of the values and 1.
    pub unity_tolerance: String,
    /// Maximum number of labels per payload.
    pub max_labels_per_submission: String,
    /// Value of a label that was not submitted.
    pub label_default_value: String,
    /// True if labels are case-sensitive.
    pub label_case_sensitive: bool,
}

/// Response to `GET /emissions/{version}/next_topic_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextTopicId {
    /// Id as text.
    pub next_topic_id: String,
}

/// Response to `GET /api/v1/topics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicList {
    /// Current height of the chain.
    pub block_height: u64,
    /// Duration of a block, in milliseconds.
    pub block_time_ms: u64,
    /// Topics, sorted by id.
    pub topics: Vec<TopicSummary>,
}

/// Summary of a topic: its prediction, its schedule and its actors.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicSummary {
    /// Id of the topic, from 1.
    pub topic_id: u64,
    /// Human-readable description of the prediction.
    pub name: String,
    /// `TOPIC_TYPE_REGRESSION` or `TOPIC_TYPE_CLASSIFICATION`.
    pub topic_type: String,
    /// Labels in the order of their ids.
    pub labels: Vec<String>,
    /// Name of the dataset with the topic's inputs and ground truth.
    pub dataset: String,
    /// Id of the dataset; null until the dataset has been found by its name.
    pub dataset_id: Option<i64>,
    /// Column that the topic predicts.
    pub column: String,
    /// Subgroup of the workers that run the predictor; null for any worker.
    pub subgroup: Option<String>,
    /// True if the topic is paused, so no new epoch opens.
    #[serde(default)]
    pub is_paused: bool,
    /// Description of the topic's current problems; null if there are no problems.
    pub problem: Option<String>,
    /// Blocks per epoch.
    pub epoch_length: u64,
    /// Blocks after the opening of an epoch in which workers can submit.
    pub worker_submission_window: u64,
    /// Blocks from the opening of an epoch until its ground truth is read.
    pub ground_truth_lag: u64,
    /// Height at which the next epoch opens. If no epoch has opened yet, the current height.
    pub next_epoch_height: u64,
    /// Nonce of the open epoch; null if no epoch is open.
    pub open_nonce: Option<u64>,
    /// Height at which the open epoch closes; null if no epoch is open.
    pub close_height: Option<u64>,
    /// Nonce of the latest bundle; null if there is no bundle.
    pub last_nonce: Option<u64>,
    /// Number of epochs from which the network learned.
    pub n_learned: u64,
    /// Actors of the latest bundle: inferers sorted by address, then forecasters sorted by address.
    pub actors: Vec<ActorSummary>,
}

/// An actor of a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActorSummary {
    /// Address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Name of the actor, such as a peer id or the name of a built-in forecaster; null if unknown.
    pub name: Option<String>,
    /// Weight of the actor in the latest combined value, 0 to 1; null if the actor has no weight.
    pub weight: Option<f64>,
    /// Regret: average of the network's loss minus the actor's loss. Null until the regret has been
    /// learned.
    pub regret: Option<f64>,
    /// Latest loss of the actor: a base-10 logarithm unless the topic allows negative losses.
    pub loss: Option<f64>,
    /// Moving average of the actor's scores.
    pub score: Option<f64>,
}

/// Response to `GET /api/v1/topics/{topic_id}/history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicHistory {
    /// Id of the topic.
    pub topic_id: u64,
    /// Latest epochs with a bundle, oldest first.
    pub epochs: Vec<HistoryEpoch>,
}

/// A past epoch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct HistoryEpoch {
    /// Block at which the epoch opened.
    pub nonce: u64,
    /// Opening time, in RFC 3339.
    pub opened_at: String,
    /// Values combined from inferers and forecasters, weighted by their regrets.
    pub combined_value: Vec<LabeledValue>,
    /// Values combined from inferers only.
    pub naive_value: Vec<LabeledValue>,
    /// Ground truth. For a classification, 1 for the true label and 0 for the other labels. Empty until
    /// the ground truth is known.
    pub truth: Vec<LabeledValue>,
    /// Loss of the combined value; null until the loss is known.
    pub combined_loss: Option<f64>,
    /// Loss of the naive value; null until the loss is known.
    pub naive_loss: Option<f64>,
    /// Number of inferers.
    pub n_inferers: u64,
    /// Number of forecasters.
    pub n_forecasters: u64,
}

/// Serializes ids, addresses and 64-bit integers as texts.
mod text {
    use serde::de::Error as _;

    use super::{Deserialize as _, Deserializer, Display, FromStr, Serializer};

    pub(super) fn serialize<T: Display, S: Serializer>(
        value: &T,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(super) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<T, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// Serializes each number as the shortest decimal text that parses to the same number.
mod decimal {
    use super::{Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&model::topic::decimal(*value))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        super::text::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests;
