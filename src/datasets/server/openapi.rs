//! `GET /api/openapi.json`: describes the API of the service. Needs no key.
//!
//! Operations are described at their handlers, and bodies at their types in `wire`. Descriptions that
//! several operations share are here.

use std::sync::LazyLock;

use accounts::server::{COOKIE, openapi};
use axum::response::Response;
use model::row::Fill;
use serde_json::{Value, json};
use strum::VariantNames as _;
use utoipa::openapi::schema::{Object, ObjectBuilder, Type};
use utoipa::{IntoParams, ToSchema};
use web::openapi::{About, Description, describe};
use wire::datasets::{BucketBody, CreateDataset, DatasetBody, Envelope, RawRowBody};
use wire::error::{DatasetsError, KeyError};
use wire::paths;

/// An example of each body, keyed by the name of its schema and based on the examples of the document.
const EXAMPLES: &str = include_str!("../../../assets/examples/datasets.json");

/// Introduction of the API description.
const ABOUT: &str = "Time series behind tags: discover datasets, read rows or buckets page by page, \
    download a range in one response, follow new rows as server-sent events, and insert rows. \
    Inserted rows are durable and in every bucket before the response.\n\n\
    Send the API key in the header `X-API-Key`, or as `Authorization: Bearer`. A dataset that a key \
    cannot see is treated as missing. Timestamps are RFC 3339 and UTC. Every list is an envelope \
    whose `next` is the address of the following page, and null at the end of the data. `count` \
    does not indicate the end.";

/// Groups of operations, in the order in which the description lists them.
const GROUPS: [(&str, &str); 7] = [
    ("datasets", "Datasets, and access to them."),
    ("rows", "Reading rows and buckets."),
    ("producing", "Creating datasets, inserting rows, and changing either."),
    openapi::GROUPS[0],
    openapi::GROUPS[1],
    openapi::GROUPS[2],
    ("service", "State and description of the service."),
];

/// Description of the service, rendered once.
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
    // The schema does not require `dataset` in the body, since the query or a name can replace it.
    let insert = &mut document["components"]["schemas"]["BulkInsert"];
    insert["required"] = json!(["rows"]);
    insert["properties"]["dataset"]["type"] = json!(["integer", "null"]);
    let description = "Name of the dataset, in place of its id.";
    insert["properties"]["dataset_name"] =
        json!({"type": ["string", "null"], "description": description});
    document
}

/// Describes this API, as a document.
#[utoipa::path(get, path = paths::OPENAPI, operation_id = "openapi", tag = "service",
    security(()), responses((status = 200, description = "An OpenAPI document", body = Object)))]
pub(super) async fn get() -> Response {
    DESCRIPTION.document()
}

/// Dataset of a query.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct WhichDataset {
    /// The dataset's number. Either this or `dataset_name` is required, not both.
    #[param(minimum = 1)]
    dataset: Option<i64>,
    /// The dataset's name.
    #[param(min_length = 1)]
    dataset_name: Option<String>,
}

/// Bounds of a query.
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

/// Resolution of a query.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct AtResolution {
    /// `raw` for rows as inserted, or the length of buckets, from `1s` to `30d`. Buckets are exact after
    /// every insert. Those of `5m`, `15m`, `1h`, `4h` and `1d` are stored. Others are computed from the
    /// longest of `1d`, `1h` and `5m` that divides them, else from the rows that are still stored, of
    /// which a request can read five million. A row that lacks some prices counts with others of its
    /// prices in their place.
    #[param(pattern = "^(raw|[0-9]+[smhd])$", default = "raw")]
    resolution: Option<String>,
}

/// Columns of a query.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct InColumns {
    /// Names of columns, separated by commas, such as `close,volume`. Only their values are
    /// returned, next to the timestamps. All columns by default. Write a comma within a name as
    /// `%2C`, and a percent sign as `%25`, before you escape the query as usual, so that `%252C` is
    /// sent for a comma.
    columns: Option<String>,
}

