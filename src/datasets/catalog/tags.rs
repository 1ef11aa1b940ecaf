//! Tags: attaches them to datasets, acquires them and grants them to other keys.
//!
//! The tag `public` belongs to the service, and any key can acquire it. Any other name that a key
//! attaches to its datasets refers to a private tag of this key, which it can grant to other keys and
//! revoke. Another key that uses the same name has a different tag. Therefore a name neither reveals the
//! tags of other keys, nor gives access to their datasets.

use model::dataset::{DatasetId, PUBLIC_TAG};
use model::key::KeyId;
use tsdb::catalog::{DatasetRef, Tag, TagChange, TagFilter};

use super::{FIELDS_MAX, check_name};
use crate::Datasets;
use crate::error::{Invalid, OperationError, Result};

impl Datasets {
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
        let is_new = self.store.change_tag(TagChange::Acquire { tag: tag.to_owned(), key }).await?;
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
        Ok(self
            .store
            .change_tag(TagChange::Give { owner: key, tag: tag.to_owned(), key: other })
            .await?)
    }

    /// Revokes a tag of `key` from `other`. If `other` loses access to a dataset, its streams of the
    /// dataset are closed.
    ///
    /// # Errors
    /// The same as for [`Self::holders`], and [`OperationError::KEY_UNKNOWN`] if `other` does not hold
    /// the tag.
    pub(crate) async fn take_tag(&self, key: KeyId, tag: &str, other: KeyId) -> Result<()> {
        self.check_owns_tag(key, tag).await?;
        let held_it = self
            .store
            .change_tag(TagChange::Take { owner: key, tag: tag.to_owned(), key: other })
            .await?;
        self.hub.recheck_access_of(other);
        if held_it { Ok(()) } else { Err(OperationError::KEY_UNKNOWN) }
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
