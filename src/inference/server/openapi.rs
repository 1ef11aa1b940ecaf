//! `GET /api/openapi.json`: describes the whole service, with its limits. Needs no key.

pub(super) mod parameters;

use std::sync::OnceLock;

use accounts::gate::Limits;
use axum::{extract::State, response::Response};
use serde_json::{Value, json};
use web::openapi::{About, Description, SharedRefusal, describe};
use wire::{error::InferenceError, paths};

use super::{App, keyed_api, open_api};
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
const GROUPS: [(&str, &str); 10] = [
    ("bundles", "What the network makes of submissions, as the chain tells it."),
    ("submissions", "What workers submitted. An epoch that is open is not told."),
    ("losses", "Losses, the regrets that follow from them, and weights."),
    ("windows", "Topics, their windows, and what is open or due."),
    ("scores", "Scores of one epoch, and their moving averages."),
    ("not here", "Stakes, rewards, fees and global whitelists: zeros in the chain's shape."),
    ("network", "Ours: the whole network at a glance, its past, and its events."),
    ("taking part", "Ours: creating topics and submitting to them."),
    ("consumer", "Signed values for contracts, and topics page by page."),
    ("service", "How the service is."),
];

/// The answer to what cannot be read.
pub(super) const UNFIT: &str =
    "Code 3: a part of the path, the query or the body is not what it should be";

/// The answer where there is nothing.
const MISSING: &str = "Code 5: there is no such topic, or nothing of it yet";

/// The answer to a version that is not served.
const UNSERVED: &str = "Code 12: the version is not served, and the message names those that are";

/// The answer to a key that may not.
pub(super) const DENIED: &str =
    "Code 7: topics are made with an operator's key, and changed by the key that made them";

/// The answer where the dataset service is away.
pub(super) const UNCHECKED: &str =
    "Code 14: the dataset service did not answer, so that the dataset cannot be checked";

/// The answer with a topic.
pub(super) const OF_TOPIC: &str = "The topic, as the chain writes it";

/// The answer to what cannot be signed.
pub(super) const NOT_SIGNABLE: &str = "A parameter is unfit, the topic has several labels, or the value \
    is negative or too large for 256 bits";

/// The answer where there is nothing to sign.
pub(super) const NOTHING_TO_SIGN: &str =
    "There is no such chain, price, network or topic, or no bundle yet";

/// What every operation below a path may refuse.
const REFUSALS: [SharedRefusal<'_>; 5] = [
    SharedRefusal { below: "/emissions/", status: "400", text: UNFIT },
    SharedRefusal { below: "/emissions/", status: "404", text: MISSING },
    SharedRefusal { below: "/emissions/", status: "501", text: UNSERVED },
    SharedRefusal { below: paths::TOPIC_SETTINGS, status: "400", text: UNFIT },
    SharedRefusal { below: paths::TOPIC_SETTINGS, status: "404", text: MISSING },
];

/// The description of a service that lets keys in by these limits, and takes so much of a key. It
/// does not change while the service runs, and is written when somebody asks for it.
#[derive(Debug)]
pub(super) struct LazyDescription {
    limits: Limits,
    quota: WorkerQuota,
    written: OnceLock<Description>,
}

impl LazyDescription {
    /// The description of a service with these limits.
    pub(super) const fn new(limits: Limits, quota: WorkerQuota) -> Self {
        Self { limits, quota, written: OnceLock::new() }
    }

    /// The same as it is sent.
    pub(super) fn get(&self) -> &Description {
        let document = || Description::new(&document(self.limits, self.quota), paths::OPENAPI);
        self.written.get_or_init(document)
    }
}

/// This description of the service.
#[utoipa::path(get, path = paths::OPENAPI, operation_id = "openapi", tag = "service", security(()),
    responses((status = 200, description = "An OpenAPI document", body = Object)))]
pub(super) async fn get(State(service): State<App>) -> Response {
    service.description.get().document()
}

/// This description as a page for people.
#[utoipa::path(get, path = paths::DOCS, operation_id = "docs", tag = "service", security(()),
    responses((status = 200, description = "A page", body = String, content_type = "text/html")))]
pub(super) async fn docs(State(service): State<App>) -> Response {
    service.description.get().page()
}

/// The description as a value.
fn document(limits: Limits, quota: WorkerQuota) -> Value {
    let about = About {
        title: "Network inference service",
        text: &format!("{ABOUT}\n\n{}", describe_limits(limits, quota)),
        groups: &GROUPS,
        security: json!([{"key": []}]),
        session_cookie: "",
        refusals: &REFUSALS,
        examples: "{}",
    };
    let api = keyed_api().merge(open_api()).into_openapi();
    let mut document = describe::<InferenceError, InferenceError>(api, &about);
    // What was answered is there.
    for name in ["ConsumerTopics", "SignedInference"] {
        let answer = &mut document["components"]["schemas"][format!("Answer_{name}")];
        answer["required"] = json!(["request_id", "status", "data"]);
        answer["properties"]["data"] = json!({
            "$ref": format!("#/components/schemas/{name}"),
            "description": "What was asked for.",
        });
    }
    document
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

#[cfg(test)]
mod tests;
