//! Bodies of the consumer API: signed inferences for contracts, and lists of topics.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Envelope of all responses of the consumer API.
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
    /// Signature: `0x` and 65 bytes as hexadecimal digits.
    pub signature: String,
    /// Number of decimals in an amount.
    pub token_decimals: u32,
    /// Data that was signed.
    pub inference_data: InferenceData,
}

/// Data of a signed inference, both as signed integers and as plain decimals.
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
    /// Always `0x`, since there is no extra data.
    pub extra_data: String,
}

/// A page of topics.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ConsumerTopics {
    /// Topics of this page, sorted by id.
    pub topics: Vec<ConsumerTopic>,
    /// Token for the next page; omitted on the last page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub continuation_token: Option<String>,
}

/// A topic in the form of the consumer API.
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
    /// Name of the loss function.
    pub loss_method: String,
    /// Blocks in which workers can submit.
    pub worker_submission_window: u64,
    /// Number of workers in the latest bundle.
    pub worker_count: u64,
    /// Number of reputers. Always 1, since the dataset is the only reputer.
    pub reputer_count: u64,
    /// Always 0, since there are no stakes.
    pub total_staked_allo: u64,
    /// Always 0, since there are no emissions.
    pub total_emissions_allo: u64,
    /// True if the topic is active, so epochs open.
    pub is_active: bool,
    /// Time of the latest bundle, or the current time if there is no bundle, in RFC 3339.
    pub updated_at: String,
}
