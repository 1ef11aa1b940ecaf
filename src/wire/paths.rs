//! All paths of the services and the names of their headers. `{…}` marks a path parameter.

pub use crate::accounts::paths::*;
pub use crate::datasets::paths::*;
pub use crate::executions::paths::*;
pub use crate::functions::paths::*;
pub use crate::inference::paths::*;
pub use crate::nodes::paths::*;

/// Prometheus metrics of a head, dataset service or inference service.
pub const METRICS: &str = "/metrics";
/// `OpenAPI` description of the dataset or inference service. Needs no key.
pub const OPENAPI: &str = "/api/openapi.json";
/// The same description as an HTML page. Needs no key.
pub const DOCS: &str = "/api/docs/";
/// Links to the pages of a service. Needs no key.
pub const ROOT: &str = "/";
/// Health of a service. Needs no key.
pub const HEALTH: &str = "/health";

/// Header with an API key. Header names are case-insensitive.
pub const API_KEY_HEADER: &str = "x-api-key";

/// Header with a name that the client chose for a request, so that a retry has no additional effect.
pub const IDEMPOTENCY_KEY_HEADER: &str = "idempotency-key";

/// Header with the id of the last received event of a stream.
pub const LAST_EVENT_ID_HEADER: &str = "last-event-id";

/// Header with the number of rows in a download. The header is omitted if the number is not known in
/// advance. An extension of the documented API.
pub const ROW_COUNT_HEADER: &str = "x-row-count";

/// Header with the latest revision of a dataset that a response fully includes. If a client sends the
/// header in later requests, responses from any replica include at least this revision. An extension of
/// the documented API.
pub const REVISION_HEADER: &str = "x-revision";

/// Supported versions of the emissions API: the version of the chain's test network, then the version of
/// its main network.
pub const EMISSIONS_VERSIONS: [&str; 2] = [EMISSIONS_NEW, EMISSIONS_OLD];

/// Version in which a bundle has a value for each label.
pub const EMISSIONS_NEW: &str = "v10";

/// Version in which a bundle has a single number for each value.
pub const EMISSIONS_OLD: &str = "v9";
