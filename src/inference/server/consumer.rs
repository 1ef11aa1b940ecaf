//! Consumer API: signed values for contracts, and pages of topics.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use model::topic::{TopicId, decimal};
use uuid::Uuid;
use wire::inference::consumer::{
    ConsumerTopic, ConsumerTopics, Envelope, InferenceData, SignedInference as Body,
};
use wire::inference::network::SignerBody;
use wire::paths;

use super::App;
use super::error::{ApiError, ConsumerError, Result};
use super::openapi::bodies::ConsumerRefusal;
use super::openapi::{NETWORKS, NOT_SIGNABLE, NOTHING_TO_SIGN};
use super::request::{Params, read_topic_id};
use crate::math::synthesis::interval::PERCENTILES;
use crate::network::close::Signed;
use crate::network::signer::{Amount, DECIMALS, Domain, SignedInference, Signer};
use crate::network::topic::Topic;
use crate::{Inference, InferenceError};

/// Signer, contracts and prices of the consumer API.
#[derive(Debug, Clone)]
pub struct Consumers {
    /// Key pair that signs inferences.
    pub signer: Signer,
    /// Contract of each chain by the chain's name, such as `ethereum-11155111`.
    pub chains: BTreeMap<String, Domain>,
    /// Topic that predicts each price, by asset and timeframe, such as `BTC/8h`.
    pub prices: BTreeMap<String, TopicId>,
}

/// Returns a topic's latest combined value, with its confidence interval, signed for a contract.
///
/// The signature is secp256k1 over the typed data of the public consumer contract: 65 bytes r, s,
/// v. Amounts are integers with 18 decimals, truncated; normalized amounts are plain decimals. The
/// timestamp is in seconds since 1970. A negative value or bound of its
/// interval is refused, since contracts have unsigned numbers.
#[utoipa::path(get, path = paths::CONSUMER, operation_id = "consumer", tag = "consumer",
    params(("allora_topic_id" = u64, Query), ("inference_value_type" = Option<String>, Query)),
    responses((status = 200, description = "Value and signature", body = Envelope<Body>),
        (status = 400, description = NOT_SIGNABLE, body = ConsumerRefusal),
        (status = 404, description = NOTHING_TO_SIGN, body = ConsumerRefusal)))]
pub(super) async fn value(params: Params) -> Result<Json<Envelope<Body>>, ConsumerError> {
    let text = params.text("allora_topic_id")?;
    if params.find("inference_value_type")?.is_some_and(|kind| kind != "uint256") {
        let message = "inference_value_type must be uint256";
        return Err(ApiError::invalid(message).into());
    }
    let topic = read_topic_id("allora_topic_id", &text)?;
    Ok(signed(&params.service, &params.text("chain_id")?, topic).await?)
}

/// Signs the latest value of `topic` for the contract on `chain`.
async fn signed(service: &App, chain: &str, topic: TopicId) -> Result<Json<Envelope<Body>>> {
    let Consumers { signer, chains, .. } = service.consumers.as_ref();
    let domain = *chains.get(chain).ok_or_else(|| {
        let served: Vec<&str> = chains.keys().map(String::as_str).collect();
        ApiError::not_found(format!("unknown chain, use one of: {}", served.join(", ")))
    })?;
    let bundles = service.inference.latest(topic).await?;
    let (value, intervals) = match &bundles.signed {
        Some(Signed { value, intervals }) => (value, intervals),
        None => (&bundles.bundle.combined_value, &bundles.intervals),
    };
    let [value] = value.as_slice() else {
        let message = format!("topic {topic} has several labels, which cannot be signed");
        return Err(ApiError::invalid(message));
    };
    let values = intervals.first().map_or(&[][..], |interval| &interval.values);
    let percentiles = if values.is_empty() { &[][..] } else { &PERCENTILES };
    let amount =
        |number: f64| Amount::new(number).map_err(|error| ApiError::invalid(error.to_string()));
    let amounts = |numbers: &[f64]| numbers.iter().copied().map(amount).collect::<Result<_>>();
    let inference = SignedInference {
        network_inference: amount(value.value)?,
        timestamp: u64::try_from(bundles.closed_at.seconds()).unwrap_or_default(),
        topic_id: topic.get(),
        percentiles: amounts(percentiles)?,
        values: amounts(values)?,
    };
    let signature = signer.sign(domain, &inference)?;
    let texts = |amounts: &[Amount]| amounts.iter().map(ToString::to_string).collect();
    let normalized = |numbers: &[f64]| numbers.iter().copied().map(decimal).collect();
    Ok(wrapped(Body {
        signature,
        token_decimals: u32::try_from(DECIMALS).unwrap_or_default(),
        inference_data: InferenceData {
            network_inference: inference.network_inference.to_string(),
            network_inference_normalized: decimal(value.value),
            confidence_interval_percentiles: texts(&inference.percentiles),
            confidence_interval_percentiles_normalized: normalized(percentiles),
            confidence_interval_values: texts(&inference.values),
            confidence_interval_values_normalized: normalized(values),
            topic_id: topic.to_string(),
            timestamp: inference.timestamp,
            extra_data: "0x".to_owned(),
        },
    }))
}

