//! Datasets, columns and tags: creation, lookup and access.
//!
//! Names are unique per owner, but not in the service. If they were, the rejection of a name would
//! reveal a dataset that the key cannot see. For a key, a name refers to its own dataset, or else to the
//! only visible dataset of this name. An id is always unambiguous.
//!
//! The tag `public` belongs to the service, and any key can acquire it. Any other name that a key
//! attaches to its datasets refers to a private tag of this key, which it can grant to other keys and
//! revoke. Another key that uses the same name has a different tag. Therefore a name neither reveals the
//! tags of other keys, nor gives access to their datasets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::dataset::{Column, Dataset, DatasetId, Dtype, PUBLIC_TAG, TIMESTAMP};
use model::key::KeyId;
use model::page::Limit;
use model::resolution::Resolution;
use model::text::is_unprintable;
use tsdb::catalog::{
    COLUMNS_MAX, Change, ColumnChange, DatasetChange, DatasetRef, Filter, Listed, NewDataset,
    Refusal, Tag, TagChange, TagFilter,
};
use tsdb::span::{Order, Span};
use tsdb::store::{Count, OnRemoval, PageRead, Removed, RowDeletion, Sight, StoreError};

use crate::Datasets;
use crate::error::{Invalid, OperationError, Result};
use crate::retention::Retention;

/// Maximum length in bytes of the name of a dataset, column, tag or metadata field. Column names are
/// repeated in every row.
pub(crate) const NAME_BYTES_MAX: usize = 200;

/// Maximum length in bytes of a description or metadata value, since every list of datasets contains
/// them.
pub(crate) const TEXT_BYTES_MAX: usize = 10_000;

/// Maximum length in bytes of the description and all metadata fields of a dataset together. A page of
/// datasets reads some hundred of them at once.
const TEXTS_BYTES_MAX: usize = 64 * 1024;

/// Maximum number of metadata fields of a dataset, and maximum number of its tags.
pub(crate) const FIELDS_MAX: usize = 64;

/// Maximum number of datasets that a request can create. They are created in one transaction.
pub(crate) const CREATED_MAX: usize = 1000;

impl Datasets {
    /// Creates a dataset that `new.owner` owns.
    ///
    /// # Errors
    /// The same as for [`Self::create_all`].
    pub(crate) async fn create(&self, new: NewDataset) -> Result<Dataset> {
        let mut created = self.create_all(vec![new]).await?;
        #[expect(clippy::expect_used, reason = "each dataset of the request is returned")]
        Ok(created.pop().expect("a dataset was created"))
    }

    /// Creates either all of the datasets or none. Returns them in the same order.
    ///
    /// # Errors
    /// [`OperationError::Invalid`] if a limit of this module is exceeded, or
    /// [`OperationError::Refused`].
    pub(crate) async fn create_all(&self, new: Vec<NewDataset>) -> Result<Vec<Dataset>> {
        if new.len() > CREATED_MAX {
            let text = format!("at most {CREATED_MAX} datasets can be created in one request");
            return Err(Invalid::from(text).into());
        }
        new.iter().try_for_each(check)?;
        Ok(self.store.create(new, self.clock.now()).await?)
    }

    /// Lists the datasets that are visible to `key` and match `filter`: at most `limit` after the first
    /// `skip`.
    pub(crate) async fn list(
        &self,
        key: KeyId,
        filter: Filter,
        skip: u64,
        limit: Limit,
    ) -> Result<Listed> {
        Ok(self.read_store(move |store| store.list(key, &filter, skip, limit.get())).await?)
    }

    /// Returns the dataset as it is visible to `key`.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if the dataset is not visible.
    pub(crate) async fn sight(&self, key: KeyId, which: DatasetRef) -> Result<Sight> {
        self.find_sight(key, which).await?.ok_or(OperationError::NotFound)
    }

    /// Returns the dataset as it is visible to `key`, or `None` if it is not visible.
    pub(crate) async fn find_sight(&self, key: KeyId, which: DatasetRef) -> Result<Option<Sight>> {
        Ok(self.read_store(move |store| store.sight(Some(key), &which)).await?)
    }

