//! The bodies of document 3: the newest bundle of a topic, and topics. Beside them two of our own,
//! for who watches a network: the topics with their clock and actors, and a topic's past epochs.

pub mod cases;
pub mod chain;
pub mod consumer;
pub mod leaderboard;
pub mod network;

use model::{
    bundle::{
        Bundle, LabeledValue, OneInForecaster, WithheldForecaster, WithheldInferer, WorkerValues,
        decimal,
    },
    topic::TopicError,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// One labelled value. The number is a decimal text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct LabeledValueBody {
    /// The label's number, from 1.
    pub label_id: u32,
    /// The label, `y` on a topic with a single output.
    pub label_name: String,
    /// A decimal number.
    pub value: String,
}

/// The values of one worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct WorkerValuesBody {
    /// The address of the worker.
    pub worker: String,
    /// One value for each label.
    pub values: Vec<LabeledValueBody>,
}

/// The combined values without one inferer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct WithheldInfererBody {
    /// The address of the inferer left out.
    pub withheld_inferer: String,
    /// What the others combine to.
    pub combined_inference: Vec<LabeledValueBody>,
}

/// The combined values without one forecaster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct WithheldForecasterBody {
    /// The address of the forecaster left out.
    pub withheld_forecaster: String,
    /// What the others combine to.
    pub combined_inference: Vec<LabeledValueBody>,
}

/// The inferers' values combined with those of one forecaster alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct OneInForecasterBody {
    /// The forecaster's address.
    pub forecaster: String,
    /// What they combine to.
    pub combined_inference: Vec<LabeledValueBody>,
}

/// The value one forecaster implies without one inferer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct OneOutInfererForecasterBody {
    /// The forecaster's address.
    pub forecaster: String,
    /// The address of the inferer left out.
    pub withheld_inferer: String,
    /// What the forecaster implies.
    pub combined_inference: Vec<LabeledValueBody>,
}

/// A bundle. Members stand in the order of the chain's own message.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct NetworkInferences {
    /// The topic, a number as text.
    pub topic_id: String,
    /// The nonce, a number as text.
    pub nonce: String,
    /// Inferers and forecasters, weighted by their regrets.
    pub combined_value: Vec<LabeledValueBody>,
    /// What each inferer submitted.
    pub inferer_values: Vec<WorkerValuesBody>,
    /// What each forecaster implies.
    pub forecaster_values: Vec<WorkerValuesBody>,
    /// The inferers alone.
    pub naive_value: Vec<LabeledValueBody>,
    /// Without each inferer in turn.
    #[serde(default)]
    pub one_out_inferer_values: Vec<WithheldInfererBody>,
    /// Without each forecaster in turn.
    #[serde(default)]
    pub one_out_forecaster_values: Vec<WithheldForecasterBody>,
    /// With each forecaster alone.
    #[serde(default)]
    pub one_in_forecaster_values: Vec<OneInForecasterBody>,
    /// What each forecaster implies without each inferer.
    #[serde(default)]
    pub one_out_inferer_forecaster_values: Vec<OneOutInfererForecasterBody>,
}

/// The answer to `GET /emissions/{version}/latest_network_inferences/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct LatestNetworkInferences {
    /// Every value of the epoch.
    pub network_inferences: NetworkInferences,
    /// The block at which it was made, a number as text.
    pub inference_block_height: String,
}

/// The answer to `GET /emissions/{version}/topics/{topic_id}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct NextTopicId {
    /// A number as text.
    pub next_topic_id: String,
}

/// The answer to `GET /api/v1/topics`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TopicList {
    /// The height of the chain now.
    pub block_height: u64,
    /// How long a block takes, in milliseconds.
    pub block_time_ms: u64,
    /// Every topic, by its number.
    pub topics: Vec<TopicSummary>,
}

/// A topic as a screen shows it: what it predicts, where its clock stands, who takes part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
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
    #[serde(default)]
    pub dataset_id: Option<i64>,
    /// The column it predicts.
    pub column: String,
    /// The subgroup whose workers infer.
    pub subgroup: Option<String>,
    /// Whether it rests: no epoch opens.
    #[serde(default)]
    pub is_paused: bool,
    /// What it fails to do now, and why; none where it works.
    #[serde(default)]
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
    #[serde(default)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct TopicHistory {
    /// The topic's number.
    pub topic_id: u64,
    /// The newest epochs that have a bundle, oldest first.
    pub epochs: Vec<HistoryEpoch>,
}

