//! Bodies of the consumer API: signed inferences for a contract, and the list of topics.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Envelope of all responses.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = Answer)]
pub struct Envelope<T> {
    /// Id of the request.
    pub request_id: String,
    /// True on success.
    pub status: bool,
    /// Reason for a failure; null on success.
    #[serde(rename = "apiResponseMessage", default, skip_serializing_if = "Option::is_none")]
    pub api_response_message: Option<String>,
    /// Result; null on failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<T>,
}

/// An inference and its signature.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct SignedInference {
    /// `0x` and 65 bytes.
    pub signature: String,
    /// Number of decimals of the amounts.
    pub token_decimals: u32,
    /// Signed data.
    pub inference_data: InferenceData,
}

/// Signed data, also in human-readable form.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InferenceData {
    /// Combined value times 10^18, as an integer. This is the number that is signed.
    pub network_inference: String,
    /// Combined value as a plain decimal.
    pub network_inference_normalized: String,
    /// Percentiles of the confidence interval times 10^18, as integers.
    pub confidence_interval_percentiles: Vec<String>,
    /// Percentiles as plain decimals.
    pub confidence_interval_percentiles_normalized: Vec<String>,
    /// Values at the percentiles times 10^18, as integers.
    pub confidence_interval_values: Vec<String>,
    /// Values at the percentiles as plain decimals.
    pub confidence_interval_values_normalized: Vec<String>,
    /// Id of the topic, from 1.
    pub topic_id: String,
    /// Time of the inference, in seconds since 1970.
    pub timestamp: u64,
    /// `0x`: no extra data.
    pub extra_data: String,
}

/// A page of topics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerTopics {
    /// Topics of this page, sorted by id.
    pub topics: Vec<ConsumerTopic>,
    /// Token for the next page; omitted on the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation_token: Option<String>,
}

/// A topic as shown to consumers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerTopic {
    /// Id of the topic, from 1.
    pub topic_id: u64,
    /// Name of the topic.
    pub topic_name: String,
    /// Column and dataset of the topic.
    pub description: Option<String>,
    /// Blocks per epoch.
    pub epoch_length: u64,
    /// Blocks from the start of an epoch until its ground truth is read.
    pub ground_truth_lag: u64,
    /// Loss function.
    pub loss_method: String,
    /// Blocks in which workers can submit.
    pub worker_submission_window: u64,
    /// Number of workers in the latest bundle.
    pub worker_count: u64,
    /// Number of reputers: the dataset.
    pub reputer_count: u64,
    /// Always 0: there are no stakes.
    pub total_staked_allo: u64,
    /// Always 0: there are no emissions.
    pub total_emissions_allo: u64,
    /// True if epochs open.
    pub is_active: bool,
    /// Time of the latest bundle, in RFC 3339, or the current time without a bundle.
    pub updated_at: String,
}