/// Additions to buckets.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct InExtras {
    #[param(schema_with = fills)]
    fill: Option<String>,
    /// Adds `complete` to each bucket: true if its end is not later than the service's clock.
    #[param(default = false)]
    complete: Option<bool>,
    /// Name of a time zone, such as `Europe/Berlin`. Buckets of whole days begin at midnight in this
    /// zone, so that a day can have 23 or 25 hours. They are computed from the stored buckets of `15m`,
    /// each of which counts for the day of its start. Cannot be combined with `fill`. UTC by default.
    time_zone: Option<String>,
}

fn fills() -> Object {
    let about = "Inserts a bucket at each step without rows, from the first to the last bucket with \
        rows in the range, with a volume and a count of 0. Steps before and after these are not \
        filled. `none` inserts no buckets, `null` has no prices, `previous` has the previous close \
        as all four prices, and `linear` the value between the closes before and after the gap. \
        `count`, `limit` and `offset` include these buckets.";
    one_of(Fill::VARIANTS, about)
}

/// Commit that the caller has seen.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Header)]
#[expect(dead_code, reason = "describes what `Seen` parses")]
pub(super) struct SeenCommit {
    /// The `X-Revision` of an earlier response for the dataset, whose commit this response will
    /// include. A read-only service that does not have it yet waits briefly, then responds 503 with
    /// `Retry-After`.
    #[param(rename = "X-Revision", minimum = 0, format = "uint64")]
    revision: Option<u64>,
}

/// Part of a listing.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what `Params` parses")]
pub(super) struct PageOf {
    /// Maximum number of results. A limit above 10 000 is lowered to that.
    #[param(minimum = 1, default = 250)]
    limit: Option<u64>,
    /// Number of results to skip.
    #[param(minimum = 0, default = 0)]
    offset: Option<u64>,
}

/// Key of a caller that cannot send headers.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "describes what the gate parses")]
pub(super) struct KeyInQuery {
    /// The key, for callers that cannot send headers: a browser's `EventSource`, or polars.
    #[param(pattern = "^UP-[0-9a-f]{24}$")]
    api_key: Option<String>,
}

/// Dataset of a path.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what the path holds")]
pub(super) struct DatasetNumber {
    /// The dataset's number.
    #[param(minimum = 1)]
    id: i64,
}

/// Tag of a path.
#[derive(Debug, IntoParams)]
#[into_params(parameter_in = Path)]
#[expect(dead_code, reason = "describes what the path holds")]
pub(super) struct NamedTag {
    /// The tag's name.
    #[param(min_length = 1)]
    tag_name: String,
}

/// Returns the schema of a text with a fixed set of values, the first of which is the default. The
/// description `about` is part of the schema, since utoipa ignores the comment of a parameter with a
/// custom schema.
pub(super) fn one_of(texts: &[&str], about: &str) -> Object {
    let default = texts.first().map(|first| json!(first));
    ObjectBuilder::new()
        .schema_type(Type::String)
        .enum_values(Some(texts.iter().copied()))
        .default(default)
        .description(Some(about))
        .build()
}

/// Rows if the resolution is `raw`, buckets otherwise.
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

/// A dataset to be created, or several datasets, of which all are created or none.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes bodies that differ in their first byte")]
pub(super) enum CreateDatasets {
    /// The dataset of an object.
    One(CreateDataset),
    /// Several datasets: all are created, or none.
    Several(Vec<CreateDataset>),
}

/// Responses to the creation of datasets.
#[derive(Debug, ToSchema)]
#[serde(untagged)]
#[expect(dead_code, reason = "describes what two responses are")]
pub(super) enum CreatedDatasets {
    /// Response to an object.
    One(DatasetBody),
    /// Response to a list.
    Several(Envelope<DatasetBody>),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_of_the_api_is_described() {
        assert_eq!(web::openapi::find_faults(&document()), Vec::<String>::new());
    }
}
