//! `GET /api/openapi.json`: describes the whole service, with its limits. Needs no key.
//!
//! Schemas, with the docs of their fields, come from the shapes that are served; the operations
//! are in the tables below this file.

/// An operation that reads, below a version of the chain's API.
macro_rules! asks {
    ($group:literal, $path:expr, $id:literal, $summary:literal, $text:expr, [$($parameter:expr),*], $schema:literal) => {
        web::openapi::Operation {
            method: "get",
            path: $path,
            id: $id,
            group: $group,
            summary: $summary,
            text: $text,
            parameters: &[$crate::server::openapi::VERSION, $($parameter),*],
            body: &[],
            answers: &[
                web::openapi::answer("200", "What was asked for", &[web::openapi::json_of($schema)]),
                $crate::server::openapi::UNFIT,
                $crate::server::openapi::MISSING,
                $crate::server::openapi::UNSERVED,
            ],
            caller: web::openapi::Caller::Key,
        }
    };
}

mod bundles;
mod consumer;
mod losses;
mod network;
mod scores;
mod state;
mod submissions;
mod windows;

use std::sync::OnceLock;

use accounts::gate::Limits;
use axum::{
    body::Bytes,
    extract::State,
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value, json};
use web::{
    api_docs,
    openapi::{Answer, Api, Operation, Parameter, answer, json_of, part, settings},
};
use wire::{
    error::InferenceError,
    inference::{
        Bundle, LatestBundle, NextTopicId, TopicHistory, TopicList, TopicResponse, chain,
        consumer::{ConsumerTopics, Envelope, SignedInference},
        leaderboard::Leaderboard,
        network::{
            Accepted, EpochBody, LatestBody, NetworkInferencesPage, RelearnBody, RelearnedBody,
            ScalarBody, ServiceHealth, SignerBody, SubmissionBody, TopicActive, TopicHealth,
            TopicSettings,
        },
    },
    paths::{API_KEY_HEADER, OPENAPI},
};

use super::Service;
use crate::network::submission::WorkerQuota;

/// What the service is, at the head of its description. Its limits follow.
const ABOUT: &str = "A prediction network on one machine: topics, the workers and forecasters that \
    submit to them epoch by epoch, what the network makes of it, and what came true. It answers the \
    queries of the chain's gateway in the chain's own shapes, the consumer API with signed values, \
    and some questions that the chain does not answer.\n\n\
    Send the API key in the header `x-api-key`, in any letter case, or as `Authorization: Bearer`. Heights, nonces, lags and windows \
    count blocks of the local chain; a nonce is the height at which an epoch opened. As on the chain, \
    whole numbers of 64 bits and decimals are texts. Losses are base-10 logarithms, unless the topic \
    allows negative ones.\n\n\
    The newest bundle is that of the newest epoch that closed: its weights follow from the losses \
    learned until then. A topic that is unknown, or has no bundle yet, is a 404 with code 5 on every \
    query, where the chain answers an empty bundle to some. A version that is not served is a 501 \
    whose message names those that are.\n\n\
    A worker's address is `allo1…`, bech32 of 20 bytes. A node's is the hash of its public key, as the \
    chain's addresses are: RIPEMD-160 of SHA-256 of a secp256k1 key, the first 20 bytes of SHA-256 of \
    an Ed25519 key. An API key has no public key: the address of its holder, and of each model of its \
    holder, is made from the key's number and the model's name, and stays when the key is renewed.";

/// Groups of operations, in the order of the description.
const GROUPS: [(&str, &str); 9] = [
    ("bundles", "What the network makes of submissions, as the chain tells it."),
    ("submissions", "What workers submitted. An epoch that is open is not told."),
    ("losses", "Losses, the regrets that follow from them, and weights."),
    ("windows", "Topics, their windows, and what is open or due."),
    ("scores", "Scores of one epoch, and their moving averages."),
    ("network", "Ours: the whole network at a glance, its past, and its events."),
    ("taking part", "Ours: creating topics and submitting to them."),
    ("consumer", "Signed values for contracts, and topics page by page."),
    ("service", "How the service is."),
];

/// Every operation, by table.
const OPERATIONS: [&[Operation]; 8] = [
    &bundles::OPERATIONS,
    &submissions::OPERATIONS,
    &losses::OPERATIONS,
    &windows::OPERATIONS,
    &scores::OPERATIONS,
    &network::OPERATIONS,
    &consumer::OPERATIONS,
    &state::OPERATIONS,
];

/// The version of the chain's API.
const VERSION: Parameter = part(
    "version",
    r#"{"type":"string","enum":["v10","v9"]}"#,
    "`v10` has a value for each label; `v9` has one number for each quantity.",
);

