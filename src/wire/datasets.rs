//! Bodies of the dataset service's API: datasets, columns, rows, tags and stream events.

mod conversions;

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// Paths of the dataset service. `{…}` marks a path parameter.
pub mod paths {
    /// Acquires a tag.
    pub const TAGS_ACQUIRE: &str = "/api/tags/acquire/";
    /// Gives up the tags of a name that the key holds.
    pub const TAGS_RELEASE: &str = "/api/tags/release/";
    /// Lists all tags.
    pub const TAGS: &str = "/api/tags/";
    /// Lists the keys that hold a tag, which the caller must own. A `POST` grants the tag to a key.
    pub const TAG_HOLDERS: &str = "/api/tags/{tag_name}/holders/";
    /// One key that holds a tag. A `DELETE` revokes the tag from the key.
    pub const TAG_HOLDER: &str = "/api/tags/{tag_name}/holders/{key}/";
    /// Lists the visible datasets and creates datasets.
    pub const DATASETS: &str = "/api/datasets/";
    /// One dataset, which can be read, changed or deleted.
    pub const DATASET: &str = "/api/datasets/{id}/";
    /// Lists the visible datasets with a given value in a metadata field.
    pub const DATASETS_SEARCH: &str = "/api/datasets/search/";
    /// Counts the rows of a dataset by day.
    pub const DATASET_COVERAGE: &str = "/api/datasets/{id}/coverage/";
    /// Lists a dataset's tags. A `POST` adds a tag.
    pub const DATASET_TAGS: &str = "/api/datasets/{id}/tags/";
    /// One tag of a dataset. A `DELETE` removes the tag from the dataset.
    pub const DATASET_TAG: &str = "/api/datasets/{id}/tags/{tag_name}/";
    /// Lists a dataset's columns. A `POST` adds a column, and a `PATCH` renames a column.
    pub const COLUMNS: &str = "/api/columns/";
    /// Reads rows or buckets page by page. A `DELETE` deletes rows.
    pub const ROWS: &str = "/api/rows/";
    /// Inserts rows. A row with the timestamp of a stored row replaces the stored row.
    pub const ROWS_BULK_INSERT: &str = "/api/rows/bulk_insert/";
    /// Reads a whole range in one response.
    pub const ROWS_BULK_DOWNLOAD: &str = "/api/rows/bulk_download/";
    /// Reads the latest rows as NDJSON.
    pub const ROWS_LIVE: &str = "/api/rows/live/";
    /// Streams new rows as server-sent events.
    pub const ROWS_STREAM: &str = "/api/rows/stream/";
    /// Checks the access of a key to a dataset.
    pub const ACCESS_CHECK: &str = "/api/access/check/";
}

/// Envelope of a page of a list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Page)]
pub struct Envelope<T> {
    /// Total number of items; −1 or 0 if they were not counted. Only `next` tells whether there are
    /// more items.
    pub count: i64,
    /// URL of the next page; null on the last page.
    pub next: Option<String>,
    /// URL of the previous page.
    pub previous: Option<String>,
    /// Items of this page.
    pub results: Vec<T>,
}

/// A dataset in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetBody {
    /// Id of the dataset, unique in the service and never reused.
    pub id: i64,
    /// Name of the dataset, unique among its owner's datasets.
    pub name: String,
    /// Description for people, which can be empty.
    #[serde(default)]
    pub description: String,
    /// User-defined fields, such as `ticker` or `source`.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Creation time, RFC 3339 in UTC.
    pub created_at: String,
    /// Time of the last change to the dataset or its latest row, RFC 3339 in UTC.
    pub updated_at: String,
}

/// Body of `POST /api/datasets/`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateDataset {
    /// Name of the dataset, unique among its owner's datasets.
    pub name: String,
    /// Description for people, which can be empty.
    #[serde(default)]
    pub description: String,
    /// At most 64 user-defined fields, such as `ticker`, with at most 65 536 bytes with the description.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Columns in order. More can be added later.
    #[serde(default)]
    pub columns: Vec<CreateColumn>,
    /// Tags whose holders can read the dataset, such as `public`.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// Body of `PATCH /api/datasets/{id}/`. Omitted fields are not changed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct UpdateDataset {
    /// New name of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// New description of the dataset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Metadata fields to set. A field with the value null is removed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Option<String>>,
}

/// Body of `PUT /api/datasets/{id}/`. Omitted fields are cleared, but not `value_column` in the metadata.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReplaceDataset {
    /// New name, unique among its owner's datasets.
    pub name: String,
    /// Description for people, which can be empty.
    #[serde(default)]
    pub description: String,
    /// User-defined fields, such as `ticker` or `source`.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// Body of `POST /api/columns/`. Either the id or the name of the dataset must be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AddColumn {
    /// Id of the dataset. It can be omitted if the name is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<i64>,
    /// Name of the dataset. It can be omitted if the id is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_name: Option<String>,
    /// Name of the column.
    pub name: String,
    /// `float`, `integer`, `string` or `boolean`.
    pub dtype: String,
}

