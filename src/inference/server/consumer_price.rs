//! `GET /v2/allora/consumer/price/{chain_id}/{asset}/{timeframe}`: the newest price of an asset, signed
//! for the contract on a chain.

use axum::Json;
use wire::{
    inference::consumer::{Envelope, SignedInference},
    paths,
};

use super::{
    consumer::signed,
    error::{ApiError, ConsumerError},
    openapi::{
        NOT_SIGNABLE, NOTHING_TO_SIGN,
        parameters::{ChainPart, ConsumerRefusal},
    },
    request::Asked,
};

/// The newest price of an asset, signed likewise. Which topic tells it is for the operator.
///
/// The signature is secp256k1 over the typed data that the public consumer contract checks: 65 bytes
/// r, s, v. Amounts have 18 decimals as whole numbers, cut and not rounded; those called normalized
/// are plain decimals. The timestamp is in seconds since 1970. Negative values are refused, since a
/// contract's numbers are not signed.
#[utoipa::path(get, path = paths::CONSUMER_PRICE, operation_id = "consumer_price",
    tag = "consumer", params(ChainPart,
        ("asset" = String, Path, min_length = 1, description = "The asset, such as `BTC`."),
        ("timeframe" = String, Path, min_length = 1, description = "How far ahead, such as `8h`.")),
    responses(
        (status = 200, description = "The value and its signature",
            body = Envelope<SignedInference>),
        (status = 400, description = NOT_SIGNABLE, body = ConsumerRefusal),
        (status = 404, description = NOTHING_TO_SIGN, body = ConsumerRefusal)))]
pub(super) async fn get(asked: Asked) -> Result<Json<Envelope<SignedInference>>, ConsumerError> {
    let (chain, asset) = (asked.text("chain_id")?, asked.text("asset")?);
    let timeframe = asked.text("timeframe")?;
    let prices = &asked.service.consumers.prices;
    let topic = *prices.get(&format!("{asset}/{timeframe}")).ok_or_else(|| {
        let known: Vec<&str> = prices.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        ApiError::not_found(format!("price not served, use one of: {known}"))
    })?;
    Ok(signed(&asked.service, &chain, topic).await?)
}