/// Wraps `data` in a successful response.
fn wrapped<T>(data: T) -> Json<Envelope<T>> {
    let request_id = Uuid::new_v4().to_string();
    Json(Envelope { request_id, status: true, api_response_message: None, data: Some(data) })
}

/// Returns the latest price of an asset, signed for a contract.
///
/// The operator assigns a topic to each price. The signature is secp256k1 over the typed data of
/// the public consumer contract: 65 bytes r, s, v. Amounts are integers with 18 decimals,
/// truncated; normalized amounts are plain decimals. The timestamp is in seconds since 1970. A negative
/// value or bound of its interval is refused, since contracts have unsigned numbers.
#[utoipa::path(get, path = paths::CONSUMER_PRICE, operation_id = "consumer_price",
    tag = "consumer",
    responses(
        (status = 200, description = "Value and signature",
            body = Envelope<Body>),
        (status = 400, description = NOT_SIGNABLE, body = ConsumerRefusal),
        (status = 404, description = NOTHING_TO_SIGN, body = ConsumerRefusal)))]
pub(super) async fn price(params: Params) -> Result<Json<Envelope<Body>>, ConsumerError> {
    let (chain, asset) = (params.text("chain_id")?, params.text("asset")?);
    let timeframe = params.text("timeframe")?;
    let prices = &params.service.consumers.prices;
    let topic = *prices.get(&format!("{asset}/{timeframe}")).ok_or_else(|| {
        if prices.is_empty() {
            return ApiError::not_found("service has no prices, start it with --price");
        }
        let known: Vec<&str> = prices.keys().map(String::as_str).collect();
        ApiError::not_found(format!("unknown price, use one of: {}", known.join(", ")))
    })?;
    Ok(signed(&params.service, &chain, topic).await?)
}

/// Returns pages of 100 topics. The topics do not depend on `network`.
#[utoipa::path(get, path = paths::CONSUMER_TOPICS, operation_id = "consumer_topics",
    tag = "consumer", params(("continuation_token" = Option<String>, Query,
            description = "Token of the previous page, which the last page does not have.")),
    responses((status = 200, description = "A page of topics", body = Envelope<ConsumerTopics>),
        (status = 400, description = "Invalid token", body = ConsumerRefusal),
        (status = 404, description = "Unknown network", body = ConsumerRefusal)))]
pub(super) async fn topics(
    params: Params,
) -> Result<Json<Envelope<ConsumerTopics>>, ConsumerError> {
    if !NETWORKS.contains(&params.text("network")?.as_str()) {
        let message = format!("unknown network, use one of: {}", NETWORKS.join(", "));
        return Err(ApiError::not_found(message).into());
    }
    let token = params.find("continuation_token")?.filter(|token| !token.is_empty());
    let after: Option<u64> = token.map(|token| token.parse()).transpose().map_err(|_| {
        ApiError::mismatch("continuation_token", "expected the token of the previous page")
    })?;
    let after = after.unwrap_or_default();
    let inference = &params.service.inference;
    let topics = inference.topics();
    let mut rest = topics.iter().filter(|topic| topic.id.get() > after);
    let (mut page, mut last) = (Vec::new(), None);
    for topic in rest.by_ref().take(100) {
        last = Some(topic.id.to_string());
        match topic_body(inference, topic).await {
            // The topic was deleted meanwhile.
            Err(InferenceError::UnknownTopic(_)) => {}
            body => page.push(body?),
        }
    }
    let continuation_token = rest.next().and(last);
    Ok(wrapped(ConsumerTopics { topics: page, continuation_token }))
}

async fn topic_body(inference: &Inference, topic: &Topic) -> Result<ConsumerTopic, InferenceError> {
    // If the topic has no bundle yet, the number of workers is 0.
    let newest = match inference.latest(topic.id).await {
        Err(InferenceError::NoBundle(_)) => None,
        newest => Some(newest?),
    };
    let n_workers = newest.as_ref().map_or(0, |bundles| {
        bundles.bundle.inferer_values.len() + bundles.bundle.forecaster_values.len()
    });
    let updated_at = newest.map_or_else(|| inference.chain().now(), |bundles| bundles.closed_at);
    Ok(ConsumerTopic {
        topic_id: topic.id.get(),
        topic_name: topic.name.clone(),
        description: Some(format!("{} of {}", topic.source.column, topic.source.dataset)),
        epoch_length: topic.timing.epoch_length,
        ground_truth_lag: topic.timing.ground_truth_lag,
        loss_method: topic.judging.loss.method.to_string(),
        worker_submission_window: topic.timing.worker_submission_window,
        worker_count: u64::try_from(n_workers).unwrap_or(u64::MAX),
        reputer_count: 1,
        total_staked_allo: 0,
        total_emissions_allo: 0,
        is_active: topic.is_active,
        updated_at: updated_at.to_string(),
    })
}

/// Returns the account that signs values for contracts.
#[utoipa::path(get, path = paths::SIGNER, operation_id = "signer", tag = "network",
    responses((status = 200, description = "Account", body = SignerBody)))]
pub(super) async fn signer(State(service): State<App>) -> Json<SignerBody> {
    let consumers = &service.consumers;
    let contracts = consumers.chains.iter();
    Json(SignerBody {
        address: consumers.signer.account().to_string(),
        contracts: contracts.map(|(name, of)| (name.clone(), of.contract.to_string())).collect(),
    })
}
