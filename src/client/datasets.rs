//! Client of the dataset service: finds datasets, reads rows and buckets, and writes rows.

pub mod catalog;
pub mod download;
pub mod download_file;
pub mod elements;
pub mod insert;
pub mod row_counter;
pub(crate) mod seen_revisions;

use std::collections::BTreeMap;

use model::dataset::{BAR_COLUMNS, Column, Dataset, DatasetId};
use model::page::Limit;
use model::resolution::Resolution;
use model::row::{Bucket, BucketExtras, COMPLETE, Fill, Value};
use model::timestamp::Timestamp;
use serde::de::DeserializeOwned;
use wire::datasets::{
    BucketBody, ColumnBody, CreateDataset, DatasetBody, Envelope, FlatRow, HealthBody, MessageBody,
    RawRowBody, TagName, ValueBody, escape_name,
};
use wire::paths;

use self::seen_revisions::SeenRevisions;
use crate::error::ClientError;
use crate::transport::{Request, Transport, parse};

/// Maximum number of datasets in a page of [`Datasets::list_all`].
const PAGE_DATASETS: usize = 250;

/// A dataset service, or several replicas behind one address. Cheap to clone.
///
/// Every read includes all commits that this client and its clones have already seen, even if a load
/// balancer directs the read to another replica.
#[derive(Debug, Clone)]
pub struct Datasets {
    pub(crate) transport: Transport,
    seen: SeenRevisions,
}

/// Parameters of a list of datasets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DatasetsQuery {
    /// Words to search for in names and descriptions. Empty for all datasets.
    pub search: String,
    /// Maximum number of datasets in the page. `None` for the service's default.
    pub limit: Option<usize>,
    /// Number of datasets to skip.
    pub offset: usize,
}

/// A page of datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetsPage {
    /// Total number of datasets. `None` if the service did not count.
    pub n_datasets: Option<u64>,
    /// Datasets of this page.
    pub datasets: Vec<Dataset>,
    /// True if more datasets follow.
    pub has_more: bool,
}

/// Order in which rows are returned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Oldest row first.
    Ascending,
    /// Latest row first.
    Descending,
}

/// Parameters of a page of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowsQuery {
    /// Dataset whose rows are read.
    pub dataset: DatasetId,
    /// Raw rows, or buckets of this length.
    pub resolution: Resolution,
    /// Lower bound of the timestamps. `None` for the earliest that the service allows.
    pub start: Option<Timestamp>,
    /// Upper bound of the timestamps. `None` for the current time.
    pub end: Option<Timestamp>,
    /// Timestamp after which the page starts in the direction of `order`, exclusive: the value of
    /// [`RowsPage::next`] of the previous page.
    pub after: Option<Timestamp>,
    /// Maximum number of rows.
    pub limit: Limit,
    /// Direction of the rows.
    pub order: Order,
    /// Additions to buckets.
    pub extras: BucketExtras,
}

/// A row with its values by column name.
#[derive(Debug, Clone, PartialEq)]
pub struct NamedRow {
    /// Timestamp, unique within the dataset.
    pub timestamp: Timestamp,
    /// Values by column name, without missing values.
    pub values: BTreeMap<String, Value>,
}

/// Raw rows or buckets.
#[derive(Debug, Clone, PartialEq)]
pub enum Rows {
    /// Rows as they are stored.
    Raw(Vec<NamedRow>),
    /// Buckets of a resolution other than raw.
    Buckets(Vec<Bucket>),
}

/// A page of rows.
#[derive(Debug, Clone, PartialEq)]
pub struct RowsPage {
    /// Rows in the requested order.
    pub rows: Rows,
    /// Value of [`RowsQuery::after`] that selects the next page. `None` on the last page.
    pub next: Option<Timestamp>,
    /// Number of matching rows on all pages. `None` if the service did not count, for example because of
    /// [`RowsQuery::after`].
    pub count: Option<u64>,
}

/// Result of acquiring a tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acquired {
    /// The key acquired the tag with this call.
    Now,
    /// The key already had the tag.
    Already,
}

/// Condition that listed datasets fulfill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DatasetSearch {
    /// The name or the description contains this text. The empty text matches all datasets.
    Text(String),
    /// The metadata contains this field (first) with this value (second).
    Metadata(String, String),
}

impl DatasetSearch {
    /// The search that finds all datasets.
    pub const ALL: Self = Self::Text(String::new());

    /// Returns the search for a metadata field and its value, if given, otherwise for a text.
    #[must_use]
    pub fn new(field: Option<(String, String)>, text: Option<String>) -> Self {
        match field {
            Some((name, value)) => Self::Metadata(name, value),
            None => Self::Text(text.unwrap_or_default()),
        }
    }
}

