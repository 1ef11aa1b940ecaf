//! `GET /v2/allora/consumer/price/{chain_id}/{asset}/{timeframe}`: the newest price of an asset, signed
//! for the contract on a chain.

use axum::{
    Json,
    extract::{Path, State},
};
use wire::inference::consumer::{Envelope, SignedInference};

use super::{
    Service,
    consumer::signed,
    error::{ApiError, ConsumerError},
};

pub(super) async fn get(
    State(service): State<Service>,
    Path((chain, asset, timeframe)): Path<(String, String, String)>,
) -> Result<Json<Envelope<SignedInference>>, ConsumerError> {
    let prices = &service.consumers.prices;
    let topic = *prices.get(&format!("{asset}/{timeframe}")).ok_or_else(|| {
        let known: Vec<&str> = prices.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ApiError::NotFound(format!("price not served, use one of: {known}"))
    })?;
    Ok(signed(&service, &chain, topic).await?)
}
