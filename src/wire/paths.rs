//! All paths of the services. `{…}` marks a path parameter.

pub use crate::accounts::paths::*;
pub use crate::datasets::paths::*;
pub use crate::executions::paths::*;
pub use crate::functions::paths::*;
pub use crate::inference::emissions;
pub use crate::inference::paths::*;
pub use crate::nodes::paths::*;

/// Prometheus metrics of heads, dataset services and inference services.
pub const METRICS: &str = "/metrics";
/// `OpenAPI` description of the dataset or inference service. Needs no key.
pub const OPENAPI: &str = "/api/openapi.json";
/// Description of the service as a page. Needs no key.
pub const DOCS: &str = "/api/docs/";
/// Links to the pages of a service. Needs no key.
pub const ROOT: &str = "/";
/// Health of a service. Needs no key.
pub const HEALTH: &str = "/health";

/// Header with an API key. Header names are case-insensitive.
pub const API_KEY_HEADER: &str = "x-api-key";

/// Header with a client-chosen name of a request, for safe retries.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// Header with the id of the last received event of a stream.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// Header with the number of rows in a download, if known in advance. An extension.
pub const ROW_COUNT_HEADER: &str = "x-row-count";

/// Header with the last commit of the dataset included in a response. A client that sends it back
/// gets responses that include this commit, from any replica. An extension.
pub const REVISION_HEADER: &str = "x-revision";

/// Supported versions of the emissions API, newest first: the versions of the test network and of the
/// main network.
pub const EMISSIONS_VERSIONS: [&str; 2] = [EMISSIONS_NEW, EMISSIONS_OLD];

/// Version with a value for each label.
pub const EMISSIONS_NEW: &str = "v10";

/// Version with a single number for each quantity.
pub const EMISSIONS_OLD: &str = "v9";