impl Datasets {
    /// Returns a client for the service at the address of `transport`, which may end in `/api`.
    #[must_use]
    pub fn new(transport: Transport) -> Self {
        Self { transport: transport.strip_segment("api"), seen: SeenRevisions::default() }
    }

    /// Returns the address of the service, without `/api`.
    #[must_use]
    pub fn address(&self) -> &str {
        self.transport.address()
    }

    /// Lists datasets that the key can see. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 401 if the key is not valid, or any error of the connection.
    pub async fn list(&self, query: &DatasetsQuery) -> Result<DatasetsPage, ClientError> {
        let search = Some(&query.search).filter(|search| !search.is_empty());
        let offset = Some(query.offset).filter(|offset| *offset > 0);
        let query = (("search", search), ("limit", query.limit), ("offset", offset));
        datasets_page(self.transport.get(paths::DATASETS).query(&query)).await
    }

    /// Lists datasets with the value `value` in the metadata field `field`, after skipping `offset` of
    /// them. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::list`].
    pub async fn search(
        &self,
        field: &str,
        value: &str,
        offset: usize,
    ) -> Result<DatasetsPage, ClientError> {
        let query = ((field, value), ("offset", Some(offset).filter(|offset| *offset > 0)));
        datasets_page(self.transport.get(paths::DATASETS_SEARCH).query(&query)).await
    }

    /// Lists the datasets that `search` finds, page by page, until there are at least `limit` of them.
    /// Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::list`].
    pub async fn list_all(
        &self,
        search: &DatasetSearch,
        limit: usize,
    ) -> Result<DatasetsPage, ClientError> {
        let mut all = DatasetsPage { datasets: Vec::new(), n_datasets: None, has_more: true };
        while all.has_more && all.datasets.len() < limit {
            let offset = all.datasets.len();
            let page = match search {
                DatasetSearch::Text(search) => {
                    let limit = Some(PAGE_DATASETS.min(limit - offset));
                    self.list(&DatasetsQuery { search: search.clone(), limit, offset }).await?
                }
                DatasetSearch::Metadata(field, value) => self.search(field, value, offset).await?,
            };
            all.has_more = page.has_more && !page.datasets.is_empty();
            all.n_datasets = page.n_datasets.or(all.n_datasets);
            all.datasets.extend(page.datasets);
        }
        Ok(all)
    }

    /// Returns a dataset. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 404 if it does not exist or the key cannot see it.
    pub async fn dataset(&self, id: DatasetId) -> Result<Dataset, ClientError> {
        let path = paths::DATASET.replace("{id}", &id.to_string());
        self.transport.get(&path).json_as::<DatasetBody, _>("a dataset").await
    }

    /// Lists the columns of a dataset in order. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::dataset`].
    pub async fn columns(&self, dataset: DatasetId) -> Result<Vec<Column>, ClientError> {
        let what = "a list of columns";
        let call = self.transport.get(paths::COLUMNS).query(&[("dataset", dataset.get())]);
        let page: Envelope<ColumnBody> = call.json(what).await?;
        convert(page.results, what)
    }

    /// Reads a page of rows or buckets. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the time range exceeds the maximum of the resolution or the key
    /// cannot see the dataset, or any error of the connection.
    pub async fn rows(&self, query: &RowsQuery) -> Result<RowsPage, ClientError> {
        self.rows_of(query, &[]).await
    }

    /// Reads a page of rows or buckets with the named columns, or with all columns if `columns` is
    /// empty. Buckets with selected columns or additions are returned as [`Rows::Raw`]. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::rows`]. Also if a column does not exist.
    pub async fn rows_of(
        &self,
        query: &RowsQuery,
        columns: &[String],
    ) -> Result<RowsPage, ClientError> {
        let call = self.transport.get(paths::ROWS).query(&query.pairs());
        let call = call.query(&[("columns", comma_separated(columns))]);
        let call = call.seeing(&self.seen, query.dataset);
        let (rows, next, count) = if query.resolution == Resolution::Raw {
            let page: Envelope<RawRowBody> = call.json("a page of rows").await?;
            let rows = page.results.into_iter().map(named).collect::<Result<Vec<_>, _>>()?;
            (Rows::Raw(rows), page.next, page.count)
        } else if !columns.is_empty() || query.extras != BucketExtras::default() {
            let page: Envelope<BucketBody> = call.json("a page of buckets").await?;
            let rows = page.results.iter().map(named_bucket).collect::<Result<Vec<_>, _>>()?;
            (Rows::Raw(rows), page.next, page.count)
        } else {
            let page: Envelope<BucketBody> = call.json("a page of buckets").await?;
            let buckets = convert(page.results, "a page of buckets")?;
            (Rows::Buckets(buckets), page.next, page.count)
        };
        let next = next.and_then(|_| rows.last_timestamp());
        let count = u64::try_from(count).ok().filter(|_| query.after.is_none());
        Ok(RowsPage { rows, next, count })
    }

