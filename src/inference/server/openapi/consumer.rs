//! The operations of the consumer API.

use web::openapi::{Answer, Caller, Operation, Parameter, answer, json_of, part, query};
use wire::paths;

/// Path parameter: the chain that checks.
const CHAIN: Parameter = part(
    "chain_id",
    r#"{"type":"string","minLength":1}"#,
    "The chain whose contract is to take the value, such as `ethereum-11155111`. An unknown one is \
     refused with those that are served.",
);

/// The answer with a signed value.
const SIGNED: Answer =
    answer("200", "The value and its signature", &[json_of("SignedInferenceAnswer")]);

/// The answer to what cannot be signed.
const UNFIT: Answer = answer(
    "400",
    "A parameter is unfit, the topic has several labels, or the value is negative or too large for 256 \
     bits",
    &[json_of("ConsumerRefusal")],
);

/// The answer where there is nothing.
const MISSING: Answer = answer(
    "404",
    "There is no such chain, price, network or topic, or no bundle yet",
    &[json_of("ConsumerRefusal")],
);

/// What is signed.
const SIGNING: &str = "The signature is secp256k1 over the typed data that the public consumer contract \
    checks: 65 bytes r, s, v. Amounts have 18 decimals as whole numbers, cut and not rounded; those \
    called normalized are plain decimals. The timestamp is in seconds since 1970. Negative values are \
    refused, since a contract's numbers are not signed.";

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 3] = [
    Operation {
        method: "get",
        path: paths::CONSUMER,
        id: "consumer",
        group: "consumer",
        summary: "A topic's newest combined value with its confidence interval, signed for a contract.",
        text: SIGNING,
        parameters: &[
            CHAIN,
            query(
                "allora_topic_id",
                r#"{"type":"integer","format":"uint64","minimum":1,"x-required":true}"#,
                "The topic's number. Its topic has one label.",
            ),
            query(
                "inference_value_type",
                r#"{"type":"string","enum":["uint256"]}"#,
                "What the value is signed as.",
            ),
        ],
        body: &[],
        answers: &[SIGNED, UNFIT, MISSING],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::CONSUMER_PRICE,
        id: "consumer_price",
        group: "consumer",
        summary: "The newest price of an asset, signed likewise. Which topic tells it is for the operator.",
        text: SIGNING,
        parameters: &[
            CHAIN,
            part("asset", r#"{"type":"string","minLength":1}"#, "The asset, such as `BTC`."),
            part("timeframe", r#"{"type":"string","minLength":1}"#, "How far ahead, such as `8h`."),
        ],
        body: &[],
        answers: &[SIGNED, UNFIT, MISSING],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::CONSUMER_TOPICS,
        id: "consumer_topics",
        group: "consumer",
        summary: "Topics, 100 a page. Both networks are this one.",
        text: "",
        parameters: &[
            part(
                "network",
                r#"{"type":"string","enum":["allora-testnet-1","allora-mainnet-1"]}"#,
                "The network as its clients call it.",
            ),
            query(
                "continuation_token",
                r#"{"type":"string"}"#,
                "What the page before says; on the last page there is none.",
            ),
        ],
        body: &[],
        answers: &[
            answer("200", "A page of topics", &[json_of("ConsumerTopicsAnswer")]),
            UNFIT,
            MISSING,
        ],
        caller: Caller::Key,
    },
];
