//! Types of parameters and bodies that exist only for the `OpenAPI` description, since handlers read
//! parameters by name.
#![expect(dead_code, reason = "they describe what handlers read by name")]

use std::collections::BTreeMap;

use utoipa::{IntoParams, ToSchema};
use wire::inference::Bundle;
use wire::inference::chain::{NetworkInferencesAtBlock, ValueBundle};

/// Address in a query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct AddressMember {
    /// Address of the actor for which to return the permissions. By default, no permissions are
    /// returned.
    address: Option<String>,
}

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

/// Parameters of the chain.
#[derive(ToSchema)]
pub(in crate::server) struct ChainParams {
    /// Parameters by name.
    params: BTreeMap<String, ChainParam>,
}

/// Value of a parameter of the chain: a number as string, or a flag.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum ChainParam {
    Text(String),
    Flag(bool),
}

/// Selection of the arrays in a bundle.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct LeaveOut {
    /// Fills `one_out_forecaster_values`, `one_in_forecaster_values` and
    /// `one_out_inferer_forecaster_values` for a topic with one output. By default, they are empty,
    /// since the chain does not document their elements.
    #[param(inline)]
    leave_out: Option<LeaveOutName>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum LeaveOutName {
    All,
}

/// Value to sign.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct ConsumerMembers {
    /// Id of the topic, which must have a single label.
    #[param(minimum = 1, format = "uint64")]
    allora_topic_id: u64,
    /// Type of the signed value.
    #[param(inline)]
    inference_value_type: Option<SignedType>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum SignedType {
    Uint256,
}

/// Error of the consumer API.
#[derive(ToSchema)]
pub(in crate::server) struct ConsumerRefusal {
    /// Id of the request.
    request_id: String,
    /// Always false.
    status: bool,
    /// Reason.
    #[schema(rename = "apiResponseMessage")]
    api_response_message: String,
}
