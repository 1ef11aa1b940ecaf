//! Parameters that many operations share, for their description. Handlers read them by name.
#![expect(dead_code, reason = "they describe what handlers read by name")]

use std::{collections::BTreeMap, marker::PhantomData};

use utoipa::{
    IntoParams, ToSchema,
    openapi::path::{Parameter, ParameterIn},
};
use wire::inference::{
    Bundle,
    chain::{NetworkInferencesAtBlock, ValueBundle},
};

/// Parameters of many operations. Their description is compiled once, not for each operation, since it
/// does not ask where the operation has them.
pub(in crate::server) struct Shared<Fields>(PhantomData<Fields>);

impl<Fields: IntoParams> IntoParams for Shared<Fields> {
    fn into_params(_: impl Fn() -> Option<ParameterIn>) -> Vec<Parameter> {
        describe::<Fields>()
    }
}

fn describe<Fields: IntoParams>() -> Vec<Parameter> {
    Fields::into_params(|| None)
}

/// The version of the chain's API.
pub(in crate::server) type Version = Shared<VersionFields>;

/// The topic in a path.
pub(in crate::server) type TopicPart = Shared<TopicFields>;

/// The epoch in a path.
pub(in crate::server) type HeightPart = Shared<HeightFields>;

/// The version of the chain's API.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct VersionFields {
    /// `v10` has a value for each label; `v9` has one number for each quantity.
    #[param(inline)]
    version: VersionName,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum VersionName {
    V10,
    V9,
}

/// The topic in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct TopicFields {
    /// The topic's number.
    #[param(minimum = 1, format = "uint64")]
    topic_id: u64,
}

/// The topic in a query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct TopicMember {
    /// The topic's number.
    #[param(minimum = 1, format = "uint64")]
    topic_id: u64,
}

/// Who is asked about in a query.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct AskedAddress {
    /// An address, to learn whether it took part and may; nobody where it is empty.
    address: Option<String>,
}

/// The epoch in a path.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct HeightFields {
    /// The nonce: the height at which the epoch opened.
    #[param(minimum = 0, format = "uint64")]
    block_height: u64,
}

/// The address of an actor.
#[derive(ToSchema)]
#[schema(value_type = String, pattern = "^allo1[a-z0-9]{1,85}$")]
pub(in crate::server) struct ActorAddress(String);

/// The first in `v10`, the second in `v9`.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum ByVersion<New, Old> {
    V10(New),
    V9(Old),
}

/// A bundle of one epoch: the first in `v10`, the second in `v9`.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum AtBlock {
    V10(NetworkInferencesAtBlock<Bundle>),
    V9(NetworkInferencesAtBlock<ValueBundle>),
}

/// The chain's parameters.
#[derive(ToSchema)]
pub(in crate::server) struct ChainParams {
    /// Each parameter by its name.
    params: BTreeMap<String, ChainParam>,
}

/// A parameter of the chain: a number as text, or whether something is enabled.
#[derive(ToSchema)]
#[serde(untagged)]
pub(in crate::server) enum ChainParam {
    Text(String),
    Flag(bool),
}

/// Which arrays of a bundle are filled.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct LeaveOut {
    /// Fills `one_out_forecaster_values`, `one_in_forecaster_values` and
    /// `one_out_inferer_forecaster_values` on a topic with one output, as the chain does. Without it they
    /// are empty there: the documented form has three such empty arrays, and these are the three
    /// without a documented element. `one_out_inferer_values`, whose element is documented, is filled.
    #[param(inline)]
    leave_out: Option<LeaveOutName>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum LeaveOutName {
    All,
}

/// Which past bundles a page has.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct PageMembers {
    /// The first nonce, itself included.
    #[param(minimum = 0, default = 0, format = "uint64")]
    from: Option<u64>,
    /// The last nonce, itself included: the newest where it does not say.
    #[param(minimum = 0, format = "uint64")]
    to: Option<u64>,
    /// Bundles of a page at most: held between 1 and 1 000.
    #[param(minimum = 0, default = 100, format = "uint64")]
    limit: Option<u64>,
}

/// The chain whose contract checks a signature.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct ChainPart {
    /// The chain whose contract is to take the value, such as `ethereum-11155111`. An unknown one is
    /// refused with those that are served.
    #[param(min_length = 1)]
    chain_id: String,
}

/// Which value is signed.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
pub(in crate::server) struct ConsumerMembers {
    /// The topic's number. Its topic has one label.
    #[param(minimum = 1, format = "uint64")]
    allora_topic_id: u64,
    /// What the value is signed as.
    #[param(inline)]
    inference_value_type: Option<SignedType>,
}

#[derive(ToSchema)]
#[schema(rename_all = "lowercase")]
enum SignedType {
    Uint256,
}

/// The network of a list of topics.
#[derive(IntoParams)]
#[into_params(parameter_in = Path)]
pub(in crate::server) struct NetworkPart {
    /// The network as its clients call it.
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

/// A refusal of the consumer API.
#[derive(ToSchema)]
pub(in crate::server) struct ConsumerRefusal {
    /// The request's number.
    request_id: String,
    /// False: it was not answered.
    status: bool,
    /// Why it was not answered.
    #[schema(rename = "apiResponseMessage")]
    api_response_message: String,
}
