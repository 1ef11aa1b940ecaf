//! Every path the services answer: each room's, and those that several answer. `{…}` marks a part
//! that the request fills in.

pub use crate::{
    accounts::paths::*,
    datasets::paths::*,
    executions::paths::*,
    functions::paths::*,
    inference::{emissions, paths::*},
    nodes::paths::*,
};

/// Counts what happened, as Prometheus text, at heads, dataset services and inference services.
pub const METRICS: &str = "/metrics";
/// Describes the dataset or the inference service, as `OpenAPI`. Needs no key.
pub const OPENAPI: &str = "/api/openapi.json";
/// The same as a page for people. Needs no key.
pub const DOCS: &str = "/api/docs/";
/// Links to what a service has for people. Needs no key.
pub const ROOT: &str = "/";
/// Says that a service serves. Needs no key.
pub const HEALTH: &str = "/health";

/// The header that carries an API key. Header names are case-insensitive.
pub const API_KEY_HEADER: &str = "x-api-key";

/// The header that names a request, so that it can be sent again.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// The header that carries the last event of a stream that its reader took.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// The header that tells how many rows a download has, where that is known beforehand. Ours.
pub const ROW_COUNT_HEADER: &str = "x-row-count";

/// The header that tells the last commit of the dataset that a response includes. A reader sends it
/// back so that what it is answered next, by whichever service, includes that commit, too. Ours.
pub const REVISION_HEADER: &str = "x-revision";

/// The versions of the emissions API that are served, the newest first: that of the test network,
/// and that of the main network.
pub const EMISSIONS_VERSIONS: [&str; 2] = [EMISSIONS_NEW, EMISSIONS_OLD];

/// The version with a value for each label.
pub const EMISSIONS_NEW: &str = "v10";

/// The version with one number for each quantity.
pub const EMISSIONS_OLD: &str = "v9";
