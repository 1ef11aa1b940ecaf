//! Shared parameters, for the description. Handlers read them by name.
#![expect(dead_code, reason = "they describe what handlers read by name")]

use std::collections::BTreeMap;
use std::marker::PhantomData;

use utoipa::openapi::path::{Parameter, ParameterIn};
use utoipa::{IntoParams, ToSchema};
use wire::inference::Bundle;
use wire::inference::chain::{NetworkInferencesAtBlock, ValueBundle};

/// Shared parameters with a description that is compiled once.
pub(in crate::server) struct CompiledOnce<Fields>(PhantomData<Fields>);

impl<Fields: IntoParams> IntoParams for CompiledOnce<Fields> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        describe::<Fields>()
    }
}

fn describe<Fields: IntoParams>() -> Vec<Parameter> {
    Fields::into_params(|| None)
}

/// Version of the chain's API.
pub(in crate::server) type Version = CompiledOnce<VersionFields>;

/// Topic in a path.
pub(in crate::server) type TopicPart = CompiledOnce<TopicFields>;

/// Epoch in a path.
pub(in crate::server) type HeightPart = CompiledOnce<HeightFields>;

/// Version of the chain's API.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct VersionFields {
    /// `v10` has a value for each label, `v9` one number for each value.
    #[param(inline)]
    version: VersionName,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum VersionName {
    V10,
    V9,
}

/// Topic in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct TopicFields {
    /// Id of the topic.
    #[param(minimum = 1, format = "uint64")]
    topic_id: u64,
}

/// Topic in a query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct TopicMember {
    /// Id of the topic.
    #[param(minimum = 1, format = "uint64")]
    topic_id: u64,
}

/// Address in a query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct AddressMember {
    /// Address of which to return the permissions; none by default.
    address: Option<String>,
}

/// Epoch in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct HeightFields {
    /// Height at which the epoch opened.
    #[param(minimum = 0, format = "uint64")]
    block_height: u64,
}

/// Address of an actor.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^allo1[a-z0-9]{1,85}$")]
pub(in crate::server) struct ActorAddress(String);

/// `v10` has the first, `v9` the second.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum ByVersion<New, Old> {
    V10(New),
    V9(Old),
}

/// Bundle of an epoch: `v10` has the first, `v9` the second.
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

/// Parameter of the chain: a number as string, or a flag.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum ChainParam {
    Text(String),
    Flag(bool),
}

/// Filled arrays of a bundle.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct LeaveOut {
    /// Fills `one_out_forecaster_values`, `one_in_forecaster_values` and
    /// `one_out_inferer_forecaster_values` on a topic with one output. By default, they are empty,
    /// since the chain does not document their elements.
    #[param(inline)]
    leave_out: Option<LeaveOutName>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum LeaveOutName {
    All,
}

/// Past bundles of a page.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct PageMembers {
    /// First nonce, inclusive.
    #[param(minimum = 0, default = 0, format = "uint64")]
    from: Option<u64>,
    /// Last nonce, inclusive; the newest by default.
    #[param(minimum = 0, format = "uint64")]
    to: Option<u64>,
    /// Maximum number of bundles of a page, limited to 1000.
    #[param(minimum = 0, default = 100, format = "uint64")]
    limit: Option<u64>,
}

/// Chain with the contract that verifies a signature.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct ChainPart {
    /// Name of the chain, such as `ethereum-11155111`.
    #[param(min_length = 1)]
    chain_id: String,
}

/// Value to sign.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct ConsumerMembers {
    /// Id of the topic, which has one label.
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

/// Network of a list of topics.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct NetworkPart {
    /// Name of the network.
    #[param(inline)]
    network: NetworkName,
}

#[derive(ToSchema)]
enum NetworkName {
    #[schema(rename = "allora-testnet-1")]
    Testnet,
    #[schema(rename = "allora-mainnet-1")]
    Mainnet,
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