    /// Reads the latest rows, latest first. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::rows`].
    pub async fn newest(
        &self,
        dataset: DatasetId,
        limit: Limit,
    ) -> Result<Vec<NamedRow>, ClientError> {
        self.newest_of(dataset, &[], limit).await
    }

    /// Reads the latest rows with the named columns, or with all columns if `columns` is empty, latest
    /// first. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::rows_of`].
    pub async fn newest_of(
        &self,
        dataset: DatasetId,
        columns: &[String],
        limit: Limit,
    ) -> Result<Vec<NamedRow>, ClientError> {
        let columns = comma_separated(columns);
        let query = (("dataset", dataset.get()), ("limit", limit.get()), ("columns", columns));
        let call = self.transport.get(paths::ROWS_LIVE).query(&query);
        let body = call.seeing(&self.seen, dataset).bytes().await?;
        body.split(|byte| *byte == b'\n')
            .filter(|line| !line.trim_ascii().is_empty())
            .map(|line| NamedRow::try_from(parse::<FlatRow>(line, "a row")?))
            .collect()
    }

    /// Acquires a tag such as [`model::dataset::PUBLIC_TAG`] for the key.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the tag does not exist or cannot be acquired.
    pub async fn acquire_tag(&self, tag: &str) -> Result<Acquired, ClientError> {
        let body = TagName { tag_name: tag.to_owned() };
        let call = self.transport.post(paths::TAGS_ACQUIRE).body(&body);
        match call.json::<MessageBody>("a message").await {
            Ok(_) => Ok(Acquired::Now),
            Err(ClientError::Refused { status: 409, .. }) => Ok(Acquired::Already),
            Err(error) => Err(error),
        }
    }

    /// Gives up the tags of this name that the key holds.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key holds no such tag.
    pub async fn release_tag(&self, tag: &str) -> Result<(), ClientError> {
        let body = TagName { tag_name: tag.to_owned() };
        let call = self.transport.post(paths::TAGS_RELEASE).body(&body);
        call.json::<MessageBody>("a message").await.map(drop)
    }

    /// Creates a dataset that the key owns.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 409 if the key already owns a dataset of this name.
    pub async fn create(&self, dataset: &CreateDataset) -> Result<Dataset, ClientError> {
        self.transport
            .post(paths::DATASETS)
            .body(dataset)
            .json_as::<DatasetBody, _>("a dataset")
            .await
    }

    /// Checks that the service is healthy. Does not need a key. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError`] if the service is not healthy or cannot be reached.
    pub async fn health(&self) -> Result<(), ClientError> {
        self.transport.get(paths::HEALTH).health("status").await
    }

