//! Operations for owners of datasets: columns, tags, metadata and deletion.

use std::collections::BTreeMap;
use std::time::Duration;

use model::dataset::{Column, Dataset, DatasetId, Dtype};
use model::timestamp::Timestamp;
use serde_json::json;
use wire::datasets::{
    AccessBody, AccessCheck, ColumnBody, CoverageBody, DatasetBody, Envelope, MessageBody,
    RowsDeleted, TagBody, TagName, UpdateDataset,
};
use wire::paths;

use super::{Datasets, datasets_page};
use crate::error::ClientError;
use crate::transport::segment;

/// Page size when a dataset is searched by name. A small page is sufficient, since services return an
/// exact match first.
const NAMED_DATASETS: &str = "10";

impl Datasets {
    /// Returns the dataset called `name`: the one that the key owns, or else the one of the service, or else
    /// the only one that the key can see. Returns `None` if the key cannot see such a dataset. Cancel-safe.
    ///
    /// # Errors
    /// [`ClientError::Refused`] with status 409 and the ids if the name is ambiguous. Otherwise the same as
    /// [`Self::list`].
    pub async fn find_by_name(&self, name: &str) -> Result<Option<Dataset>, ClientError> {
        let list = async |query: &[(&str, &str)]| {
            let page = datasets_page(self.transport.get(paths::DATASETS).query(query)).await?;
            let named = page.datasets.into_iter().filter(|dataset| dataset.name == name);
            Ok::<Vec<Dataset>, ClientError>(named.collect())
        };
        let query = [("search", name), ("limit", NAMED_DATASETS), ("dataset_name", name)];
        let mut named = match list(&query).await {
            // The service chooses, except that other services ignore `dataset_name` and older ones reject it.
            Err(ClientError::Refused { status: 400, .. }) => list(&query[..2]).await?,
            listed => listed?,
        };
        if named.len() > 1 {
            let ids: Vec<String> = named.iter().map(|dataset| dataset.id.to_string()).collect();
            let message = format!("several datasets are called {name}: {}", ids.join(", "));
            return Err(ClientError::Refused { status: 409, message });
        }
        Ok(named.pop())
    }

    /// Returns the dataset with the id or else the name `name`, or `None` if the key cannot see such a
    /// dataset. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::find_by_name`].
    pub async fn find_by_id_or_name(&self, name: &str) -> Result<Option<Dataset>, ClientError> {
        let Ok(id) = name.parse::<DatasetId>() else { return self.find_by_name(name).await };
        match self.dataset(id).await {
            // No dataset has this id, but a dataset can have this number as its name.
            Err(ClientError::Refused { status: 404, .. }) => self.find_by_name(name).await,
            found => found.map(Some),
        }
    }

    /// Lists all tags that the key knows. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::list`].
    pub async fn tags(&self) -> Result<Vec<TagBody>, ClientError> {
        let page: Envelope<TagBody> =
            self.transport.get(paths::TAGS).json("a list of tags").await?;
        Ok(page.results)
    }

    /// Lists the tags of a dataset. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::dataset`].
    pub async fn dataset_tags(&self, dataset: DatasetId) -> Result<Vec<TagBody>, ClientError> {
        let path = path_of(paths::DATASET_TAGS, dataset);
        let page: Envelope<TagBody> = self.transport.get(&path).json("a list of tags").await?;
        Ok(page.results)
    }

    /// Counts the rows of a dataset by day and estimates the size of a download in the format `output`.
    /// Reads all pages. Cancel-safe.
    ///
    /// # Errors
    /// Same as [`Self::dataset`].
    pub async fn coverage(
        &self,
        dataset: DatasetId,
        start: Option<Timestamp>,
        end: Option<Timestamp>,
        output: &str,
    ) -> Result<CoverageBody, ClientError> {
        let path = path_of(paths::DATASET_COVERAGE, dataset);
        let what = "a coverage";
        let read = async |start: Option<Timestamp>| {
            let bounds = [("start", start), ("end", end)];
            let bounds = bounds.map(|(name, time)| (name, time.map(|time| time.to_string())));
            let call = self.transport.get(&path).query(&bounds).query(&[("output", output)]);
            call.json::<CoverageBody>(what).await
        };
        let mut all = read(start).await?;
        while let Some(last) = all.days.last().filter(|_| all.next.is_some()) {
            let midnight = format!("{}T00:00:00Z", last.day).parse::<Timestamp>();
            let midnight = midnight.map_err(|error| ClientError::shape(what, error))?;
            let later = read(Some(midnight + Duration::from_hours(24))).await?;
            all.next = later.next.filter(|_| !later.days.is_empty());
            all.days.extend(later.days);
        }
        Ok(all)
    }

