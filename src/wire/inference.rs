//! The bodies of document 3: the newest bundle of a topic, and topics. Beside them two of our own,
//! for who watches a network: the topics with their clock and actors, and a topic's past epochs.

pub mod cases;
pub mod chain;
pub mod consumer;
pub mod emissions;
pub mod network;

use std::{fmt::Display, str::FromStr};

use derive_more::{From, Into};
use model::topic::{Address, BlockHeight, TopicId};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use utoipa::ToSchema;

/// The paths of inference; `{…}` marks a part that the request fills in.
pub mod paths {
    /// The newest bundle of a topic (document 3).
    pub const LATEST_NETWORK_INFERENCES: &str =
        "/emissions/{version}/latest_network_inferences/{topic_id}";
    /// A topic's settings.
    pub const TOPIC: &str = "/emissions/{version}/topics/{topic_id}";
    /// The number the next topic will get: one more than there are topics.
    pub const NEXT_TOPIC_ID: &str = "/emissions/{version}/next_topic_id";
    /// A topic's past bundles; `?from=&to=&limit=`. Ours.
    pub const NETWORK_INFERENCES: &str = "/emissions/{version}/network_inferences/{topic_id}";
    /// Every topic with its clock and its actors; creates one. Ours, as all that follow.
    pub const TOPICS: &str = "/api/v1/topics";
    /// A topic's settings, to replace.
    pub const TOPIC_SETTINGS: &str = "/api/v1/topics/{topic_id}";
    /// Whether a topic's epochs open, to change.
    pub const TOPIC_ACTIVE: &str = "/api/v1/topics/{topic_id}/active";
    /// The account that signs values for contracts.
    pub const SIGNER: &str = "/api/v1/signer";
    /// Whether a topic works, and what it keeps.
    pub const TOPIC_HEALTH: &str = "/api/v1/topics/{topic_id}/health";
    /// Has a topic learn again from past epochs.
    pub const TOPIC_RELEARN: &str = "/api/v1/topics/{topic_id}/relearn";
    /// One worker of a topic's whitelist, to add or to take away.
    pub const TOPIC_WHITELISTED: &str = "/api/v1/topics/{topic_id}/whitelist/{worker}";
    /// Takes a worker's payload for an epoch.
    pub const TOPIC_SUBMISSIONS: &str = "/api/v1/topics/{topic_id}/submissions";
    /// The newest bundle with weights and confidence intervals.
    pub const TOPIC_LATEST: &str = "/api/v1/topics/{topic_id}/latest";
    /// One number of the newest bundle; `?label=` on a topic with several.
    pub const TOPIC_VALUE: &str = "/api/v1/topics/{topic_id}/value";
    /// Follows new bundles, as server-sent events.
    pub const TOPIC_STREAM: &str = "/api/v1/topics/{topic_id}/stream";
    /// One past epoch with all that led to it and came of it.
    pub const TOPIC_EPOCH: &str = "/api/v1/topics/{topic_id}/epochs/{nonce}";
    /// A topic's newest value, signed for the contract on a chain; `?allora_topic_id=`.
    pub const CONSUMER: &str = "/v2/allora/consumer/{chain_id}";
    /// A price, signed likewise.
    pub const CONSUMER_PRICE: &str = "/v2/allora/consumer/price/{chain_id}/{asset}/{timeframe}";
    /// Topics, page by page; `?continuation_token=`.
    pub const CONSUMER_TOPICS: &str = "/v2/allora/{network}/topics";
    /// A topic's past epochs actor by actor, as a file; `?from=&to=&actor=&limit=&output=`.
    pub const TOPIC_EPOCHS: &str = "/api/v1/topics/{topic_id}/epochs/";
    /// A topic's newest past epochs, oldest first; `?limit=` of them.
    pub const TOPIC_HISTORY: &str = "/api/v1/topics/{topic_id}/history";
    /// A topic's actors by their mean loss, and the losses of its values; `?epochs=` to average.
    pub const TOPIC_LEADERBOARD: &str = "/api/v1/topics/{topic_id}/leaderboard";
}

/// One labelled value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LabeledValue {
    /// The label's number within its nonce, from 1.
    pub label_id: u32,
    /// The label, `y` on a topic with a single output.
    pub label_name: String,
    /// A decimal number as text; not a number where nothing is known.
    #[serde(with = "decimal")]
    #[schema(value_type = String)]
    pub value: f64,
}

/// The values of one worker.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct WorkerValues {
    /// The address of the worker.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub worker: Address,
    /// One value for each label.
    pub values: Vec<LabeledValue>,
}

/// The combined values without one inferer.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct WithheldInferer {
    /// The address of the inferer left out.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub withheld_inferer: Address,
    /// What the others combine to.
    pub combined_inference: Vec<LabeledValue>,
}

