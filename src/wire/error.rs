//! Error bodies, one form for each document.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::datasets::RowRefusals;

/// What a head answers to a request it refuses: `{"message":"…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeadError {
    /// What is wrong, why, and what to do.
    pub message: String,
}

/// What the dataset service answers to a request it refuses: `{"details":null,"error":"…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetsError {
    /// Always null upstream; reasons for single rows where rows were refused.
    #[schema(value_type = Option<RowRefusals>)]
    pub details: Option<serde_json::Value>,
    /// What is wrong, ending in its kind: `…: bad request`.
    pub error: String,
}

/// What the dataset service answers where no key was sent: `{"error":"Missing API key"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyError {
    /// What is wrong.
    pub error: String,
}

/// What the inference service answers to a request it refuses, as the chain's gateway does:
/// `{"code":5,"message":"…","details":[]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InferenceError {
    /// The gRPC code.
    pub code: u32,
    /// What is wrong.
    pub message: String,
    /// Always an empty list, as the chain's API has it.
    #[serde(default)]
    pub details: Vec<serde_json::Value>,
}
