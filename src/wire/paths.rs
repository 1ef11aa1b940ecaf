//! Every path the services answer, once. `{…}` marks a part that the request fills in.

pub mod emissions;

/// Runs a function on nodes of the cluster (document 1).
pub const FUNCTIONS_EXECUTE: &str = "/api/v1/functions/execute";
/// Has the nodes of a group install a function.
pub const FUNCTIONS_INSTALL: &str = "/api/v1/functions/install";
/// The answer to an earlier execution.
pub const FUNCTIONS_RESULT: &str = "/api/v1/functions/requests/result";
/// Lists the executions a head remembers, the newest first; `?limit=` of them.
pub const EXECUTIONS: &str = "/api/v1/executions";
/// One execution; deleting it cancels it.
pub const EXECUTION: &str = "/api/v1/executions/{id}";
/// Follows what happens in a cluster, as server-sent events.
pub const EVENTS: &str = "/api/v1/events";
/// Counts what happened, as Prometheus text. A head's and the dataset service's.
pub const METRICS: &str = "/metrics";
/// Describes a head's REST API, as `OpenAPI`.
pub const HEAD_OPENAPI: &str = "/api/v1/openapi.json";
/// Lists the nodes a head knows, itself first.
pub const NODES: &str = "/api/v1/nodes";
/// Lists the functions a head holds; gives it one more.
pub const FUNCTIONS: &str = "/api/v1/functions";
/// One function that a head holds; deleting it has the head forget it.
pub const FUNCTION: &str = "/api/v1/functions/{id}";
/// Says that a head serves.
pub const HEAD_HEALTH: &str = "/api/v1/health";

/// Acquires a tag (document 2).
pub const TAGS_ACQUIRE: &str = "/api/tags/acquire/";
/// Lists all tags.
pub const TAGS: &str = "/api/tags/";
/// Lists the keys that hold one of the caller's tags; grants it to a key.
pub const TAG_HOLDERS: &str = "/api/tags/{tag_name}/holders/";
/// One key that holds a tag; deleting it takes the tag away.
pub const TAG_HOLDER: &str = "/api/tags/{tag_name}/holders/{key}/";
/// Lists the visible datasets; creates one, or several.
pub const DATASETS: &str = "/api/datasets/";
/// One dataset; changes and deletes it.
pub const DATASET: &str = "/api/datasets/{id}/";
/// Filters the visible datasets by one metadata field.
pub const DATASETS_SEARCH: &str = "/api/datasets/search/";
/// Lists a dataset's tags; adds one.
pub const DATASET_TAGS: &str = "/api/datasets/{id}/tags/";
/// One tag of a dataset; deleting it takes it away.
pub const DATASET_TAG: &str = "/api/datasets/{id}/tags/{tag_name}/";
/// Lists a dataset's columns; adds one.
pub const COLUMNS: &str = "/api/columns/";
/// Reads rows or buckets, page by page; deletes rows.
pub const ROWS: &str = "/api/rows/";
/// Appends rows; those at existing timestamps are replaced.
pub const ROWS_BULK_INSERT: &str = "/api/rows/bulk_insert/";
/// Reads a whole range in one answer.
pub const ROWS_BULK_DOWNLOAD: &str = "/api/rows/bulk_download/";
/// Reads the newest rows as NDJSON.
pub const ROWS_LIVE: &str = "/api/rows/live/";
/// Follows new rows as server-sent events.
pub const ROWS_STREAM: &str = "/api/rows/stream/";
/// Tells what a key may do with a dataset.
pub const ACCESS_CHECK: &str = "/api/access/check/";
/// Describes the dataset or the inference service, as `OpenAPI`. Needs no key.
pub const OPENAPI: &str = "/api/openapi.json";
/// The same as a page for people. Needs no key.
pub const DOCS: &str = "/api/docs/";
/// Links to what a service has for people. Needs no key.
pub const ROOT: &str = "/";
/// Says that a service serves. Needs no key.
pub const HEALTH: &str = "/health";

