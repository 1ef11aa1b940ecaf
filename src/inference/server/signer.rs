//! `GET /api/v1/signer`: the account that signs values for contracts, so that a contract can be told
//! whom to trust.

use axum::{Json, extract::State};
use wire::{inference::network::SignerBody, paths};

use super::App;

/// The account that signs values for contracts.
#[utoipa::path(get, path = paths::SIGNER, operation_id = "signer", tag = "network",
    responses((status = 200, description = "The account", body = SignerBody)))]
pub(super) async fn get(State(service): State<App>) -> Json<SignerBody> {
    let consumers = &service.consumers;
    let contracts = consumers.chains.iter();
    Json(SignerBody {
        address: consumers.signer.account().to_string(),
        contracts: contracts.map(|(name, of)| (name.clone(), of.contract.to_string())).collect(),
    })
}
