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
    /// Problems of the rejected rows of an insert, or the ids of the datasets that share a name, as
    /// extensions. Null for all other errors.
    #[schema(value_type = Option<ErrorDetails>)]
    pub details: Option<serde_json::Value>,
    /// Description of the problem. Ends with the kind of the error, such as `…: bad request`.
    pub error: String,
}

/// Details of an error of the dataset service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(untagged)]
pub enum ErrorDetails {
    /// Details of a 400 for rejected rows.
    Rows(RowRefusals),
    /// Details of a 409 for a name that several visible datasets have.
    SharedName {
        /// Ids of these datasets.
        dataset_ids: Vec<i64>,
    },
}

/// Error of the dataset service for a missing API key: `{"error":"Missing API key"}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct KeyError {
    /// Description of the problem and its solution.
    pub error: String,
}

/// Error of the inference service, in the form of the chain's gateway:
/// `{"code":5,"message":"…","details":[]}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct InferenceError {
    /// The gRPC code.
    pub code: u32,
    /// Description of the problem and its solution.
    pub message: String,
    /// Always empty, as required by the chain's API.
    #[serde(default)]
    pub details: Vec<serde_json::Value>,
}
