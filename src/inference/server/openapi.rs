//! `GET /api/openapi.json`: `OpenAPI` description of the service. The request needs no API key.

pub(super) mod bodies;

use std::sync::LazyLock;

use axum::response::Response;
use serde_json::{Map, Value, json};
use web::openapi::{About, Description, SharedRefusal, describe};
use wire::error::InferenceError;
use wire::paths;

use super::{keyed_api, open_api};

/// Introduction of the description.
const ABOUT: &str = "A prediction network on one machine: topics, workers and forecasters that \
    submit to them in epochs, combined values, and true values. It has the queries of the chain's \
    gateway in the chain's format, the consumer API with signed values, and more.\n\n\
    Send the API key in the header `x-api-key`, or as `Authorization: Bearer`. Heights, nonces, lags \
    and windows count blocks of the local chain; a nonce is the height at which an epoch opened. As on \
    the chain, 64-bit integers and decimals are strings. Losses are base-10 logarithms, unless the \
    topic allows negative losses.\n\n\
    The newest bundle is that of the newest closed epoch: its weights are computed from the losses \
    learned before. An unknown topic, or one without a bundle, is a 404 with code 5; the chain returns \
    an empty bundle for some queries instead. An unsupported version is a 501 that lists the \
    supported ones.\n\n\
    A worker's address is `allo1…`, bech32 of 20 bytes. A node's is the hash of its public key, as on \
    the chain: RIPEMD-160 of SHA-256 of a secp256k1 key, the first 20 bytes of SHA-256 of an Ed25519 \
    key. API keys have no public key: addresses of a holder and of its models are derived from the \
    key's number and the model's name, and do not change when the key is renewed.\n\n\
    The headers `RateLimit-Limit`, `RateLimit-Remaining` and `RateLimit-Reset` of each response tell \
    the limits of the account. Requests over a limit get a 429 with code 8 and `Retry-After` in \
    seconds. The number of workers of an account per epoch of a topic is limited, too: a submission \
    over this limit is refused, and its message has the maximum.";

/// Groups of operations with their descriptions, in the order of the document.
const GROUPS: [(&str, &str); 10] = [
    ("bundles", "Combined values, in the chain's format."),
    ("submissions", "Submissions of closed epochs."),
    ("losses", "Losses, regrets and weights."),
    ("windows", "Topics and their submission windows."),
    ("scores", "Scores and their moving averages."),
    ("constants", "Stakes, rewards, fees and global whitelists: constant, in the chain's format."),
    ("network", "Overview, past epochs and events of the network."),
    ("participation", "Topic settings and submissions."),
    ("consumer", "Signed values for contracts, and pages of topics."),
    ("service", "State of the service."),
];

/// Description of an invalid request.
pub(super) const UNFIT: &str = "Code 3: the path, the query or the body is invalid";

/// Description of a missing resource.
const MISSING: &str = "Code 5: the topic does not exist, or has no data yet";

/// Description of an unsupported version.
const UNSERVED: &str =
    "Code 12: the version is not supported; the message lists the supported versions";

/// Description of a missing permission.
pub(super) const DENIED: &str =
    "Code 7: only an operator's key can create a topic, and only that key can change it";

/// Description of an unavailable dataset service.
pub(super) const UNCHECKED: &str = "Code 14: the dataset service did not respond";

/// Description of a response with a topic.
pub(super) const OF_TOPIC: &str = "Topic in the chain's format";

/// Description of a value that cannot be signed.
pub(super) const NOT_SIGNABLE: &str = "A parameter is invalid, the topic has several labels, or the \
    value is negative or too large for 256 bits";

/// Description of a missing value to sign.
pub(super) const NOTHING_TO_SIGN: &str =
    "The chain, price, network or topic does not exist, or has no bundle yet";

/// Names under which clients of the chain can request this network.
pub(super) const NETWORKS: [&str; 2] = ["allora-testnet-1", "allora-mainnet-1"];

/// Error responses that all operations below a path have in common.
const REFUSALS: [SharedRefusal<'_>; 5] = [
    SharedRefusal { below: "/emissions/", status: "400", text: UNFIT },
    SharedRefusal { below: "/emissions/", status: "404", text: MISSING },
    SharedRefusal { below: "/emissions/", status: "501", text: UNSERVED },
    SharedRefusal { below: paths::TOPIC_SETTINGS, status: "400", text: UNFIT },
    SharedRefusal { below: paths::TOPIC_SETTINGS, status: "404", text: MISSING },
];

/// Description of the service, rendered once.
static DESCRIPTION: LazyLock<Description> =
    LazyLock::new(|| Description::new(&document(), paths::OPENAPI));

