//! The operations of our own: the network at a glance, its past, its events, and taking part.

use web::openapi::{Answer, Caller, Content, Operation, Parameter, answer, json_of, part, query};
use wire::paths;

use super::{ADDRESS, MISSING, TOPIC, UNFIT};

/// The answer to who may not.
const DENIED: Answer = answer(
    "403",
    "Code 7: topics are made with an operator's key, and changed by the key that made them",
    &[json_of("InferenceError")],
);

/// The answer to one topic too many.
const TOO_MANY: Answer = answer(
    "409",
    "Code 10: there are as many topics as may be, of this key or in all",
    &[json_of("InferenceError")],
);

/// The answer where the dataset service is away.
const UNCHECKED: Answer = answer(
    "503",
    "Code 14: the dataset service did not answer, so that the dataset cannot be checked",
    &[json_of("InferenceError")],
);

/// The answer with a topic.
const OF_TOPIC: Answer =
    answer("200", "The topic, as the chain writes it", &[json_of("TopicResponse")]);

/// What is left out of settings.
const SETTINGS: &str = "Needed are `metadata`, `dataset`, `column` and `horizon_seconds`; what else is left \
    out is as on most topics of the chain. The dataset, the column and rows less than a horizon apart \
    have to be there. Its truth is the column's value that many seconds after the \
    newest row there was when the epoch opened, looked for once `ground_truth_lag` blocks have passed.";

/// Path parameter: the worker's address.
const WORKER: Parameter = part("worker", ADDRESS, "The worker's address.");

