//! Types of bodies that exist only for the `OpenAPI` description.
#![expect(dead_code, reason = "they describe what handlers serialize otherwise")]

use utoipa::ToSchema;
use wire::inference::Bundle;
use wire::inference::chain::{NetworkInferencesAtBlock, ValueBundle};

/// Body in the format of the requested version: `v10` or `v9`.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum ByVersion<New, Old> {
    V10(New),
    V9(Old),
}

/// Bundle of an epoch in the format of the requested version: `v10` or `v9`.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum AtBlock {
    V10(NetworkInferencesAtBlock<Bundle>),
    V9(NetworkInferencesAtBlock<ValueBundle>),
}

/// Error of the consumer API.
#[derive(ToSchema)]
pub(in crate::server) struct ConsumerRefusal {
    /// Id of the request.
    request_id: String,
    /// Always false, since this body describes an error.
    status: bool,
    /// Description of the error.
    #[schema(rename = "apiResponseMessage")]
    api_response_message: String,
}