/// The combined values without one forecaster.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct WithheldForecaster {
    /// The address of the forecaster left out.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub withheld_forecaster: Address,
    /// What the others combine to.
    pub combined_inference: Vec<LabeledValue>,
}

/// The inferers' values combined with those of one forecaster alone.
#[derive(Debug, Clone, PartialEq, From, Into, Serialize, Deserialize, ToSchema)]
#[into(owned, ref)]
pub struct OneInForecaster {
    /// The forecaster's address.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub forecaster: Address,
    /// What they combine to.
    pub combined_inference: Vec<LabeledValue>,
}

/// The value one forecaster implies without one inferer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct OneOutInfererForecaster {
    /// The forecaster's address.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub forecaster: Address,
    /// The address of the inferer left out.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub withheld_inferer: Address,
    /// What the forecaster implies.
    pub combined_inference: Vec<LabeledValue>,
}

/// Everything a network infers for a topic at one nonce. Members stand in the order of the chain's
/// own message.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Bundle {
    /// The topic, a number as text.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub topic_id: TopicId,
    /// The block at which the epoch opened, a number as text.
    #[serde(with = "text")]
    #[schema(value_type = String)]
    pub nonce: BlockHeight,
    /// Inferers and forecasters, weighted by their regrets.
    pub combined_value: Vec<LabeledValue>,
    /// What each inferer submitted.
    pub inferer_values: Vec<WorkerValues>,
    /// What each forecaster implies.
    pub forecaster_values: Vec<WorkerValues>,
    /// The inferers alone, weighted by their naive regrets.
    pub naive_value: Vec<LabeledValue>,
    /// Without each inferer in turn.
    #[serde(default)]
    pub one_out_inferer_values: Vec<WithheldInferer>,
    /// Without each forecaster in turn; empty with fewer than two.
    #[serde(default)]
    pub one_out_forecaster_values: Vec<WithheldForecaster>,
    /// With each forecaster alone; empty with fewer than two.
    #[serde(default)]
    pub one_in_forecaster_values: Vec<OneInForecaster>,
    /// What each forecaster implies without each inferer.
    #[serde(default)]
    pub one_out_inferer_forecaster_values: Vec<OneOutInfererForecaster>,
}

/// The newest bundle of a topic: the answer to
/// `GET /emissions/{version}/latest_network_inferences/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LatestBundle {
    /// Every value of the epoch.
    #[serde(rename = "network_inferences")]
    pub bundle: Bundle,
    /// The block at which it was made, a number as text.
    #[serde(rename = "inference_block_height", with = "text")]
    #[schema(value_type = String)]
    pub block_height: BlockHeight,
}

/// The answer to `GET /emissions/{version}/topics/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicResponse {
    /// The topic and its settings.
    pub topic: TopicBody,
    /// How much it counts among topics: 1 where epochs open, else 0.
    #[serde(default)]
    pub weight: String,
    /// What it earned: nothing is paid here.
    #[serde(default)]
    pub effective_revenue: String,
    /// What is staked on it: nothing is staked here.
    #[serde(default)]
    pub topic_stake: String,
}

/// A topic. Whole numbers of 64 bits and decimals are texts, as the chain's gateway writes them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicBody {
    /// The topic's number, from 1.
    pub id: String,
    /// The address of the key that created it; empty for one that the program came with.
    #[serde(default)]
    pub creator: String,
    /// What it predicts, for people.
    pub metadata: String,
    /// How values are compared with the truth, such as `mse`.
    pub loss_method: String,
    /// The block at which the last epoch ended.
    pub epoch_last_ended: String,
    /// Blocks in an epoch.
    pub epoch_length: String,
    /// Blocks from an epoch's start until its truth is known.
    pub ground_truth_lag: String,
    /// The exponent of the weights' potential.
    pub p_norm: String,
    /// The center of the weights' potential.
    pub c_norm: String,
    /// The share of the newest loss in a regret.
    pub alpha_regret: String,
    /// Whether losses may be negative.
    pub allow_negative: bool,
    /// What keeps divisions from zero.
    pub epsilon: String,
    /// The regret of an actor that has none.
    pub initial_regret: String,
    /// Blocks in which workers may submit.
    pub worker_submission_window: String,
    /// The share of the newest score in its moving average.
    #[serde(default)]
    pub merit_sortition_alpha: String,
    /// The quantile of active inferers' scores that the scores of resting ones move toward.
    #[serde(default)]
    pub active_inferer_quantile: String,
    /// The quantile of active forecasters' scores that the scores of resting ones move toward.
    #[serde(default)]
    pub active_forecaster_quantile: String,
    /// The quantile of active reputers' scores that the scores of resting ones move toward.
    #[serde(default)]
    pub active_reputer_quantile: String,
    /// What it is about labels; none up to v9.
    #[serde(flatten)]
    pub labeling: Option<TopicLabeling>,
}