    /// Returns true if the service rejects all writes. Does not need a key. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::health`].
    pub async fn is_read_only(&self) -> Result<bool, ClientError> {
        let health = self.transport.get(paths::HEALTH).json::<HealthBody>("the health").await;
        match health {
            Ok(health) => Ok(health.database == "read-only"),
            // Other services of the documented API do not tell.
            Err(ClientError::Shape { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

async fn datasets_page(call: Request<'_>) -> Result<DatasetsPage, ClientError> {
    let what = "a list of datasets";
    let page: Envelope<DatasetBody> = call.json(what).await?;
    Ok(DatasetsPage {
        n_datasets: u64::try_from(page.count).ok(),
        has_more: page.next.is_some(),
        datasets: convert(page.results, what)?,
    })
}

impl RowsQuery {
    /// Returns a query for the latest `limit` rows or buckets of `dataset`, in descending order.
    #[must_use]
    pub fn newest(dataset: DatasetId, resolution: Resolution, limit: Limit) -> Self {
        Self {
            dataset,
            resolution,
            start: None,
            end: None,
            after: None,
            limit,
            order: Order::Descending,
            extras: BucketExtras::default(),
        }
    }

    /// Returns a query for the oldest `limit` rows or buckets of `dataset`, in ascending order.
    #[must_use]
    pub fn oldest(dataset: DatasetId, resolution: Resolution, limit: Limit) -> Self {
        Self { order: Order::Ascending, ..Self::newest(dataset, resolution, limit) }
    }

    fn pairs(&self) -> Vec<(&'static str, String)> {
        let ordering = match self.order {
            Order::Ascending => "timestamp",
            Order::Descending => "-timestamp",
        };
        let mut pairs = vec![
            ("dataset", self.dataset.to_string()),
            ("resolution", self.resolution.to_string()),
            ("limit", self.limit.get().to_string()),
            ("ordering", ordering.to_owned()),
        ];
        let timestamps = [("start", self.start), ("end", self.end), ("after", self.after)];
        pairs.extend(timestamps.into_iter().filter_map(|(name, at)| Some((name, at?.to_string()))));
        pairs.extend(extra_pairs(self.extras));
        pairs
    }
}

impl Rows {
    /// Returns the rows. A bucket becomes a row with its prices, volume and count.
    #[must_use]
    pub fn into_rows(self) -> Vec<NamedRow> {
        match self {
            Self::Raw(rows) => rows,
            Self::Buckets(buckets) => buckets.into_iter().map(NamedRow::from).collect(),
        }
    }

    fn last_timestamp(&self) -> Option<Timestamp> {
        match self {
            Self::Raw(rows) => rows.last().map(|row| row.timestamp),
            Self::Buckets(buckets) => buckets.last().map(|bucket| bucket.timestamp),
        }
    }
}

impl From<Bucket> for NamedRow {
    fn from(bucket: Bucket) -> Self {
        let Bucket { timestamp, open, high, low, close, volume, count } = bucket;
        let floats = [open, high, low, close, volume].map(Value::Float);
        let count = Value::Integer(i64::try_from(count).unwrap_or(i64::MAX));
        let values = BAR_COLUMNS.into_iter().zip(floats).chain([("count", count)]);
        let values = values.map(|(name, value)| (name.to_owned(), value)).collect();
        Self { timestamp, values }
    }
}

impl TryFrom<FlatRow> for NamedRow {
    type Error = ClientError;

    fn try_from(row: FlatRow) -> Result<Self, Self::Error> {
        named_of(&row.timestamp, row.values)
    }
}

/// Returns the parameter that selects `columns`, or `None` for all columns.
pub(crate) fn comma_separated(columns: &[String]) -> Option<String> {
    let names = columns.iter().map(|name| escape_name(name));
    (!columns.is_empty()).then(|| names.collect::<Vec<_>>().join(","))
}

/// Returns the parameters that request additions to buckets.
pub(crate) fn extra_pairs(extras: BucketExtras) -> impl Iterator<Item = (&'static str, String)> {
    let fill = (extras.fill != Fill::None).then(|| ("fill", extras.fill.to_string()));
    let time_zone = extras.time_zone.map(|zone| ("time_zone", zone.to_string()));
    let complete = extras.complete.then(|| (COMPLETE, "true".to_owned()));
    fill.into_iter().chain(complete).chain(time_zone)
}

fn named_bucket(body: &BucketBody) -> Result<NamedRow, ClientError> {
    let BucketBody { open, high, low, close, volume, .. } = *body;
    let floats = BAR_COLUMNS.into_iter().zip([open, high, low, close, volume]);
    let floats = floats.filter_map(|(name, number)| Some((name, Value::Float(number?))));
    let count = body.count.map(|count| Value::Integer(i64::try_from(count).unwrap_or(i64::MAX)));
    let others = [("count", count), (COMPLETE, body.complete.map(Value::Boolean))];
    let others = others.into_iter().filter_map(|(name, value)| Some((name, value?)));
    let values = floats.chain(others).map(|(name, value)| (name.to_owned(), value.into()));
    named_of(&body.timestamp, values.collect())
}

fn named(row: RawRowBody) -> Result<NamedRow, ClientError> {
    named_of(&row.timestamp, row.values)
}

fn named_of(at: &str, values: BTreeMap<String, ValueBody>) -> Result<NamedRow, ClientError> {
    let timestamp = at.parse().map_err(|error| ClientError::shape("a row", error))?;
    let values = values.into_iter().map(|(name, value)| (name, value.into())).collect();
    Ok(NamedRow { timestamp, values })
}

/// Converts all `bodies`. `what` names the response in errors.
fn convert<B, T>(bodies: Vec<B>, what: &'static str) -> Result<Vec<T>, ClientError>
where
    B: DeserializeOwned,
    T: TryFrom<B>,
    T::Error: std::error::Error + Send + Sync + 'static,
{
    bodies
        .into_iter()
        .map(|body| body.try_into().map_err(|error| ClientError::shape(what, error)))
        .collect()
}

#[cfg(test)]
mod tests;
