//! `GET /api/openapi.json`: describes the whole service. Needs no key.
//!
//! Operations are described at their handlers, bodies at their shapes in `wire`; here is what several
//! operations share.

use std::sync::LazyLock;

use accounts::server::{COOKIE, openapi};
use axum::response::Response;
use serde_json::{Value, json};
use utoipa::{
    IntoParams, ToSchema,
    openapi::schema::{Object, ObjectBuilder, Type},
};
use web::openapi::{About, Description, describe};
use wire::{
    datasets::{BucketBody, CreateDataset, DatasetBody, Envelope, RawRowBody},
    error::{DatasetsError, KeyError},
    paths,
};

/// One example of each body, after the documented data, by the name of its schema.
const EXAMPLES: &str = include_str!("../../../assets/examples/datasets.json");

/// The introduction of the description.
const ABOUT: &str = "Time series behind tags: discover datasets, read rows or buckets page by page, \
    download a range in one answer, follow new rows as server-sent events, and insert rows, which are \
    durable and in every bucket before the answer.\n\n\
    Send the API key in the header `X-API-Key`, or as `Authorization: Bearer`. A dataset that a key may not see is to it one that \
    does not exist. Moments are RFC 3339 and UTC. Every list is an envelope whose `next` is the \
    address of the following page, and null at the end of the data; `count` never tells the end.";

/// Groups of operations, in the order of the document.
const GROUPS: [(&str, &str); 7] = [
    ("datasets", "What there is, and who may see it."),
    ("rows", "Reading rows and buckets."),
    ("producing", "Creating datasets, inserting rows, and changing either."),
    openapi::GROUPS[0],
    openapi::GROUPS[1],
    openapi::GROUPS[2],
    ("service", "How the service is."),
];

/// The description as it is served.
pub(super) static DESCRIPTION: LazyLock<Description> =
    LazyLock::new(|| Description::new(&document(), paths::OPENAPI));

fn document() -> Value {
    let mut api = super::open_api().merge(super::keyed_api()).into_openapi();
    api.merge(openapi::operations());
    let about = About {
        title: "Dataset service",
        text: ABOUT,
        groups: &GROUPS,
        security: json!([{"key": []}]),
        session_cookie: COOKIE,
        refusals: &[],
        examples: EXAMPLES,
    };
    let mut document = describe::<DatasetsError, KeyError>(api, &about);
    // The query may name the dataset instead.
    let insert = &mut document["components"]["schemas"]["BulkInsert"];
    insert["required"] = json!(["rows"]);
    insert["properties"]["dataset"]["type"] = json!(["integer", "null"]);
    document
}

/// Describes this API, as a document.
#[utoipa::path(get, path = paths::OPENAPI, operation_id = "openapi", tag = "service",
    security(()), responses((status = 200, description = "An OpenAPI document", body = Object)))]
pub(super) async fn get() -> Response {
    DESCRIPTION.document()
}

/// The dataset that a query names.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct WhichDataset {
    /// The dataset's number. This or `dataset_name` is required.
    #[param(minimum = 1)]
    dataset: Option<i64>,
    /// The dataset's name.
    #[param(min_length = 1)]
    dataset_name: Option<String>,
}

/// The bounds of a query.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct InBounds {
    /// The earliest timestamp, inclusive.
    #[param(format = DateTime)]
    start: Option<String>,
    /// The last timestamp: inclusive for raw rows, exclusive for buckets.
    #[param(format = DateTime)]
    end: Option<String>,
}

/// The resolution of a query.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct AtResolution {
    /// Rows as inserted, or buckets of that length, which are exact after every insert.
    #[param(schema_with = resolutions)]
    resolution: Option<String>,
}

/// What the caller has seen.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what `Seen` parses")]
pub(super) struct SeenCommit {
    /// The `X-Revision` of an earlier response for the dataset: this response includes that commit. A
    /// read-only service that does not have it yet waits briefly, then responds 503 with `Retry-After`.
    #[param(rename = "X-Revision", minimum = 0, format = "uint64")]
    revision: Option<u64>,
}

/// The part of a listing that a query asks for.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct PageOf {
    /// Maximum number of results. A limit above 10 000 is lowered to that.
    #[param(minimum = 1, default = 250)]
    limit: Option<u64>,
    /// How many to pass over first.
    #[param(minimum = 0, default = 0)]
    offset: Option<u64>,
}

/// The key of a caller without headers.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what the gate parses")]
pub(super) struct KeyInQuery {
    /// The key, for callers that send no headers: a browser's `EventSource`, or polars.
    #[param(pattern = "^UP-[0-9a-f]{24}$")]
    api_key: Option<String>,
}

/// The dataset of a path.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what the path holds")]
pub(super) struct DatasetNumber {
    /// The dataset's number.
    #[param(minimum = 1)]
    id: i64,
}

/// The tag of a path.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what the path holds")]
pub(super) struct NamedTag {
    /// The tag's name.
    #[param(min_length = 1)]
    tag_name: String,
}

fn resolutions() -> Object {
    one_of(&["raw", "5m", "15m", "1h", "4h", "1d"])
}

/// One of some texts; the first where it is left out.
pub(super) fn one_of(texts: &[&str]) -> Object {
    let default = texts.first().map(|first| json!(first));
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(texts.iter().copied()))
        .default(default)
        .build()
}

/// Rows where the resolution is `raw`, buckets otherwise.
#[derive(Debug, ToSchema)]
#[schema(as = RowsPage)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what is written by hand")]
pub(super) enum PageBody {
    /// Rows as they were inserted.
    Rows(Envelope<RawRowBody>),
    /// Buckets of the resolution.
    Buckets(Envelope<BucketBody>),
}

/// A dataset to be created, or several, all or none.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes bodies that differ in their first byte")]
pub(super) enum CreateDatasets {
    /// The dataset of an object.
    One(CreateDataset),
    /// Several, all or none.
    Several(Vec<CreateDataset>),
}

/// What was created.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what two responses are")]
pub(super) enum CreatedDatasets {
    /// The one that was asked for.
    One(DatasetBody),
    /// Those of a list.
    Several(Envelope<DatasetBody>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_described() {
        assert_eq!(web::openapi::find_faults(&document()), Vec::<String>::new());
    }
}
