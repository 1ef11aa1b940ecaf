//! The bodies of the consumer API: a signed inference for a contract, and the list of topics.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What every answer is wrapped in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Answer)]
pub struct Envelope<T> {
    /// The request's number.
    pub request_id: String,
    /// Whether it was answered.
    pub status: bool,
    /// Why the request failed; null on success.
    #[serde(rename = "apiResponseMessage", default, skip_serializing_if = "Option::is_none")]
    pub api_response_message: Option<String>,
    /// The response; null on failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<T>,
}

/// An inference and the signature of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedInference {
    /// `0x` and 65 bytes.
    pub signature: String,
    /// How many digits of the amounts stand behind the point.
    pub token_decimals: u32,
    /// What is signed.
    pub inference_data: InferenceData,
}

/// What is signed, and the same for people.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InferenceData {
    /// The combined value, with 18 decimals.
    pub network_inference: String,
    /// The combined value.
    pub network_inference_normalized: String,
    /// The percentiles of the confidence interval, with 18 decimals.
    pub confidence_interval_percentiles: Vec<String>,
    /// The percentiles as plain decimals.
    pub confidence_interval_percentiles_normalized: Vec<String>,
    /// The value at each, with 18 decimals.
    pub confidence_interval_values: Vec<String>,
    /// The value at each.
    pub confidence_interval_values_normalized: Vec<String>,
    /// The topic's number, from 1.
    pub topic_id: String,
    /// When it was made, in seconds since 1970.
    pub timestamp: u64,
    /// `0x`: nothing more is signed.
    pub extra_data: String,
}

/// A page of topics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerTopics {
    /// The topics of this page, sorted by number.
    pub topics: Vec<ConsumerTopic>,
    /// Asks for the next page; not there on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation_token: Option<String>,
}

/// A topic as consumers see it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerTopic {
    /// The topic's number, from 1.
    pub topic_id: u64,
    /// What it predicts.
    pub topic_name: String,
    /// What it reads.
    pub description: Option<String>,
    /// Blocks in an epoch.
    pub epoch_length: u64,
    /// Blocks from an epoch's start until its truth is asked for.
    pub ground_truth_lag: u64,
    /// How values are compared with the truth.
    pub loss_method: String,
    /// Blocks in which workers may submit.
    pub worker_submission_window: u64,
    /// Who took part in the newest bundle.
    pub worker_count: u64,
    /// Who reports losses: the dataset.
    pub reputer_count: u64,
    /// Nothing is staked here.
    pub total_staked_allo: u64,
    /// Nothing is paid here.
    pub total_emissions_allo: u64,
    /// Whether epochs open.
    pub is_active: bool,
    /// When the newest bundle was made, in RFC 3339; now, without one.
    pub updated_at: String,
}