    /// Adds a tag to a dataset, so that holders of the tag can read it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset or the name is invalid.
    pub async fn add_tag(&self, dataset: DatasetId, tag: &str) -> Result<(), ClientError> {
        let path = path_of(paths::DATASET_TAGS, dataset);
        let body = TagName { tag_name: tag.to_owned() };
        self.transport.post(&path).body(&body).json::<MessageBody>("a message").await.map(drop)
    }

    /// Removes a tag from a dataset.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset, or the dataset does not have the
    /// tag.
    pub async fn remove_tag(&self, dataset: DatasetId, tag: &str) -> Result<(), ClientError> {
        let path = format!("{}{}/", path_of(paths::DATASET_TAGS, dataset), segment(tag)?);
        self.transport.delete(&path).done().await
    }

    /// Adds a column to a dataset.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset or the column exists.
    pub async fn add_column(
        &self,
        dataset: DatasetId,
        name: &str,
        dtype: Dtype,
    ) -> Result<Column, ClientError> {
        let body = json!({"dataset": dataset.get(), "name": name, "dtype": dtype.to_string()});
        let call = self.transport.post(paths::COLUMNS).body(&body);
        call.json_as::<ColumnBody, _>("a column").await
    }

    /// Renames a column and returns it.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset, the column does not exist, or a
    /// column already has the new name.
    pub async fn rename_column(
        &self,
        dataset: DatasetId,
        name: &str,
        new_name: &str,
    ) -> Result<Column, ClientError> {
        let body = json!({"dataset": dataset.get(), "name": name, "new_name": new_name});
        let call = self.transport.patch(paths::COLUMNS).body(&body);
        call.json_as::<ColumnBody, _>("a column").await
    }

    /// Permanently deletes a column with its values.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset, the column does not exist, or
    /// buckets are computed from it.
    pub async fn delete_column(&self, dataset: DatasetId, name: &str) -> Result<(), ClientError> {
        let query = (("dataset", dataset.get()), ("name", name));
        self.transport.delete(paths::COLUMNS).query(&query).done().await
    }

    /// Sets metadata fields of a dataset, and removes fields that have the value `None`. Other fields
    /// are unchanged. Returns the updated dataset.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset or a value is invalid.
    pub async fn set_metadata(
        &self,
        dataset: DatasetId,
        fields: &BTreeMap<&str, Option<String>>,
    ) -> Result<Dataset, ClientError> {
        let metadata = fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone()));
        let changes = UpdateDataset { metadata: metadata.collect(), ..UpdateDataset::default() };
        self.update(dataset, &changes).await
    }

    /// Changes the name, the description and metadata fields of a dataset. Returns the updated dataset.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset or a value is invalid.
    pub async fn update(
        &self,
        dataset: DatasetId,
        changes: &UpdateDataset,
    ) -> Result<Dataset, ClientError> {
        let path = path_of(paths::DATASET, dataset);
        self.transport.patch(&path).body(changes).json_as::<DatasetBody, _>("a dataset").await
    }

    /// Copies the description and the metadata fields of the dataset `like` to `dataset`.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own `dataset`.
    pub async fn describe(&self, like: &Dataset, dataset: DatasetId) -> Result<(), ClientError> {
        let metadata = like.metadata.clone().into_iter();
        let changes = UpdateDataset {
            description: Some(like.description.clone()),
            metadata: metadata.map(|(name, value)| (name, Some(value))).collect(),
            ..UpdateDataset::default()
        };
        self.update(dataset, &changes).await.map(drop)
    }

    /// Permanently deletes a dataset with all its rows.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset.
    pub async fn delete(&self, dataset: DatasetId) -> Result<(), ClientError> {
        let path = path_of(paths::DATASET, dataset);
        self.transport.delete(&path).done().await
    }

    /// Permanently deletes the rows from `start` to `end` (inclusive) and returns how many were deleted.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the key does not own the dataset.
    pub async fn delete_rows(
        &self,
        dataset: DatasetId,
        start: Timestamp,
        end: Timestamp,
    ) -> Result<u64, ClientError> {
        let (start, end) = (start.to_string(), end.to_string());
        let query = (("dataset", dataset.get()), ("start", start), ("end", end));
        let call = self.transport.delete(paths::ROWS).query(&query).seeing(&self.seen, dataset);
        Ok(call.json::<RowsDeleted>("a number of rows").await?.deleted)
    }

    /// Returns the access that the key has to a dataset. Checks for write access if `require_write` is true.
    ///
    /// # Errors
    /// Same as [`Self::list`].
    pub async fn access(
        &self,
        dataset: DatasetId,
        require_write: bool,
    ) -> Result<AccessBody, ClientError> {
        let body = AccessCheck { dataset_id: dataset.get(), require_write };
        self.transport.post(paths::ACCESS_CHECK).body(&body).json("the access to a dataset").await
    }
}

/// Replaces the placeholder in `path` by the id of `dataset`.
fn path_of(path: &str, dataset: DatasetId) -> String {
    path.replace("{id}", &dataset.to_string())
}