/// What a topic says of labels, as of v10.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TopicLabeling {
    /// `TOPIC_TYPE_REGRESSION` or `TOPIC_TYPE_CLASSIFICATION`.
    pub topic_type: String,
    /// `TOPIC_OUTPUT_ARITY_SINGLE` or `TOPIC_OUTPUT_ARITY_MULTI`.
    pub output_arity: String,
    /// Whether the labels' values must sum to 1.
    pub require_unity: bool,
    /// The labels taken; empty where any is.
    pub label_whitelist: Vec<String>,
    /// How far a sum may be from 1.
    pub unity_tolerance: String,
    /// The most labels of one payload.
    pub max_labels_per_submission: String,
    /// What a label that was not submitted is.
    pub label_default_value: String,
    /// Whether labels differ by case.
    pub label_case_sensitive: bool,
}

/// The answer to `GET /emissions/{version}/next_topic_id`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct NextTopicId {
    /// A number as text.
    pub next_topic_id: String,
}

/// The answer to `GET /api/v1/topics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicList {
    /// The height of the chain now.
    pub block_height: u64,
    /// How long a block takes, in milliseconds.
    pub block_time_ms: u64,
    /// Every topic, by its number.
    pub topics: Vec<TopicSummary>,
}

/// A topic as a screen shows it: what it predicts, where its clock stands, who takes part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicSummary {
    /// The topic's number, from 1.
    pub topic_id: u64,
    /// What it predicts, for people.
    pub name: String,
    /// `TOPIC_TYPE_REGRESSION` or `TOPIC_TYPE_CLASSIFICATION`.
    pub topic_type: String,
    /// Its labels, in the order of their ids.
    pub labels: Vec<String>,
    /// The dataset it reads, which its truth comes from.
    pub dataset: String,
    /// That dataset's number; null until it was found by its name.
    pub dataset_id: Option<i64>,
    /// The column it predicts.
    pub column: String,
    /// The subgroup whose workers infer.
    pub subgroup: Option<String>,
    /// Whether it rests: no epoch opens.
    #[serde(default)]
    pub is_paused: bool,
    /// What it fails to do now, and why; none where it works.
    pub problem: Option<String>,
    /// Blocks in an epoch.
    pub epoch_length: u64,
    /// Blocks in which workers may submit.
    pub worker_submission_window: u64,
    /// Blocks from an epoch's start until its truth is known.
    pub ground_truth_lag: u64,
    /// The height at which the next epoch opens; now, where none has opened yet.
    pub next_epoch_height: u64,
    /// The nonce that takes submissions now; none where none is open.
    pub open_nonce: Option<u64>,
    /// The height at which the open epoch closes; none where none is open.
    pub close_height: Option<u64>,
    /// The nonce of the newest bundle, if there is one.
    pub last_nonce: Option<u64>,
    /// How often its losses were learned from the truth.
    pub n_learned: u64,
    /// Who takes part in the newest bundle: inferers first, each by address.
    pub actors: Vec<ActorSummary>,
}

/// One actor of a topic.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ActorSummary {
    /// The address of the actor.
    pub worker: String,
    /// `inferer` or `forecaster`.
    pub role: String,
    /// Who is behind the address where that is known: a peer id, or a built-in forecaster's name.
    pub name: Option<String>,
    /// Its share in the newest combined value, 0 to 1; none while there are no weights.
    pub weight: Option<f64>,
    /// Its regret: by how much the network loses more than it does. None until it is learned.
    pub regret: Option<f64>,
    /// Its newest loss: a base-10 logarithm, unless the topic allows negative losses.
    pub loss: Option<f64>,
    /// The moving average of its scores.
    pub score: Option<f64>,
}

/// The answer to `GET /api/v1/topics/{topic_id}/history`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct TopicHistory {
    /// The topic's number.
    pub topic_id: u64,
    /// The newest epochs that have a bundle, oldest first.
    pub epochs: Vec<HistoryEpoch>,
}

/// One past epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct HistoryEpoch {
    /// The block at which it opened.
    pub nonce: u64,
    /// When it opened, in RFC 3339.
    pub opened_at: String,
    /// Inferers and forecasters, weighted by their regrets.
    pub combined_value: Vec<LabeledValue>,
    /// The inferers alone.
    pub naive_value: Vec<LabeledValue>,
    /// What came true: 1 at one label and 0 at the others in a classification. Empty until known.
    pub truth: Vec<LabeledValue>,
    /// The combined value's loss, once known.
    pub combined_loss: Option<f64>,
    /// The naive value's loss, once known.
    pub naive_loss: Option<f64>,
    /// How many inferers took part.
    pub n_inferers: u64,
    /// How many forecasters took part.
    pub n_forecasters: u64,
}

/// Ids, addresses and whole numbers of 64 bits as texts.
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

/// Numbers as the shortest decimal texts that read back as them.
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