    /// Returns the dataset, if `key` owns it.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if the dataset is not visible to `key`, or
    /// [`OperationError::NOT_OWNER`].
    pub(crate) async fn find_owned(&self, key: KeyId, which: DatasetRef) -> Result<Dataset> {
        let sight = self.sight(key, which).await?;
        if sight.is_owner { Ok(sight.dataset) } else { Err(OperationError::NOT_OWNER) }
    }

    /// Changes a dataset that `key` owns and returns the result.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`], [`OperationError::Invalid`].
    /// [`OperationError::Refused`] if the name exists, or if the dataset has rows and the new metadata
    /// would select other columns for its buckets.
    pub(crate) async fn update(
        &self,
        key: KeyId,
        which: DatasetRef,
        change: Change,
    ) -> Result<Dataset> {
        let dataset = self.find_owned(key, which).await?;
        check_change(&change, &dataset)?;
        let change = DatasetChange::Description(change);
        Ok(self.store.change(dataset.id, change, self.clock.now()).await?.dataset)
    }

    /// Adds, renames or deletes a column of a dataset that `key` owns. Returns the resulting column, or
    /// `None` after a deletion. Existing rows have no value in a new column.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`], [`OperationError::Invalid`].
    /// [`OperationError::Refused`] if the change conflicts with other columns, or would invalidate the
    /// buckets of existing rows. [`OperationError::Denied`] if the buckets of existing rows depend
    /// on the column to be deleted.
    pub(crate) async fn change_column(
        &self,
        key: KeyId,
        which: DatasetRef,
        change: ColumnChange,
    ) -> Result<Option<Column>> {
        let dataset = self.find_owned(key, which).await?;
        let name = match &change {
            ColumnChange::Add(name, _) | ColumnChange::Rename { new_name: name, .. } => {
                // Checks only the name, so the type is arbitrary.
                check_columns(&[(name.clone(), Dtype::Float)])?;
                name
            }
            ColumnChange::Delete(name) if name == TIMESTAMP => {
                return Err(Invalid::from(format!("the {TIMESTAMP} cannot be deleted")).into());
            }
            ColumnChange::Delete(name) => name,
        };
        let (name, is_deleted) = (name.clone(), matches!(change, ColumnChange::Delete(_)));
        let change = DatasetChange::Column(change);
        match self.store.change(dataset.id, change, self.clock.now()).await {
            Ok(seen) => Ok(seen.columns.into_iter().find(|column| column.name == name)),
            Err(StoreError::Refused(Refusal::Refolds)) if is_deleted => {
                let text = "the dataset has rows, and their buckets depend on column";
                Err(OperationError::conflict(format!("{text} {name}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Deletes a dataset that `key` owns, with its rows. When this returns, the dataset is invisible to
    /// all keys.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`].
    pub(crate) async fn delete(&self, key: KeyId, which: DatasetRef) -> Result<()> {
        let dataset = self.find_owned(key, which).await?.id;
        let was_there = self.store.delete(dataset).await?;
        self.hub.recheck_access(dataset);
        if was_there { Ok(()) } else { Err(OperationError::NotFound) }
    }

    /// Deletes rows of a dataset that `key` owns and updates their buckets. Also returns the number of
    /// deleted five-minute buckets, including buckets of rows that were pruned earlier.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`].
    pub(crate) async fn delete_rows(
        &self,
        key: KeyId,
        which: DatasetRef,
        span: Span,
    ) -> Result<(Removed, u64)> {
        let dataset = self.find_owned(key, which).await?.id;
        let n_before = self.count_buckets(dataset, span).await?;
        let hub = self.hub.clone();
        let on_commit: OnRemoval = Arc::new(move |removed| {
            hub.publish(dataset, removed.revision, Vec::new);
        });
        let deletion = RowDeletion::new(span, self.clock.now());
        let removed = self.store.delete_rows(dataset, deletion, on_commit).await?;
        let n_after = self.count_buckets(dataset, span).await?;
        Ok((removed, n_before.saturating_sub(n_after)))
    }

    /// Counts the five-minute buckets that overlap `span`.
    async fn count_buckets(&self, dataset: DatasetId, span: Span) -> Result<u64> {
        let resolution = Resolution::FiveMinutes;
        let span = Span { first: resolution.bucket_start(span.first), ..span };
        let order = Order::Ascending;
        let read = PageRead { resolution, span, order, skip: 0, limit: 0, count: Count::All };
        let page = self.read_store(move |store| store.page(dataset, &read)).await?;
        Ok(page.count.unwrap_or(0))
    }

    /// Lets `key` acquire the public tag `tag`.
    ///
    /// # Errors
    /// [`OperationError::TAG_HELD`] if the key already holds the tag. [`OperationError::TAG_PRIVATE`] if
    /// it is the key's own tag. [`OperationError::TAG_UNKNOWN`] if no tag has this name, or only private
    /// tags of other keys have it.
    pub(crate) async fn acquire(&self, key: KeyId, tag: &str) -> Result<()> {
        // Checks first whether the key holds the tag. Clients acquire tags whenever they start, but only
        // the first time needs a write.
        let tags = self.read_store(move |store| store.tags(TagFilter::KnownTo(key))).await?;
        let named = tags.iter().filter(|known| known.name == tag);
        match named.max_by_key(|known| (known.is_public, known.is_held)) {
            None => return Err(OperationError::TAG_UNKNOWN),
            Some(known) if known.is_held => return Err(OperationError::TAG_HELD),
            Some(known) if !known.is_public => return Err(OperationError::TAG_PRIVATE),
            Some(_) => {}
        }
        let is_new = self
            .store
            .change_tag(TagChange::Give { owner: None, tag: tag.to_owned(), key })
            .await?;
        if is_new { Ok(()) } else { Err(OperationError::TAG_HELD) }
    }

    /// Returns the tags that `key` knows: public tags, its own tags and tags that it holds. The tags are
    /// sorted by name. Of several tags with the same name, only one tag is returned.
    pub(crate) async fn known_tags(&self, key: KeyId) -> Result<Vec<Tag>> {
        let mut tags = self.read_store(move |store| store.tags(TagFilter::KnownTo(key))).await?;
        tags.dedup_by(|next, tag| next.name == tag.name);
        Ok(tags)
    }

    /// Returns the tags of a dataset in alphabetical order: all of them if `key` is the owner, otherwise
    /// only tags that `key` knows.
    ///
    /// # Errors
    /// [`OperationError::NotFound`] if the dataset is not visible to `key`.
    pub(crate) async fn dataset_tags(&self, key: KeyId, dataset: DatasetId) -> Result<Vec<Tag>> {
        let which = DatasetRef::Id(dataset);
        let found = self.read_store(move |store| {
            let tags = store.tags(TagFilter::OfDataset(dataset))?;
            Ok(store.sight(Some(key), &which)?.map(|sight| (sight, tags)))
        });
        let (sight, mut tags) = found.await?.ok_or(OperationError::NotFound)?;
        tags.retain(|tag| {
            let is_known = tag.is_public || tag.owner == Some(key);
            is_known || sight.is_owner || sight.matching_tags.contains(&tag.name)
        });
        Ok(tags)
    }

    /// Attaches `tag` to the dataset, so that keys that hold the tag can read it. Returns true if the
    /// dataset did not have the tag before.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`] or [`OperationError::Invalid`].
    pub(crate) async fn add_tag(&self, key: KeyId, dataset: DatasetId, tag: &str) -> Result<bool> {
        let dataset = self.find_owned(key, DatasetRef::Id(dataset)).await?.id;
        check_name("tag_name", tag)?;
        let tags = self.read_store(move |store| store.tags(TagFilter::OfDataset(dataset))).await?;
        if tags.iter().any(|there| there.name == tag) {
            return Ok(false);
        }
        if tags.len() >= FIELDS_MAX {
            return Err(Invalid::from(format!("a dataset has at most {FIELDS_MAX} tags")).into());
        }
        Ok(self.store.change_tag(TagChange::Attach(dataset, tag.to_owned())).await?)
    }

    /// Detaches a tag from a dataset. Keys that hold the tag lose access and their streams are closed,
    /// unless they hold another tag of the dataset.
    ///
    /// # Errors
    /// [`OperationError::NotFound`], [`OperationError::NOT_OWNER`], or [`OperationError::TAG_UNKNOWN`]
    /// if the dataset does not have the tag.
    pub(crate) async fn remove_tag(&self, key: KeyId, dataset: DatasetId, tag: &str) -> Result<()> {
        let dataset = self.find_owned(key, DatasetRef::Id(dataset)).await?.id;
        let had_it = self.store.change_tag(TagChange::Detach(dataset, tag.to_owned())).await?;
        self.hub.recheck_access(dataset);
        if had_it { Ok(()) } else { Err(OperationError::TAG_UNKNOWN) }
    }

    /// Returns the keys that hold the tag `tag` of `key`, in ascending order.
    ///
    /// # Errors
    /// [`OperationError::TAG_UNKNOWN`], or [`OperationError::TAG_PUBLIC`] for a tag without an owner.
    pub(crate) async fn holders(&self, key: KeyId, tag: &str) -> Result<Vec<KeyId>> {
        self.check_owns_tag(key, tag).await?;
        let tag = tag.to_owned();
        Ok(self.read_store(move |store| store.holders(key, &tag)).await?)
    }

    /// Grants a tag of `key` to `other`, which must be an existing key. Returns true if `other` did not
    /// hold the tag before.
    ///
    /// # Errors
    /// The same as for [`Self::holders`].
    pub(crate) async fn give_tag(&self, key: KeyId, tag: &str, other: KeyId) -> Result<bool> {
        self.check_owns_tag(key, tag).await?;
        let change = TagChange::Give { owner: Some(key), tag: tag.to_owned(), key: other };
        Ok(self.store.change_tag(change).await?)
    }

    /// Revokes a tag of `key` from `other`. If `other` loses access to a dataset, its streams of the
    /// dataset are closed.
    ///
    /// # Errors
    /// The same as for [`Self::holders`], and [`OperationError::KEY_UNKNOWN`] if `other` does not hold
    /// the tag.
    pub(crate) async fn take_tag(&self, key: KeyId, tag: &str, other: KeyId) -> Result<()> {
        self.check_owns_tag(key, tag).await?;
        let change = TagChange::Take { owner: Some(key), tag: tag.to_owned(), key: other };
        let held_it = self.store.change_tag(change).await?;
        self.hub.recheck_access_of(other);
        if held_it { Ok(()) } else { Err(OperationError::KEY_UNKNOWN) }
    }

    /// Gives up the tags of this name that `key` holds, since owners grant tags without the holder's
    /// consent. The key's streams of datasets that it can no longer read are closed.
    ///
    /// # Errors
    /// [`OperationError::TAG_UNKNOWN`] if the key holds no tag of this name.
    pub(crate) async fn release_tag(&self, key: KeyId, tag: &str) -> Result<()> {
        let change = TagChange::Take { owner: None, tag: tag.to_owned(), key };
        let held_it = self.store.change_tag(change).await?;
        self.hub.recheck_access_of(key);
        if held_it { Ok(()) } else { Err(OperationError::TAG_UNKNOWN) }
    }

    /// Checks that `key` owns a tag of this name.
    async fn check_owns_tag(&self, key: KeyId, tag: &str) -> Result<()> {
        if tag == PUBLIC_TAG {
            return Err(OperationError::TAG_PUBLIC);
        }
        let tags = self.read_store(move |store| store.tags(TagFilter::KnownTo(key))).await?;
        let is_own = tags.iter().any(|known| known.owner == Some(key) && known.name == tag);
        if is_own { Ok(()) } else { Err(OperationError::TAG_UNKNOWN) }
    }
}

/// Checks the values of a dataset that is to be created.
fn check(new: &NewDataset) -> Result<(), Invalid> {
    check_name("name", &new.name)?;
    check_texts((&new.description, &new.metadata), ("", &BTreeMap::new()))?;
    if new.tags.len() > FIELDS_MAX {
        return Err(format!("a dataset has at most {FIELDS_MAX} tags").into());
    }
    for tag in &new.tags {
        check_name("a tag", tag)?;
    }
    check_columns(&new.columns)
}

/// Description and metadata of a dataset.
type Texts<'a> = (&'a str, &'a BTreeMap<String, String>);

/// Checks the description and the metadata fields that differ from `before`, their number and length, and
/// the retention that they specify. Other stored values can be older than the rules for them.
fn check_texts(new: Texts<'_>, before: Texts<'_>) -> Result<(), Invalid> {
    let ((description, metadata), (old_description, old_metadata)) = (new, before);
    if description != old_description {
        check_text("description", description)?;
    }
    let n_bytes = |(description, metadata): Texts<'_>| {
        let fields = metadata.iter().map(|(field, value)| field.len() + value.len());
        description.len() + fields.sum::<usize>()
    };
    if n_bytes(new) > TEXTS_BYTES_MAX.max(n_bytes(before)) {
        let text = "description and metadata together must be at most";
        return Err(format!("{text} {TEXTS_BYTES_MAX} bytes").into());
    }
    if metadata.len() > FIELDS_MAX.max(old_metadata.len()) {
        return Err(format!("a dataset has at most {FIELDS_MAX} metadata fields").into());
    }
    let changed = metadata.iter().filter(|(field, value)| old_metadata.get(*field) != Some(value));
    for (field, value) in changed {
        check_name("a metadata field", field)?;
        check_text("a metadata value", value)?;
    }
    if metadata != old_metadata {
        Retention::from_metadata(metadata)?;
    }
    Ok(())
}

/// Checks the number and names of the columns that a request creates.
pub(crate) fn check_columns(columns: &[(String, Dtype)]) -> Result<(), Invalid> {
    if columns.len() > COLUMNS_MAX {
        return Err(format!("a dataset has at most {COLUMNS_MAX} columns").into());
    }
    let mut names = BTreeSet::new();
    for (name, _) in columns {
        check_name("a column's name", name)?;
        // The parameter `columns` and the header of CSV are trimmed.
        if name.trim() != name {
            return Err("a column's name must not begin or end with a space".into());
        }
        if name == TIMESTAMP {
            return Err(format!("a column cannot be called {TIMESTAMP}").into());
        }
        if !names.insert(name) {
            return Err(format!("there are two columns called {name}").into());
        }
    }
    Ok(())
}

fn check_name(what: &str, name: &str) -> Result<(), Invalid> {
    // As a segment of a path, clients resolve these names, even encoded ones.
    if matches!(name, "." | "..") {
        return Err(format!("{what} must not be `{name}`").into());
    }
    if name.trim().is_empty() || name.len() > NAME_BYTES_MAX || name.chars().any(is_unprintable) {
        return Err(format!(
            "{what} must be 1 to {NAME_BYTES_MAX} bytes without control or invisible characters"
        )
        .into());
    }
    Ok(())
}

fn check_text(what: &str, text: &str) -> Result<(), Invalid> {
    if text.len() > TEXT_BYTES_MAX {
        return Err(format!("{what} must be at most {TEXT_BYTES_MAX} bytes").into());
    }
    if text.chars().any(is_unprintable) {
        return Err(format!("{what} must have no control or invisible characters").into());
    }
    Ok(())
}

/// Checks the values that change. Other stored values can be older than the rules for them.
fn check_change(change: &Change, dataset: &Dataset) -> Result<(), Invalid> {
    let mut changed = dataset.clone();
    change.apply(&mut changed);
    if changed.name != dataset.name {
        check_name("name", &changed.name)?;
    }
    let before = (dataset.description.as_str(), &dataset.metadata);
    check_texts((&changed.description, &changed.metadata), before)
}