/// Body of `PATCH /api/columns/`. Either the id or the name of the dataset must be set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenameColumn {
    /// Id of the dataset. It can be omitted if the name is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<i64>,
    /// Name of the dataset. It can be omitted if the id is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_name: Option<String>,
    /// Current name of the column.
    pub name: String,
    /// New name of the column.
    pub new_name: String,
}

/// A column of a new dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct CreateColumn {
    /// Name of the column, unique in its dataset.
    pub name: String,
    /// `float`, `integer`, `string` or `boolean`.
    pub dtype: String,
}

/// A column of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ColumnBody {
    /// Id of the column, unique in the service.
    pub id: i64,
    /// Id of the dataset.
    pub dataset_id: i64,
    /// Name of the column, unique in its dataset.
    pub name: String,
    /// Type of the column's values.
    pub dtype: String,
    /// Creation time, RFC 3339 in UTC.
    pub created_at: String,
}

/// A value in a row. A missing value is omitted instead of null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a value must be a number, a text, true or false")]
pub enum ValueBody {
    /// True or false.
    Boolean(bool),
    /// A value of an integer column.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text of a string column.
    String(String),
}

/// A raw row of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RawRowBody {
    /// Id of the row, unique in the service.
    pub id: i64,
    /// Id of the dataset.
    pub dataset_id: i64,
    /// Timestamp of the row, RFC 3339 in UTC.
    pub timestamp: String,
    /// Time at which the row was stored, RFC 3339 in UTC.
    pub created_at: String,
    /// Values by column name.
    pub values: BTreeMap<String, ValueBody>,
}

/// A bucket on a page. Fields that the request does not select are omitted. If the request has
/// `fill=null`, the prices of a bucket without rows are null.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BucketBody {
    /// Id of the dataset.
    pub dataset_id: i64,
    /// Start of the bucket, RFC 3339.
    pub timestamp: String,
    /// First value in the bucket.
    pub open: Option<f64>,
    /// Highest value in the bucket.
    pub high: Option<f64>,
    /// Lowest value in the bucket.
    pub low: Option<f64>,
    /// Last value in the bucket.
    pub close: Option<f64>,
    /// Sum of the volumes of the rows with a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub volume: Option<f64>,
    /// Number of data points in the bucket: rows with a price.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub count: Option<u64>,
    /// True if the bucket has ended. Only in the response to a request with `complete=true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(nullable = false)]
    pub complete: Option<bool>,
}

/// A flat row: an object with the timestamp and a field for each column that has a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlatRow {
    /// Timestamp of the row, RFC 3339 in UTC.
    pub timestamp: String,
    /// Values by column name.
    #[serde(flatten)]
    pub values: BTreeMap<String, ValueBody>,
}

/// Response to `GET /api/datasets/{id}/coverage/`: the numbers of rows in a range.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CoverageBody {
    /// Id of the dataset.
    pub dataset_id: i64,
    /// Number of rows.
    pub rows: u64,
    /// Timestamp of the first row, RFC 3339 in UTC; null if there are no rows.
    pub first: Option<String>,
    /// Timestamp of the last row, RFC 3339 in UTC; null if there are no rows.
    pub last: Option<String>,
    /// Estimated size of a download of the rows, in bytes.
    pub download_bytes: u64,
    /// Days with rows, oldest first.
    pub days: Vec<DayBody>,
    /// URL of the response with later days; null if there are no later days.
    pub next: Option<String>,
}

/// Number of rows on a day.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DayBody {
    /// Day in UTC, such as `2026-07-30`.
    pub day: String,
    /// Number of rows.
    pub rows: u64,
}

/// Body of `POST /api/rows/bulk_insert/`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BulkInsert {
    /// Id of the dataset to append to.
    pub dataset: i64,
    /// Rows in any order. A row with the timestamp of a stored row replaces the stored row.
    pub rows: Vec<InsertRow>,
}

/// Body of `POST /api/rows/bulk_insert/` before its rows are parsed.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BulkInsertText<'a> {
    /// Id of the dataset. It can be omitted if the name is given, or if the query contains either.
    pub dataset: Option<i64>,
    /// Name of the dataset.
    #[serde(borrow)]
    pub dataset_name: Option<Cow<'a, str>>,
    /// Rows as JSON text.
    #[serde(borrow)]
    pub rows: &'a RawValue,
}

/// A row to insert.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InsertRow {
    /// Timestamp of the row, RFC 3339 with a time zone offset.
    pub timestamp: String,
    /// Values by column name.
    pub values: BTreeMap<String, ValueBody>,
}