/// Path parameter: the topic.
const TOPIC: Parameter =
    part("topic_id", r#"{"type":"integer","format":"uint64","minimum":1}"#, "The topic's number.");

/// Path parameter: the block of an epoch.
const HEIGHT: Parameter = part(
    "block_height",
    r#"{"type":"integer","format":"uint64","minimum":0}"#,
    "The nonce: the height at which the epoch opened.",
);

/// What an address looks like.
const ADDRESS: &str = r#"{"type":"string","pattern":"^allo1[a-z0-9]{1,85}$"}"#;

/// The answer to what cannot be read.
const UNFIT: Answer = answer(
    "400",
    "Code 3: a part of the path, the query or the body is not what it should be",
    &[json_of("InferenceError")],
);

/// The answer where there is nothing.
const MISSING: Answer = answer(
    "404",
    "Code 5: there is no such topic, or nothing of it yet",
    &[json_of("InferenceError")],
);

/// The answer to a version that is not served.
const UNSERVED: Answer = answer(
    "501",
    "Code 12: the version is not served, and the message names those that are",
    &[json_of("InferenceError")],
);

/// The description of a service that lets keys in by these limits, and takes so much of a key. It
/// does not change while the service runs, and is written when somebody asks for it.
#[derive(Debug)]
pub(super) struct Description {
    limits: Limits,
    quota: WorkerQuota,
    written: OnceLock<Written>,
}

/// The description as it is sent.
#[derive(Debug)]
struct Written {
    document: Bytes,
    page: String,
}

impl Description {
    /// The description of a service with these limits.
    pub(super) const fn new(limits: Limits, quota: WorkerQuota) -> Self {
        Self { limits, quota, written: OnceLock::new() }
    }

    /// The same for people.
    pub(super) fn page(&self) -> Response {
        api_docs::respond(self.written().page.clone())
    }

    fn written(&self) -> &Written {
        self.written.get_or_init(|| {
            let document = described(self.limits, self.quota);
            let page = api_docs::render(&document, OPENAPI);
            Written { document: document.to_string().into(), page }
        })
    }
}

pub(super) async fn get(State(service): State<Service>) -> Response {
    let document = service.description.written().document.clone();
    ([(CONTENT_TYPE, "application/json")], document).into_response()
}

/// The description as a value.
fn described(limits: Limits, quota: WorkerQuota) -> Value {
    Api {
        title: "Network inference service",
        version: env!("CARGO_PKG_VERSION"),
        text: &format!("{ABOUT}\n\n{}", describe_limits(limits, quota)),
        groups: &GROUPS,
        operations: &OPERATIONS,
        schemas: schemas(),
        refusal: "InferenceError",
        no_key: "InferenceError",
        key_header: API_KEY_HEADER,
        session_cookie: "",
    }
    .describe()
}

/// What keys may do here, in words.
fn describe_limits(limits: Limits, WorkerQuota(n_workers): WorkerQuota) -> String {
    let Limits { rate, burst, requests_per_day, bytes_per_day } = limits;
    let mut sentences = vec![match (rate, burst) {
        (0, _) => {
            "Keys may ask as often as they like, unless they have limits of their own.".to_owned()
        }
        (rate, burst) => format!(
            "The keys of an account may make {rate} requests a second together, {} at once; a key \
             with limits of its own has those.",
            if burst == 0 { rate } else { burst }
        ),
    }];
    if requests_per_day > 0 {
        sentences.push(format!("They may make {requests_per_day} requests a day of UTC."));
    }
    if bytes_per_day > 0 {
        sentences.push(format!(
            "They may have {bytes_per_day} bytes of bodies a day of UTC, both ways."
        ));
    }
    sentences.push(
        "More is a 429 with code 8 and `Retry-After` in seconds; the headers `RateLimit-Limit`, \
         `RateLimit-Remaining` and `RateLimit-Reset` tell beforehand."
            .to_owned(),
    );
    if n_workers > 0 {
        sentences.push(format!(
            "An account may have {n_workers} workers in an epoch of a topic, under all its keys."
        ));
    }
    sentences.join(" ")
}

/// The schema of every body.
fn schemas() -> Map<String, Value> {
    let mut read = settings().for_deserialize().into_generator();
    read.subschema_for::<SubmissionBody>();
    read.subschema_for::<RelearnBody>();
    read.subschema_for::<TopicActive>();
    read.subschema_for::<TopicSettings>();
    let mut written = settings().for_serialize().into_generator();
    written.subschema_for::<Accepted>();
    written.subschema_for::<EpochBody>();
    written.subschema_for::<Envelope<ConsumerTopics>>();
    written.subschema_for::<Envelope<SignedInference>>();
    written.subschema_for::<InferenceError>();
    written.subschema_for::<LatestBody>();
    written.subschema_for::<LatestBundle>();
    written.subschema_for::<NetworkInferencesPage>();
    written.subschema_for::<NextTopicId>();
    written.subschema_for::<ScalarBody>();
    written.subschema_for::<TopicHistory>();
    written.subschema_for::<Leaderboard>();
    written.subschema_for::<TopicHealth>();
    written.subschema_for::<RelearnedBody>();
    written.subschema_for::<ServiceHealth>();
    written.subschema_for::<SignerBody>();
    written.subschema_for::<TopicList>();
    written.subschema_for::<TopicResponse>();
    written.subschema_for::<chain::LatestNetworkInferencesV9>();
    written.subschema_for::<chain::NetworkInferencesAtBlock<Bundle>>();
    written.subschema_for::<chain::NetworkInferencesAtBlock<chain::ValueBundle>>();
    written.subschema_for::<chain::InferencesAtBlock>();
    written.subschema_for::<chain::LatestInferences>();
    written.subschema_for::<chain::LatestInputInference>();
    written.subschema_for::<chain::LatestInference>();
    written.subschema_for::<chain::ForecastsAtBlock>();
    written.subschema_for::<chain::NetworkLoss>();
    written.subschema_for::<chain::ReputerLossBundles>();
    written.subschema_for::<chain::ReputerLossBundlesV9>();
    written.subschema_for::<chain::RegretResponse>();
    written.subschema_for::<chain::ValueResponse>();
    written.subschema_for::<chain::WeightResponse>();
    written.subschema_for::<chain::ScoreResponse>();
    written.subschema_for::<chain::Scores>();
    written.subschema_for::<chain::ScoresAtBlock>();
    written.subschema_for::<chain::CountResponse>();
    written.subschema_for::<chain::TopicExists>();
    written.subschema_for::<chain::IsTopicActive>();
    written.subschema_for::<chain::NextChurningBlock>();
    written.subschema_for::<chain::IsWorkerNonceUnfulfilled>();
    written.subschema_for::<chain::IsReputerNonceUnfulfilled>();
    written.subschema_for::<chain::Nonces<chain::Nonce>>();
    written.subschema_for::<chain::Nonces<chain::ReputerNonce>>();
    written.subschema_for::<chain::WindowStatus>();
    written.subschema_for::<chain::LastCommit>();
    written.subschema_for::<chain::IsTopicWorkerWhitelistEnabled>();
    written.subschema_for::<chain::IsWhitelistedTopicWorker>();
    written.subschema_for::<chain::CanSubmitWorkerPayload>();
    written.subschema_for::<chain::ActiveInferers>();
    written.subschema_for::<chain::ActiveForecasters>();
    written.subschema_for::<chain::RewardNonce>();
    written.subschema_for::<chain::ActiveTopics>();
    let mut schemas = read.take_definitions(true);
    schemas.extend(written.take_definitions(true));
    schemas.extend(forms());
    // What was answered is there.
    for name in ["ConsumerTopicsAnswer", "SignedInferenceAnswer"] {
        if let Some(answer) = schemas.get_mut(name) {
            answer["required"] = json!(["request_id", "status", "data"]);
        }
    }
    schemas
}

/// The schemas of what is no shape of its own.
fn forms() -> [(String, Value); 7] {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let either = |new: &str, old: &str| {
        json!({
            "anyOf": [reference(new), reference(old)],
            "description": "The first in `v10`, the second in `v9`.",
        })
    };
    let text = |about: &str| json!({"type": "string", "description": about});
    [
        ("Latest".to_owned(), either("LatestBundle", "LatestNetworkInferencesV9")),
        ("AtBlock".to_owned(), either("BundleAtBlock", "ValueBundleAtBlock")),
        ("Reported".to_owned(), either("ReputerLossBundles", "ReputerLossBundlesV9")),
        ("Text".to_owned(), json!({"type": "string"})),
        ("Document".to_owned(), json!({"type": "object"})),
        (
            "Params".to_owned(),
            json!({
                "type": "object",
                "required": ["params"],
                "properties": {"params": {
                    "type": "object",
                    "description": "Each parameter by its name.",
                    "additionalProperties": {"type": "string"},
                }},
            }),
        ),
        (
            "ConsumerRefusal".to_owned(),
            json!({
                "type": "object",
                "required": ["request_id", "status", "apiResponseMessage"],
                "properties": {
                    "request_id": text("The request's number."),
                    "status": {"const": false, "description": "It was not answered."},
                    "apiResponseMessage": text("Why not."),
                },
            }),
        ),
    ]
}

#[cfg(test)]
mod tests;
