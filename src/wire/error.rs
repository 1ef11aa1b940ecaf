//! Error bodies of the three APIs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::datasets::RowRefusals;

/// Error of a head: `{"message":"…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeadError {
    /// Description of the problem, its reason, and advice.
    pub message: String,
}

/// Error of the dataset service: `{"details":null,"error":"…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetsError {
    /// Problems of the rejected rows of an insert, as an extension. Null for all other errors.
    #[schema(value_type = Option<RowRefusals>)]
    pub details: Option<serde_json::Value>,
    /// Description of the problem. Ends with the kind of the error, such as `…: bad request`.
    pub error: String,
}

/// Error of the dataset service for a missing API key: `{"error":"Missing API key"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyError {
    /// Problem.
    pub error: String,
}

/// Error of the inference service, in the form of the chain's gateway:
/// `{"code":5,"message":"…","details":[]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InferenceError {
    /// The gRPC code.
    pub code: u32,
    /// Problem.
    pub message: String,
    /// Always empty, as required by the chain's API.
    #[serde(default)]
    pub details: Vec<serde_json::Value>,
}