/// Returns this description of the API, an `OpenAPI` document.
#[utoipa::path(get, path = paths::OPENAPI, operation_id = "openapi", tag = "service", security(()),
    responses((status = 200, description = "OpenAPI document", body = Object)))]
pub(super) async fn get() -> Response {
    DESCRIPTION.document()
}

/// Returns this description as an HTML page.
#[utoipa::path(get, path = paths::DOCS, operation_id = "docs", tag = "service", security(()),
    responses((status = 200, description = "HTML page", body = String, content_type = "text/html")))]
pub(super) async fn docs() -> Response {
    DESCRIPTION.page()
}

/// Creates the `OpenAPI` document.
fn document() -> Value {
    let about = About {
        title: "Network inference service",
        text: ABOUT,
        groups: &GROUPS,
        security: json!([{"key": []}]),
        session_cookie: "",
        refusals: &REFUSALS,
        examples: "{}",
    };
    let api = keyed_api().merge(open_api()).into_openapi();
    let mut document = describe::<InferenceError, InferenceError>(api, &about);
    for (path, methods) in document["paths"].as_object_mut().into_iter().flatten() {
        for operation in methods.as_object_mut().into_iter().flat_map(Map::values_mut) {
            describe_parameters(path, operation);
        }
    }
    // Marks `data` as required in the schemas of successful responses. `data` is optional only because
    // errors have the same type.
    for name in ["ConsumerTopics", "SignedInference"] {
        let answer = &mut document["components"]["schemas"][format!("Answer_{name}")];
        answer["required"] = json!(["request_id", "status", "data"]);
        answer["properties"]["data"] = json!({
            "$ref": format!("#/components/schemas/{name}"),
            "description": "Result of the query.",
        });
    }
    document
}

/// Adds the parameters in `path` to `operation`, and describes each parameter by its name.
fn describe_parameters(path: &str, operation: &mut Value) {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    let in_path = names.map(|name| json!({"name": name, "in": "path", "required": true}));
    let declared = operation["parameters"].as_array().cloned().unwrap_or_default();
    let mut parameters: Vec<Value> = in_path.chain(declared).collect();
    for parameter in &mut parameters {
        if parameter["description"].is_null() {
            let name = parameter["name"].as_str().unwrap_or_default();
            let (text, schema) = describe_parameter(name);
            parameter["description"] = text.into();
            parameter["schema"] = schema;
        }
    }
    if !parameters.is_empty() {
        operation["parameters"] = parameters.into();
    }
    let is_described = operation["responses"]["200"]["description"].is_string();
    if operation["responses"]["200"].is_object() && !is_described {
        operation["responses"]["200"]["description"] = "Result".into();
    }
}

/// Returns the description and the schema of the parameter `name`.
fn describe_parameter(name: &str) -> (String, Value) {
    let word = || json!({"type": "string", "minLength": 1});
    let number = |minimum| json!({"type": "integer", "format": "uint64", "minimum": minimum});
    let (text, schema) = match name {
        "version" => (
            "`v10` has a value for each label, `v9` one number for each value.",
            json!({"type": "string", "enum": ["v10", "v9"]}),
        ),
        "topic_id" => ("Id of the topic.", number(1)),
        "block_height" | "nonce" => ("Height at which the epoch opened.", number(0)),
        "chain_id" => ("Name of the chain, such as `ethereum-11155111`.", word()),
        "asset" => ("Asset, such as `BTC`.", word()),
        "timeframe" => ("Time until the price, such as `8h`.", word()),
        "network" => ("Name of the network.", json!({"type": "string", "enum": NETWORKS})),
        "leave_out" => (
            "Fills `one_out_forecaster_values`, `one_in_forecaster_values` and \
             `one_out_inferer_forecaster_values` for a topic with one output. By default, they are \
             empty, since the chain does not document their elements.",
            json!({"type": "string", "enum": ["all"]}),
        ),
        "allora_topic_id" => ("Id of the topic, which must have a single label.", number(1)),
        "inference_value_type" => {
            ("Type of the signed value.", json!({"type": "string", "enum": ["uint256"]}))
        }
        "part" | "other" | "target" => ("Address, or id of a topic.", json!({"type": "string"})),
        _ => {
            let text = match (name, name.strip_prefix("one_out_")) {
                ("address" | "actor_id", _) => "Address of the actor.".to_owned(),
                (_, Some(role)) => format!("Address of the excluded {role}."),
                (role, None) => format!("Address of the {role}."),
            };
            return (text, json!({"type": "string", "pattern": "^allo1[a-z0-9]{1,85}$"}));
        }
    };
    (text.to_owned(), schema)
}

#[cfg(test)]
mod tests;
