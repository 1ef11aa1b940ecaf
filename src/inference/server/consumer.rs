//! `GET /v2/allora/consumer/{chain_id}?allora_topic_id=`: the newest combined value of a topic without
//! inferences that are too far off, with its confidence interval, signed for the contract on a chain.

use std::collections::BTreeMap;

use axum::Json;
use model::{bundle::decimal, topic::TopicId};
use uuid::Uuid;
use wire::{
    inference::consumer::{Envelope, InferenceData, SignedInference as Body},
    paths,
};

use super::{
    App,
    error::{ApiError, ConsumerError},
    openapi::{
        NOT_SIGNABLE, NOTHING_TO_SIGN,
        parameters::{ChainPart, ConsumerMembers, ConsumerRefusal},
    },
    request::{Asked, read_topic_id},
};
use crate::{
    math::synthesis::interval::PERCENTILES,
    network::{
        close::Signed,
        signer::{Amount, DECIMALS, Domain, SignedInference, Signer},
    },
};

/// For whom inferences are signed, and by whom.
#[derive(Debug, Clone)]
pub struct Consumers {
    /// The key pair that signs.
    pub signer: Signer,
    /// The contract on each chain that is served, by the chain's name, such as
    /// `ethereum-11155111`.
    pub chains: BTreeMap<String, Domain>,
    /// The topics of prices, by asset and how far ahead, such as `BTC/8h`.
    pub prices: BTreeMap<String, TopicId>,
}

/// A topic's newest combined value with its confidence interval, signed for a contract.
///
/// The signature is secp256k1 over the typed data that the public consumer contract checks: 65 bytes
/// r, s, v. Amounts have 18 decimals as whole numbers, cut and not rounded; those called normalized
/// are plain decimals. The timestamp is in seconds since 1970. Negative values are refused, since a
/// contract's numbers are not signed.
#[utoipa::path(get, path = paths::CONSUMER, operation_id = "consumer", tag = "consumer",
    params(ChainPart, ConsumerMembers),
    responses((status = 200, description = "The value and its signature", body = Envelope<Body>),
        (status = 400, description = NOT_SIGNABLE, body = ConsumerRefusal),
        (status = 404, description = NOTHING_TO_SIGN, body = ConsumerRefusal)))]
pub(super) async fn get(asked: Asked) -> Result<Json<Envelope<Body>>, ConsumerError> {
    let text = asked.text("allora_topic_id")?;
    if asked.find("inference_value_type")?.is_some_and(|kind| kind != "uint256") {
        let message = "inference_value_type is uint256, the one type that is signed";
        return Err(ApiError::invalid(message).into());
    }
    let topic = read_topic_id("topic_id", &text)?;
    Ok(signed(&asked.service, &asked.text("chain_id")?, topic).await?)
}

/// The newest value of `topic`, signed for `chain`.
pub(super) async fn signed(
    service: &App,
    chain: &str,
    topic: TopicId,
) -> Result<Json<Envelope<Body>>, ApiError> {
    let Consumers { signer, chains, .. } = service.consumers.as_ref();
    let domain = *chains.get(chain).ok_or_else(|| {
        let served: Vec<&str> = chains.keys().map(String::as_str).collect();
        ApiError::not_found(format!("chain not served, use one of: {}", served.join(", ")))
    })?;
    let bundles = service.inference.latest(topic).await?;
    let (value, intervals) = match &bundles.signed {
        Some(Signed { value, intervals }) => (value, intervals),
        None => (&bundles.bundle.combined_value, &bundles.intervals),
    };
    let [value] = value.as_slice() else {
        let message = format!("topic {topic} has several labels, and a contract takes one number");
        return Err(ApiError::invalid(message));
    };
    let normalized = decimal(value.value);
    let interval = intervals.first();
    let values: Vec<String> =
        interval.map(|i| i.values.iter().copied().map(decimal).collect()).unwrap_or_default();
    let percentiles: Vec<String> =
        if values.is_empty() { Vec::new() } else { PERCENTILES.map(decimal).to_vec() };
    let amount = |text: &String| {
        Amount::of_decimal(text).map_err(|error| ApiError::invalid(format!("cannot {error}")))
    };
    let inference = SignedInference {
        network_inference: amount(&normalized)?,
        timestamp: u64::try_from(bundles.closed_at.seconds()).unwrap_or_default(),
        topic_id: topic.get(),
        percentiles: percentiles.iter().map(amount).collect::<Result<_, _>>()?,
        values: values.iter().map(amount).collect::<Result<_, _>>()?,
    };
    let signature = signer.sign(domain, &inference)?;
    let texts = |amounts: &[Amount]| amounts.iter().map(ToString::to_string).collect();
    Ok(wrapped(Body {
        signature,
        token_decimals: u32::try_from(DECIMALS).unwrap_or_default(),
        inference_data: InferenceData {
            network_inference: inference.network_inference.to_string(),
            network_inference_normalized: normalized,
            confidence_interval_percentiles: texts(&inference.percentiles),
            confidence_interval_percentiles_normalized: percentiles,
            confidence_interval_values: texts(&inference.values),
            confidence_interval_values_normalized: values,
            topic_id: topic.to_string(),
            timestamp: inference.timestamp,
            extra_data: "0x".to_owned(),
        },
    }))
}

/// `data` as the answer to a request.
pub(super) fn wrapped<T>(data: T) -> Json<Envelope<T>> {
    let request_id = Uuid::new_v4().to_string();
    Json(Envelope { request_id, status: true, api_response_message: None, data: Some(data) })
}