/// Signs up: makes an account, and logs it in. Ours, as all of accounts.
pub const ACCOUNTS_SIGN_UP: &str = "/api/accounts/sign_up";
/// Logs in: begins a session, whose cookie the other paths of accounts want.
pub const ACCOUNTS_LOG_IN: &str = "/api/accounts/log_in";
/// Logs out: ends the session.
pub const ACCOUNTS_LOG_OUT: &str = "/api/accounts/log_out";
/// The account that is logged in; deleting it revokes its keys.
pub const ACCOUNTS_ME: &str = "/api/accounts/me";
/// Changes the password, and ends every other session.
pub const ACCOUNTS_PASSWORD: &str = "/api/accounts/password";
/// Lists the account's sessions; deleting ends all but the one that asks.
pub const ACCOUNTS_SESSIONS: &str = "/api/accounts/sessions";
/// One session; deleting ends it.
pub const ACCOUNTS_SESSION: &str = "/api/accounts/sessions/{id}";
/// Lists the account's keys; creates one.
pub const ACCOUNTS_KEYS: &str = "/api/accounts/keys";
/// One key: gives it another name; deleting revokes it.
pub const ACCOUNTS_KEY: &str = "/api/accounts/keys/{id}";
/// Gives a key a new secret.
pub const ACCOUNTS_KEY_RENEW: &str = "/api/accounts/keys/{id}/renew";
/// Tells a service of another machine what a key is good for. Wants the operator's token.
pub const ACCOUNTS_VERIFY: &str = "/api/accounts/verify";
/// Describes the paths of accounts, as `OpenAPI`.
pub const ACCOUNTS_OPENAPI: &str = "/api/accounts/openapi.json";
/// Shows the paths of accounts as a page for people. Needs no session.
pub const ACCOUNTS_DOCS: &str = "/api/accounts/docs/";
/// The page for accounts and keys.
pub const PORTAL: &str = "/portal";
/// What the page looks like.
pub const PORTAL_STYLE: &str = "/portal/style.css";
/// What the page does.
pub const PORTAL_SCRIPT: &str = "/portal/script.js";

/// The newest bundle of a topic (document 3).
pub const LATEST_NETWORK_INFERENCES: &str =
    "/emissions/{version}/latest_network_inferences/{topic_id}";
/// A topic's settings.
pub const TOPIC: &str = "/emissions/{version}/topics/{topic_id}";
/// The number the next topic will get: one more than there are topics.
pub const NEXT_TOPIC_ID: &str = "/emissions/{version}/next_topic_id";
/// A topic's past bundles; `?from=&to=&limit=`. Ours.
pub const NETWORK_INFERENCES: &str = "/emissions/{version}/network_inferences/{topic_id}";
/// Every topic with its clock and its actors; creates one. Ours, as all that follow.
pub const TOPICS: &str = "/api/v1/topics";
/// A topic's settings, to replace.
pub const TOPIC_SETTINGS: &str = "/api/v1/topics/{topic_id}";
/// Whether a topic's epochs open, to change.
pub const TOPIC_ACTIVE: &str = "/api/v1/topics/{topic_id}/active";
/// The account that signs values for contracts.
pub const SIGNER: &str = "/api/v1/signer";
/// Whether a topic works, and what it keeps.
pub const TOPIC_HEALTH: &str = "/api/v1/topics/{topic_id}/health";
/// Has a topic learn again from past epochs.
pub const TOPIC_RELEARN: &str = "/api/v1/topics/{topic_id}/relearn";
/// One worker of a topic's whitelist, to add or to take away.
pub const TOPIC_WHITELISTED: &str = "/api/v1/topics/{topic_id}/whitelist/{worker}";
/// Takes a worker's payload for an epoch.
pub const TOPIC_SUBMISSIONS: &str = "/api/v1/topics/{topic_id}/submissions";
/// The newest bundle with weights and confidence intervals.
pub const TOPIC_LATEST: &str = "/api/v1/topics/{topic_id}/latest";
/// One number of the newest bundle; `?label=` on a topic with several.
pub const TOPIC_VALUE: &str = "/api/v1/topics/{topic_id}/value";
/// Follows new bundles, as server-sent events.
pub const TOPIC_STREAM: &str = "/api/v1/topics/{topic_id}/stream";
/// One past epoch with all that led to it and came of it.
pub const TOPIC_EPOCH: &str = "/api/v1/topics/{topic_id}/epochs/{nonce}";
/// A topic's newest value, signed for the contract on a chain; `?allora_topic_id=`.
pub const CONSUMER: &str = "/v2/allora/consumer/{chain_id}";
/// A price, signed likewise.
pub const CONSUMER_PRICE: &str = "/v2/allora/consumer/price/{chain_id}/{asset}/{timeframe}";
/// Topics, page by page; `?continuation_token=`.
pub const CONSUMER_TOPICS: &str = "/v2/allora/{network}/topics";
/// A topic's newest past epochs, oldest first; `?limit=` of them.
pub const TOPIC_HISTORY: &str = "/api/v1/topics/{topic_id}/history";
/// A topic's actors by their mean loss, and the losses of its values; `?epochs=` to average.
pub const TOPIC_LEADERBOARD: &str = "/api/v1/topics/{topic_id}/leaderboard";

/// The header that carries an API key. Header names are case-insensitive.
pub const API_KEY_HEADER: &str = "x-api-key";

/// The header that carries the last event of a stream that its reader took.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// The header that tells how many rows a download has, where that is known beforehand. Ours.
pub const ROW_COUNT_HEADER: &str = "x-row-count";

/// The versions of the emissions API that are served, the newest first: that of the test network,
/// and that of the main network.
pub const EMISSIONS_VERSIONS: [&str; 2] = [EMISSIONS_NEW, EMISSIONS_OLD];

/// The version with a value for each label.
pub const EMISSIONS_NEW: &str = "v10";

/// The version with one number for each quantity.
pub const EMISSIONS_OLD: &str = "v9";
