//! Error bodies in the forms of the three APIs.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::datasets::RowRefusals;

/// Error of a head: `{"message":"…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HeadError {
    /// Problem, reason, and what to do.
    pub message: String,
}

/// Error of the dataset service: `{"details":null,"error":"…"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetsError {
    /// Reasons for each rejected row of an insert. Always null upstream.
    #[schema(value_type = Option<RowRefusals>)]
    pub details: Option<serde_json::Value>,
    /// Problem, ending in its kind: `…: bad request`.
    pub error: String,
}

/// Error of the dataset service for a missing key: `{"error":"Missing API key"}`.
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