/// Query parameter: the label to read.
const LABEL: Parameter =
    query("label", r#"{"type":"string"}"#, "The label, on a topic with several.");

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 17] = [
    reads(
        paths::TOPICS,
        "list_topics",
        "Every topic with its clock and its actors.",
        &[],
        &[answer("200", "All topics, by number", &[json_of("TopicList")])],
    ),
    reads(
        paths::TOPIC_LATEST,
        "latest",
        "The newest bundle with every array, weights and confidence intervals.",
        &[TOPIC],
        &[answer("200", "The bundle", &[json_of("LatestBody")]), UNFIT, MISSING],
    ),
    reads(
        paths::TOPIC_VALUE,
        "value",
        "One number of the newest bundle, for who wants no array.",
        &[TOPIC, LABEL],
        &[answer("200", "The combined value", &[json_of("ScalarBody")]), UNFIT, MISSING],
    ),
    Operation {
        text: "The newest bundle comes first, then each new one as an event `bundle`, whose id is the \
               nonce and whose data is as `v10` of the newest bundle, with every array. A slow reader \
               skips to the newest. A comment every 15 seconds tells that the line is alive.",
        ..reads(
            paths::TOPIC_STREAM,
            "stream",
            "Follows new bundles of a topic, as server-sent events.",
            &[TOPIC],
            &[
                answer(
                    "200",
                    "Events, without end",
                    &[Content { kind: "text/event-stream", schema: "Text" }],
                ),
                UNFIT,
                MISSING,
            ],
        )
    },
    reads(
        paths::TOPIC_HISTORY,
        "history",
        "A topic's newest past epochs, oldest first, with what came true and what it cost.",
        &[
            TOPIC,
            query(
                "limit",
                r#"{"type":"integer","minimum":1,"maximum":1000,"default":100}"#,
                "How many of them.",
            ),
        ],
        &[answer("200", "Epochs", &[json_of("TopicHistory")]), UNFIT, MISSING],
    ),
    reads(
        paths::TOPIC_LEADERBOARD,
        "leaderboard",
        "A topic's actors by their mean loss, and the losses of its values beside a baseline.",
        &[
            TOPIC,
            query(
                "epochs",
                r#"{"type":"integer","minimum":1,"maximum":500,"default":100}"#,
                "The newest epochs that were learned from to take means of; fewer of a topic with \
                 many actors.",
            ),
        ],
        &[answer("200", "Actors and losses", &[json_of("Leaderboard")]), UNFIT, MISSING],
    ),
    reads(
        paths::TOPIC_EPOCH,
        "epoch",
        "One past epoch with all that led to it and came of it.",
        &[
            TOPIC,
            part(
                "nonce",
                r#"{"type":"integer","format":"uint64","minimum":0}"#,
                "The height at which it opened.",
            ),
        ],
        &[answer("200", "The epoch", &[json_of("EpochBody")]), UNFIT, MISSING],
    ),
    Operation {
        text: "One payload is taken for each address and epoch; what came first stays. The address is \
               that of the key, or of the key's `model`. A value is a decimal of at most 64 \
               characters, up to 1e100, kept as a double. A forecast is of losses, in the unit of the topic's. What is kept \
               counts if its actor is active when the window closes: the best by the moving average of \
               their scores are, as many as the topic has places; actors without a score share a part \
               of these, and those far from all others' values rest.",
        ..writes(
            ["post", paths::TOPIC_SUBMISSIONS, "submit"],
            "Submits an inference, a forecast or both for the epoch that is open. On the answer it is \
             durable.",
            &[TOPIC],
            &[json_of("SubmissionBody")],
            &[
                answer("200", "It is kept", &[json_of("Accepted")]),
                UNFIT,
                answer(
                    "403",
                    "Code 7: the worker is not on the topic's whitelist",
                    &[json_of("InferenceError")],
                ),
                MISSING,
                answer(
                    "409",
                    "Code 6: this worker has submitted for this nonce already; code 10: the epoch has \
                     all it takes, of this account or of all",
                    &[json_of("InferenceError")],
                ),
            ],
        )
    },
    Operation {
        text: SETTINGS,
        ..writes(
            ["post", paths::TOPICS, "create_topic"],
            "Creates a topic, which belongs to the key. Its first epoch opens with the next block.",
            &[],
            &[json_of("TopicSettings")],
            &[OF_TOPIC, UNFIT, DENIED, TOO_MANY, UNCHECKED],
        )
    },
    Operation {
        text: SETTINGS,
        ..writes(
            ["put", paths::TOPIC_SETTINGS, "update_topic"],
            "Replaces all settings of a topic that the key created. Type, arity, unity and case stay.",
            &[TOPIC],
            &[json_of("TopicSettings")],
            &[OF_TOPIC, UNFIT, DENIED, MISSING, UNCHECKED],
        )
    },
    reads(
        paths::SIGNER,
        "signer",
        "The account that signs values for contracts.",
        &[],
        &[answer("200", "The account", &[json_of("SignerBody")])],
    ),
    reads(
        paths::TOPIC_HEALTH,
        "topic_health",
        "Whether a topic works, why not, and what it keeps of its past.",
        &[TOPIC],
        &[answer("200", "Its health", &[json_of("TopicHealth")]), UNFIT, MISSING],
    ),
    Operation {
        text: "The truth of past epochs is read again from the dataset, and regrets, scores and losses \
               follow from it. Bundles stay as they were served. \
               Epochs that were thinned cannot be learned from again.",
        ..writes(
            ["post", paths::TOPIC_RELEARN, "relearn"],
            "Has a topic that the key created learn again from past epochs, after corrections.",
            &[TOPIC],
            &[json_of("RelearnBody")],
            &[
                answer("200", "What came of it", &[json_of("RelearnedBody")]),
                UNFIT,
                DENIED,
                MISSING,
                answer(
                    "409",
                    "Code 10: not all is kept from there on",
                    &[json_of("InferenceError")],
                ),
                UNCHECKED,
            ],
        )
    },
    Operation {
        text: "Its epochs go with it, and its number is not given to another topic.",
        ..writes(
            ["delete", paths::TOPIC_SETTINGS, "delete_topic"],
            "Deletes a topic that the key created.",
            &[TOPIC],
            &[],
            &[answer("204", "It is gone", &[]), UNFIT, DENIED, MISSING],
        )
    },
    writes(
        ["put", paths::TOPIC_ACTIVE, "set_active"],
        "Has epochs of a topic that the key created open, or not.",
        &[TOPIC],
        &[json_of("TopicActive")],
        &[OF_TOPIC, UNFIT, DENIED, MISSING],
    ),
    writes(
        ["put", paths::TOPIC_WHITELISTED, "add_to_whitelist"],
        "Adds a worker to the whitelist of a topic that the key created.",
        &[TOPIC, WORKER],
        &[],
        &[OF_TOPIC, UNFIT, DENIED, MISSING],
    ),
    writes(
        ["delete", paths::TOPIC_WHITELISTED, "remove_from_whitelist"],
        "Takes a worker off the whitelist of a topic that the key created.",
        &[TOPIC, WORKER],
        &[],
        &[OF_TOPIC, UNFIT, DENIED, MISSING],
    ),
];

/// An operation that reads.
const fn reads(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    parameters: &'static [Parameter],
    answers: &'static [Answer],
) -> Operation {
    Operation {
        method: "get",
        path,
        id,
        group: "network",
        summary,
        text: "",
        parameters,
        body: &[],
        answers,
        caller: Caller::Key,
    }
}

/// An operation that takes part, with its method, path and id.
const fn writes(
    named: [&'static str; 3],
    summary: &'static str,
    parameters: &'static [Parameter],
    body: &'static [Content],
    answers: &'static [Answer],
) -> Operation {
    let [method, path, id] = named;
    Operation {
        method,
        path,
        id,
        group: "taking part",
        summary,
        text: "",
        parameters,
        body,
        answers,
        caller: Caller::Key,
    }
}
