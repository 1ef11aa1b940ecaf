//! The bodies of document 2: datasets, columns, rows, tags, and the events of a stream.

use std::collections::BTreeMap;

use model::{
    dataset::{Column, Dataset, DatasetId, Dtype},
    parse::ParseError,
    row::{Bucket, Value},
    timestamp::Timestamp,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::ToSchema;

/// The paths of datasets; `{…}` marks a part that the request fills in.
pub mod paths {
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
    /// Reads the commits after a revision, once there are any. Ours.
    pub const ROWS_LOG: &str = "/api/rows/log/";
    /// Tells what a key may do with a dataset.
    pub const ACCESS_CHECK: &str = "/api/access/check/";
}

/// The envelope of every list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = Page)]
pub struct Envelope<T> {
    /// How many match in all; −1 or 0 where that is not counted. Never tells the end of the data.
    pub count: i64,
    /// Where the next page is; null at the end of the data.
    pub next: Option<String>,
    /// Where the page before is.
    pub previous: Option<String>,
    /// The items of this page.
    pub results: Vec<T>,
}

/// A dataset as listings show it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DatasetBody {
    /// The dataset's number, unique in the service and never reused.
    pub id: i64,
    /// The dataset's name, unique among its owner's datasets.
    pub name: String,
    /// What it is, for people.
    #[serde(default)]
    pub description: String,
    /// User-defined fields, such as `ticker` or `source`.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// When it was created, RFC 3339 in UTC.
    pub created_at: String,
    /// When it or its newest row last changed, RFC 3339 in UTC.
    pub updated_at: String,
}

/// The body of `POST /api/datasets/`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct CreateDataset {
    /// Its name, unique among its owner's.
    pub name: String,
    /// What it is, for people.
    #[serde(default)]
    pub description: String,
    /// User-defined fields, such as `ticker` or `source`.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
    /// Its columns in their order. More can be added later.
    #[serde(default)]
    pub columns: Vec<CreateColumn>,
    /// Tags whose holders may read it, such as `public`.
    #[serde(default)]
    pub tags: Vec<String>,
}

/// The body of `PATCH /api/datasets/{id}/`: what is not named stays.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct UpdateDataset {
    /// Its new name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Its new description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Metadata fields that get a value, or go where that is null.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub metadata: BTreeMap<String, Option<String>>,
}

/// The body of `PUT /api/datasets/{id}/`: what is not named is empty. Columns and tags stay.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct ReplaceDataset {
    /// The new name, unique among its owner's datasets.
    pub name: String,
    /// What it is, for people.
    #[serde(default)]
    pub description: String,
    /// User-defined fields, such as `ticker` or `source`.
    #[serde(default)]
    pub metadata: BTreeMap<String, String>,
}

/// The body of `POST /api/columns/`, which names its dataset by number or by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AddColumn {
    /// The dataset's number, unless its name is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<i64>,
    /// The dataset's name, where its number is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_name: Option<String>,
    /// The column's name.
    pub name: String,
    /// `float`, `integer`, `string` or `boolean`.
    pub dtype: String,
}

/// The body of `PATCH /api/columns/`, which names its dataset by number or by name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RenameColumn {
    /// The dataset's number, unless its name is given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset: Option<i64>,
    /// The dataset's name, where its number is not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dataset_name: Option<String>,
    /// The column's name.
    pub name: String,
    /// The name that it gets.
    pub new_name: String,
}

/// A column of a dataset to be created.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct CreateColumn {
    /// The column's name, unique in its dataset.
    pub name: String,
    /// `float`, `integer`, `string` or `boolean`.
    pub dtype: String,
}

/// A column of a dataset.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ColumnBody {
    /// The column's number, unique in the service.
    pub id: i64,
    /// The number of the dataset it belongs to.
    pub dataset_id: i64,
    /// The column's name, unique in its dataset.
    pub name: String,
    /// The type of its values.
    pub dtype: String,
    /// When it was added, RFC 3339 in UTC.
    pub created_at: String,
}

/// One value of a row. Absent values are left out, never null.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(untagged, expecting = "a value must be a number, a text, true or false")]
pub enum ValueBody {
    /// True or false.
    Boolean(bool),
    /// A whole number.
    Integer(i64),
    /// Any other number.
    Float(f64),
    /// Text of a string column.
    String(String),
}

/// A raw row of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RawRowBody {
    /// Its number, unique in the service.
    pub id: i64,
    /// The number of the dataset it belongs to.
    pub dataset_id: i64,
    /// The row's timestamp, RFC 3339 in UTC.
    pub timestamp: String,
    /// When the row was stored, RFC 3339 in UTC.
    pub created_at: String,
    /// Column name to value.
    pub values: BTreeMap<String, ValueBody>,
}

