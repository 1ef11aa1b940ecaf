//! The operations that read topics and their windows, as the chain writes them.

use web::openapi::{Operation, Parameter, part, query};
use wire::paths::{
    self,
    emissions::{whitelist as who, windows as of},
};

use super::{ADDRESS, HEIGHT, TOPIC};

/// Query parameter: the worker's address.
const WORKER: Parameter = part("address", ADDRESS, "The worker's address.");

/// Who is asked about.
const ASKED: Parameter = query(
    "address",
    r#"{"type":"string"}"#,
    "An address, to learn whether it took part and may; nobody where it is empty.",
);

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 23] = [
    asks!(
        "windows",
        of::PARAMS,
        "params",
        "The chain's parameters by name.",
        "Those that this network takes are its own, the others are as on the chain.",
        [],
        "Params"
    ),
    asks!(
        "windows",
        paths::NEXT_TOPIC_ID,
        "next_topic_id",
        "The number that the next topic will get.",
        "",
        [],
        "NextTopicId"
    ),
    asks!(
        "windows",
        paths::TOPIC,
        "topic",
        "A topic's settings.",
        "Nothing is staked or paid here: the weight is 1 where epochs open and 0 where not.",
        [TOPIC],
        "TopicResponse"
    ),
    asks!(
        "windows",
        of::TOPIC_EXISTS,
        "topic_exists",
        "Whether there is such a topic.",
        "",
        [TOPIC],
        "TopicExists"
    ),
    asks!(
        "windows",
        of::IS_TOPIC_ACTIVE,
        "is_topic_active",
        "Whether a topic's epochs open.",
        "",
        [TOPIC],
        "IsTopicActive"
    ),
    asks!(
        "windows",
        of::ACTIVE_TOPICS,
        "active_topics_at_block",
        "The topics whose epochs open now.",
        "What was at other heights is not kept: every height gives the same answer.",
        [HEIGHT],
        "ActiveTopics"
    ),
    asks!(
        "windows",
        of::NEXT_CHURNING_BLOCK,
        "next_churning_block_by_topic_id",
        "The height at which a topic's next epoch opens.",
        "",
        [TOPIC],
        "NextChurningBlock"
    ),
    asks!(
        "windows",
        of::IS_WORKER_NONCE_UNFULFILLED,
        "is_worker_nonce_unfulfilled",
        "Whether an epoch is open.",
        "",
        [TOPIC, HEIGHT],
        "IsWorkerNonceUnfulfilled"
    ),
    asks!(
        "windows",
        of::IS_REPUTER_NONCE_UNFULFILLED,
        "is_reputer_nonce_unfulfilled",
        "Whether an epoch has closed and is still to be learned from.",
        "",
        [TOPIC, HEIGHT],
        "IsReputerNonceUnfulfilled"
    ),
    asks!(
        "windows",
        of::UNFULFILLED_WORKER_NONCES,
        "unfulfilled_worker_nonces",
        "The epochs of a topic that are open.",
        "",
        [TOPIC],
        "Nonces"
    ),
    asks!(
        "windows",
        of::UNFULFILLED_REPUTER_NONCES,
        "unfulfilled_reputer_nonces",
        "The epochs of a topic that are to be learned from.",
        "",
        [TOPIC],
        "ReputerNonces"
    ),
    asks!(
        "windows",
        of::OPEN_WORKER_WINDOWS,
        "open_worker_submission_windows",
        "The epochs of a topic that take submissions now.",
        "",
        [TOPIC],
        "Nonces"
    ),
    asks!(
        "windows",
        of::OPEN_REPUTER_WINDOWS,
        "open_reputer_submission_windows",
        "The epochs of a topic whose truth is asked for now.",
        "",
        [TOPIC],
        "ReputerNonces"
    ),
    asks!(
        "windows",
        of::WORKER_WINDOW_STATUS,
        "worker_submission_window_status",
        "Where a topic's workers stand: this window and the next.",
        "",
        [TOPIC, ASKED],
        "WindowStatus"
    ),
    asks!(
        "windows",
        of::REPUTER_WINDOW_STATUS,
        "reputer_submission_window_status",
        "Where a topic's reputer stands: this window and the next.",
        "",
        [TOPIC, ASKED],
        "WindowStatus"
    ),
    asks!(
        "windows",
        of::LAST_WORKER_COMMIT,
        "topic_last_worker_commit_info",
        "The newest epoch of a topic that closed.",
        "",
        [TOPIC],
        "LastCommit"
    ),
    asks!(
        "windows",
        of::LAST_REPUTER_COMMIT,
        "topic_last_reputer_commit_info",
        "The newest epoch of a topic that was learned from.",
        "",
        [TOPIC],
        "LastCommit"
    ),
    asks!(
        "windows",
        of::REWARD_NONCE,
        "topic_reward_nonce",
        "The nonce that a topic learned from last; 0 before the first.",
        "",
        [TOPIC],
        "RewardNonce"
    ),
    asks!(
        "windows",
        who::IS_ENABLED,
        "is_topic_worker_whitelist_enabled",
        "Whether a topic takes submissions of the workers on its whitelist alone.",
        "",
        [TOPIC],
        "IsTopicWorkerWhitelistEnabled"
    ),
    asks!(
        "windows",
        who::IS_WHITELISTED,
        "is_whitelisted_topic_worker",
        "Whether a worker is on a topic's whitelist.",
        "",
        [TOPIC, WORKER],
        "IsWhitelistedTopicWorker"
    ),
    asks!(
        "windows",
        who::CAN_SUBMIT,
        "can_submit_worker_payload",
        "Whether a topic takes submissions of a worker.",
        "It does if the worker is on its whitelist, or that is not enabled.",
        [TOPIC, WORKER],
        "CanSubmitWorkerPayload"
    ),
    asks!(
        "windows",
        who::ACTIVE_INFERERS,
        "active_inferers",
        "The active inferers of the newest epoch that closed.",
        "None before the first.",
        [TOPIC],
        "ActiveInferers"
    ),
    asks!(
        "windows",
        who::ACTIVE_FORECASTERS,
        "active_forecasters",
        "The active forecasters of the newest epoch that closed.",
        "None before the first. Those that every topic has built in are among them.",
        [TOPIC],
        "ActiveForecasters"
    ),
];
