//! `GET /api/v1/signer`: the account that signs values for contracts, so that a contract can be told
//! whom to trust.

use axum::{Json, extract::State};
use wire::inference::network::SignerBody;

use super::Service;

pub(super) async fn get(State(service): State<Service>) -> Json<SignerBody> {
    let consumers = &service.consumers;
    let contracts = consumers.chains.iter();
    Json(SignerBody {
        address: consumers.signer.account().to_string(),
        contracts: contracts.map(|(name, of)| (name.clone(), of.contract.to_string())).collect(),
    })
}