/// Response to `POST /api/rows/bulk_insert/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkInserted {
    /// Number of stored rows, including rows that replaced earlier rows.
    pub inserted: u64,
    /// Revision of the commit, if the request had an `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// Response to `DELETE /api/rows/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowsDeleted {
    /// Number of deleted rows.
    pub deleted: u64,
    /// Number of deleted five-minute buckets, including buckets of rows that had already expired.
    #[serde(default)]
    pub buckets: u64,
}

/// A key that holds a tag. Also the body of `POST /api/tags/{tag_name}/holders/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HolderBody {
    /// Id of the key. Unlike the key itself, it is not secret.
    pub key: i64,
}

/// A tag, which grants its holders access to datasets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TagBody {
    /// Name of the tag, unique among its owner's tags.
    pub name: String,
    /// True if any key can acquire the tag.
    #[serde(default)]
    pub is_public: bool,
}

/// Body of `POST /api/tags/acquire/`, `POST /api/tags/release/` and `POST /api/datasets/{id}/tags/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TagName {
    /// Name of the tag.
    pub tag_name: String,
}

/// Response that contains only a message, such as to `POST /api/tags/acquire/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageBody {
    /// Description of the result.
    pub message: String,
}

/// Body of `POST /api/access/check/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccessCheck {
    /// Id of the dataset.
    pub dataset_id: i64,
    /// True to check for write access in addition to read access.
    #[serde(default)]
    pub require_write: bool,
}

/// Response to `POST /api/access/check/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessBody {
    /// True if the key has the requested access.
    pub has_access: bool,
    /// True if the key owns the dataset.
    pub is_owner: bool,
    /// Tags that grant the access.
    pub matching_tags: Vec<String>,
}

/// Response to `GET /health` of the dataset service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthBody {
    /// `healthy`, or `unhealthy` if the store cannot be read or written.
    pub status: String,
    /// Current time of the service, RFC 3339 in UTC.
    pub time: String,
    /// `connected`, or `read-only` if the service was started with `--read-only`. In case of a failure:
    /// `disconnected`, `full` (the disk is full, reads still work), `not writable` or `no privilege` (the
    /// database is read-only, or its user lacks a privilege), `archive missing` or `replaced` (the file
    /// was removed or replaced while in use, restart the service). The prefix `accounts: ` means that the
    /// store of the accounts failed.
    pub database: String,
}

/// The `details` of the error for a rejected insert. None of the rows was stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowRefusals {
    /// Number of invalid rows.
    pub total: usize,
    /// The first invalid rows, each with its problem.
    pub rows: Vec<RowRefusal>,
}

/// Problem of one row in an insert.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowRefusal {
    /// Index of the row in the request, from 0.
    pub row: usize,
    /// Column with the invalid value; omitted if the problem is not a single value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// Reason for the rejection.
    pub reason: String,
}

/// Escapes the name of a column for the parameter `columns`, in which commas separate names.
#[must_use]
pub fn escape_name(name: &str) -> String {
    name.replace('%', "%25").replace(',', "%2C")
}

/// Returns the name of a column from the parameter `columns`.
#[must_use]
pub fn unescape_name(escaped: &str) -> String {
    escaped.replace("%2C", ",").replace("%25", "%")
}

/// Name of the first event of a stream.
pub const EVENT_CONNECTED: &str = "connected";
/// Name of an event with a row.
pub const EVENT_DATA: &str = "data";
/// Name of an event with a row that replaced a stored row, in a stream with changes.
pub const EVENT_CORRECTION: &str = "correction";
/// Name of the event that reports a deletion of rows, in a stream with changes.
pub const EVENT_DELETION: &str = "deletion";
/// Name of the event that keeps a stream alive.
pub const EVENT_HEARTBEAT: &str = "heartbeat";

/// Name of the event for a possible gap: the stream could not resume after the client's last event.
pub const EVENT_RESET: &str = "reset";

/// Name of the last event of a stream. Its data contains the reason why the stream ends.
pub const EVENT_END: &str = "end";

/// Data of an `end` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// Id of the dataset.
    pub dataset_id: i64,
    /// Human-readable reason why the stream ends, and advice.
    pub reason: String,
}

/// Data of a `reset` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// Id of the dataset.
    pub dataset_id: i64,
    /// Explanation of the event for people.
    pub message: String,
}

/// Data of a `deletion` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deletion {
    /// Id of the dataset.
    pub dataset_id: i64,
    /// First deleted timestamp. `None` if all rows up to `end` were deleted.
    pub start: Option<String>,
    /// Last deleted timestamp, inclusive.
    pub end: String,
    /// Revision of the dataset after the deletion.
    pub revision: u64,
}

/// Data of a `connected` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connected {
    /// Id of the dataset.
    pub dataset_id: i64,
    /// Explanation of the event for people.
    pub message: String,
}

/// Data of a `heartbeat` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Heartbeat {
    /// Current time of the service, RFC 3339 in UTC.
    pub timestamp: String,
}

#[cfg(test)]
mod tests;