/// A bucket of a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BucketBody {
    /// The number of the dataset it belongs to.
    pub dataset_id: i64,
    /// The start of the bucket, RFC 3339.
    pub timestamp: String,
    /// The first value.
    pub open: f64,
    /// The highest value.
    pub high: f64,
    /// The lowest value.
    pub low: f64,
    /// The last value.
    pub close: f64,
    /// The sum of the volumes.
    pub volume: f64,
    /// Data points in the bucket.
    pub count: u64,
}

/// A flat row: a timestamp, and one member for each column that has a value.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct FlatRow {
    /// The row's timestamp, RFC 3339 in UTC.
    pub timestamp: String,
    /// Column name to value.
    #[serde(flatten)]
    pub values: BTreeMap<String, ValueBody>,
}

/// The body of `POST /api/rows/bulk_insert/`.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, ToSchema)]
pub struct BulkInsert {
    /// The number of the dataset to append to.
    pub dataset: i64,
    /// Rows in any order. One at an existing timestamp replaces it.
    pub rows: Vec<InsertRow>,
}

/// The body of `POST /api/rows/bulk_insert/`, its rows not read yet.
#[derive(Debug, Clone, Copy, Deserialize)]
pub struct BulkInsertText<'a> {
    /// The dataset, unless the query names it.
    pub dataset: Option<i64>,
    /// The rows, as they are written.
    #[serde(borrow)]
    pub rows: &'a RawValue,
}

/// A row to be inserted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct InsertRow {
    /// The row's timestamp, RFC 3339 with an offset.
    pub timestamp: String,
    /// Column name to value.
    pub values: BTreeMap<String, ValueBody>,
}

/// The answer to `POST /api/rows/bulk_insert/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BulkInserted {
    /// Rows now stored, those that replaced another included.
    pub inserted: u64,
    /// The number of the commit that stored them, where the request had an `Idempotency-Key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
}

/// The answer to `DELETE /api/rows/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowsDeleted {
    /// Rows that are gone.
    pub deleted: u64,
    /// Five-minute buckets that are gone, also those of rows that are no longer kept.
    #[serde(default)]
    pub buckets: u64,
}

/// The answer to `GET /api/rows/log/`: what commits stored, in their order. With the same bounds it is
/// the same bytes whenever it is read.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct RowLog {
    /// The dataset's number.
    pub dataset_id: i64,
    /// The life of the store, another one after it was restored from a copy. To be sent back, so that
    /// its revisions are not taken for those of another.
    pub era: String,
    /// The commit before the first of these; left out where nothing was asked for but the end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// The last commit: what to ask `after` next.
    pub revision: u64,
    /// Each commit once, without gaps.
    pub commits: Vec<LogCommit>,
}

/// What a commit did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct LogCommit {
    /// Its number in its dataset.
    pub revision: u64,
    /// The rows that it deleted, if it did. A commit that only let go of old rows has neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub deleted: Option<DeletedSpan>,
    /// The rows that it stored, by timestamp: each takes the place of the one with its timestamp.
    pub rows: Vec<FlatRow>,
}

/// Rows that are gone, by timestamp.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct DeletedSpan {
    /// The first timestamp, inclusive, RFC 3339 in UTC.
    pub start: String,
    /// The last timestamp, inclusive, RFC 3339 in UTC.
    pub end: String,
}

/// Where a log is read from after its rows were read again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogPosition {
    /// The dataset's last commit, which rows that are read from now on include.
    pub revision: u64,
    /// The life of the store.
    pub era: String,
}

/// The refusal of commits that are not known any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogGone {
    /// Where to go on, once the rows are read again.
    pub details: LogPosition,
    /// What to do, ending in its kind.
    pub error: String,
}

/// A key that holds a tag; and the body of `POST /api/tags/{tag_name}/holders/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HolderBody {
    /// The key's number, which is no secret.
    pub key: i64,
}

/// A tag, which grants its holders access to datasets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TagBody {
    /// The tag's name, unique among its owner's tags.
    pub name: String,
    /// Whether any key may acquire it by itself.
    #[serde(default)]
    pub is_public: bool,
}

/// The body of `POST /api/tags/acquire/` and `POST /api/datasets/{id}/tags/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TagName {
    /// The name of the tag.
    pub tag_name: String,
}

/// An answer that only says something, such as that of `POST /api/tags/acquire/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct MessageBody {
    /// What was done.
    pub message: String,
}

/// The body of `POST /api/access/check/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessCheck {
    /// The number of the dataset asked about.
    pub dataset_id: i64,
    /// Whether writing is asked about, too.
    #[serde(default)]
    pub require_write: bool,
}

/// The answer to `POST /api/access/check/`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct AccessBody {
    /// Whether the key may do what was asked.
    pub has_access: bool,
    /// Whether the key owns the dataset.
    pub is_owner: bool,
    /// The tags that grant it.
    pub matching_tags: Vec<String>,
}