/// One past epoch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema, ToSchema)]
pub struct HistoryEpoch {
    /// The block at which it opened.
    pub nonce: u64,
    /// When it opened, in RFC 3339.
    pub opened_at: String,
    /// Inferers and forecasters, weighted by their regrets.
    pub combined_value: Vec<LabeledValueBody>,
    /// The inferers alone.
    pub naive_value: Vec<LabeledValueBody>,
    /// What came true: 1 at one label and 0 at the others in a classification. Empty until known.
    pub truth: Vec<LabeledValueBody>,
    /// The combined value's loss, once known.
    pub combined_loss: Option<f64>,
    /// The naive value's loss, once known.
    pub naive_loss: Option<f64>,
    /// How many inferers took part.
    pub n_inferers: u64,
    /// How many forecasters took part.
    pub n_forecasters: u64,
}

impl From<LabeledValue> for LabeledValueBody {
    fn from(value: LabeledValue) -> Self {
        let LabeledValue { label_id, label_name, value } = value;
        Self { label_id, label_name, value: decimal(value) }
    }
}

impl TryFrom<LabeledValueBody> for LabeledValue {
    type Error = TopicError;

    fn try_from(body: LabeledValueBody) -> Result<Self, Self::Error> {
        let LabeledValueBody { label_id, label_name, value } = body;
        let number = value.parse();
        let value =
            number.map_err(|_| TopicError::Number { text: value.chars().take(32).collect() })?;
        Ok(Self { label_id, label_name, value })
    }
}

/// Converts each of `values`.
fn each<T, U: From<T>>(values: Vec<T>) -> Vec<U> {
    values.into_iter().map(U::from).collect()
}

/// Converts each of `values`, or reports what is wrong with the first unfit one.
fn try_each<T, U: TryFrom<T>>(values: Vec<T>) -> Result<Vec<U>, U::Error> {
    values.into_iter().map(U::try_from).collect()
}

/// Conversions between a list of values of one actor in a bundle and its body.
macro_rules! convert_values_of_actor {
    ($($values:ident, $body:ident, $actor:ident, $list:ident;)*) => {$(
        impl From<$values> for $body {
            fn from(values: $values) -> Self {
                Self { $actor: values.$actor.to_string(), $list: each(values.$list) }
            }
        }

        impl TryFrom<$body> for $values {
            type Error = TopicError;

            fn try_from(body: $body) -> Result<Self, Self::Error> {
                Ok(Self { $actor: body.$actor.parse()?, $list: try_each(body.$list)? })
            }
        }
    )*};
}

convert_values_of_actor! {
    WorkerValues, WorkerValuesBody, worker, values;
    WithheldInferer, WithheldInfererBody, withheld_inferer, combined_inference;
    WithheldForecaster, WithheldForecasterBody, withheld_forecaster, combined_inference;
    OneInForecaster, OneInForecasterBody, forecaster, combined_inference;
}

impl From<Bundle> for LatestNetworkInferences {
    /// The values of pairs are empty: a bundle has none.
    fn from(bundle: Bundle) -> Self {
        let nonce = bundle.nonce.to_string();
        Self {
            network_inferences: NetworkInferences {
                topic_id: bundle.topic_id.to_string(),
                nonce: nonce.clone(),
                combined_value: each(bundle.combined_value),
                inferer_values: each(bundle.inferer_values),
                forecaster_values: each(bundle.forecaster_values),
                naive_value: each(bundle.naive_value),
                one_out_inferer_values: each(bundle.one_out_inferer_values),
                one_out_forecaster_values: each(bundle.one_out_forecaster_values),
                one_in_forecaster_values: each(bundle.one_in_forecaster_values),
                one_out_inferer_forecaster_values: Vec::new(),
            },
            inference_block_height: nonce,
        }
    }
}

impl TryFrom<LatestNetworkInferences> for Bundle {
    type Error = TopicError;

    fn try_from(body: LatestNetworkInferences) -> Result<Self, Self::Error> {
        let inferences = body.network_inferences;
        Ok(Self {
            topic_id: inferences.topic_id.parse()?,
            nonce: inferences
                .nonce
                .parse()
                .map_err(|_| TopicError::Id { text: inferences.nonce.clone() })?,
            combined_value: try_each(inferences.combined_value)?,
            inferer_values: try_each(inferences.inferer_values)?,
            forecaster_values: try_each(inferences.forecaster_values)?,
            naive_value: try_each(inferences.naive_value)?,
            one_out_inferer_values: try_each(inferences.one_out_inferer_values)?,
            one_out_forecaster_values: try_each(inferences.one_out_forecaster_values)?,
            one_in_forecaster_values: try_each(inferences.one_in_forecaster_values)?,
        })
    }
}

#[cfg(test)]
mod tests;
