//! Every path the services answer, once. `{…}` marks a part that the request fills in.

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
/// Counts what happened, as Prometheus text.
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
/// Lists the visible datasets; creates one.
pub const DATASETS: &str = "/api/datasets/";
/// One dataset.
pub const DATASET: &str = "/api/datasets/{id}/";
/// Filters the visible datasets by one metadata field.
pub const DATASETS_SEARCH: &str = "/api/datasets/search/";
/// Lists a dataset's tags; adds one.
pub const DATASET_TAGS: &str = "/api/datasets/{id}/tags/";
/// Lists a dataset's columns; adds one.
pub const COLUMNS: &str = "/api/columns/";
/// Reads rows or buckets, page by page.
pub const ROWS: &str = "/api/rows/";
/// Appends rows.
pub const ROWS_BULK_INSERT: &str = "/api/rows/bulk_insert/";
/// Reads a whole range in one answer.
pub const ROWS_BULK_DOWNLOAD: &str = "/api/rows/bulk_download/";
/// Reads the newest rows as NDJSON.
pub const ROWS_LIVE: &str = "/api/rows/live/";
/// Follows new rows as server-sent events.
pub const ROWS_STREAM: &str = "/api/rows/stream/";
/// Tells what a key may do with a dataset.
pub const ACCESS_CHECK: &str = "/api/access/check/";
/// Says that a service serves. Needs no key.
pub const HEALTH: &str = "/health";

/// The newest bundle of a topic (document 3).
pub const LATEST_NETWORK_INFERENCES: &str =
    "/emissions/{version}/latest_network_inferences/{topic_id}";
/// A topic's settings.
pub const TOPIC: &str = "/emissions/{version}/topics/{topic_id}";
/// The number the next topic will get: one more than there are topics.
pub const NEXT_TOPIC_ID: &str = "/emissions/{version}/next_topic_id";
/// Every topic with its clock and its actors. Ours.
pub const TOPICS: &str = "/api/v1/topics";
/// A topic's newest past epochs, oldest first; `?limit=` of them. Ours.
pub const TOPIC_HISTORY: &str = "/api/v1/topics/{topic_id}/history";

/// The header that carries an API key. Header names are case-insensitive.
pub const API_KEY_HEADER: &str = "x-api-key";

/// The versions of the emissions API that are served.
pub const EMISSIONS_VERSIONS: [&str; 1] = ["v10"];