/// The answer to `GET /health` of the dataset service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct HealthBody {
    /// `healthy`, or `unhealthy` if the store cannot be read or takes no writes.
    pub status: String,
    /// The service's date, RFC 3339 in UTC.
    pub time: String,
    /// `connected`, or `read-only` for a service started with `--read-only`; else `disconnected`, `full`
    /// (the disk has no space, reads continue), or `replaced` (the file was removed or replaced while it was
    /// in use, restart the service), with the prefix `accounts: ` if the accounts are affected.
    pub database: String,
}

/// The `details` of a refused insert. None of its rows is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowRefusals {
    /// Rows that are wrong.
    pub total: usize,
    /// What is wrong with the first of them.
    pub rows: Vec<RowRefusal>,
}

/// The reason for which one row of an insert was refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct RowRefusal {
    /// The row's place in the request, from 0.
    pub row: usize,
    /// The column whose value is wrong, if it is one value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<String>,
    /// What is wrong with it.
    pub reason: String,
}

/// The name of a stream's first event.
pub const EVENT_CONNECTED: &str = "connected";
/// The name of a stream's event that carries a row.
pub const EVENT_DATA: &str = "data";
/// The name of a stream's event that says it is still there.
pub const EVENT_HEARTBEAT: &str = "heartbeat";

/// The name of a stream's event that says that there may be a gap: a reader asked to go on where
/// nobody knows any more what came after.
pub const EVENT_RESET: &str = "reset";

/// The name of a stream's last event, which says why the service ends the stream.
pub const EVENT_END: &str = "end";

/// The data of an `end` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// The number of the dataset that was streamed.
    pub dataset_id: i64,
    /// Why, and what to do, for people.
    pub reason: String,
}

/// The data of a `reset` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reset {
    /// The number of the dataset that is streamed.
    pub dataset_id: i64,
    /// Says what happened, for people.
    pub message: String,
}

/// The data of a `connected` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Connected {
    /// The number of the dataset that is streamed.
    pub dataset_id: i64,
    /// Says what happened, for people.
    pub message: String,
}

/// The data of a `heartbeat` event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Heartbeat {
    /// The service's date, RFC 3339 in UTC.
    pub timestamp: String,
}

impl CreateColumn {
    /// The column `name` of the type `dtype`.
    pub fn new(name: impl Into<String>, dtype: Dtype) -> Self {
        Self { name: name.into(), dtype: dtype.to_string() }
    }
}

impl From<Dataset> for DatasetBody {
    fn from(dataset: Dataset) -> Self {
        Self {
            id: dataset.id.get(),
            name: dataset.name,
            description: dataset.description,
            metadata: dataset.metadata,
            created_at: dataset.created_at.to_string(),
            updated_at: dataset.updated_at.to_string(),
        }
    }
}

impl TryFrom<DatasetBody> for Dataset {
    type Error = ParseError;

    fn try_from(body: DatasetBody) -> Result<Self, Self::Error> {
        Ok(Self {
            id: dataset_id(body.id)?,
            name: body.name,
            description: body.description,
            metadata: body.metadata,
            created_at: body.created_at.parse()?,
            updated_at: body.updated_at.parse()?,
        })
    }
}

impl From<Column> for ColumnBody {
    fn from(column: Column) -> Self {
        Self {
            id: column.id,
            dataset_id: column.dataset_id.get(),
            name: column.name,
            dtype: column.dtype.to_string(),
            created_at: column.created_at.to_string(),
        }
    }
}

impl TryFrom<ColumnBody> for Column {
    type Error = ParseError;

    fn try_from(body: ColumnBody) -> Result<Self, Self::Error> {
        Ok(Self {
            id: body.id,
            dataset_id: dataset_id(body.dataset_id)?,
            name: body.name,
            dtype: body.dtype.parse()?,
            created_at: body.created_at.parse()?,
        })
    }
}

impl From<Value> for ValueBody {
    fn from(value: Value) -> Self {
        match value {
            Value::Float(number) => Self::Float(number),
            Value::Integer(number) => Self::Integer(number),
            Value::String(text) => Self::String(text),
            Value::Boolean(truth) => Self::Boolean(truth),
        }
    }
}

impl From<ValueBody> for Value {
    fn from(body: ValueBody) -> Self {
        match body {
            ValueBody::Float(number) => Self::Float(number),
            ValueBody::Integer(number) => Self::Integer(number),
            ValueBody::String(text) => Self::String(text),
            ValueBody::Boolean(truth) => Self::Boolean(truth),
        }
    }
}

impl TryFrom<BucketBody> for Bucket {
    type Error = ParseError;

    fn try_from(body: BucketBody) -> Result<Self, Self::Error> {
        let BucketBody { timestamp, open, high, low, close, volume, count, .. } = body;
        let timestamp: Timestamp = timestamp.parse()?;
        Ok(Self { timestamp, open, high, low, close, volume, count })
    }
}

fn dataset_id(number: i64) -> Result<DatasetId, ParseError> {
    DatasetId::new(number).map_or_else(|| number.to_string().parse(), Ok)
}

#[cfg(test)]
mod tests;
