//! Replacing an object only if nobody else did, by which several programs agree on who goes on.

use std::fmt;

use bytes::Bytes;
use object_store::{ObjectStoreExt as _, PutMode, PutOptions, UpdateVersion};
use uuid::Uuid;

use super::{ObjectError, Objects, READ_WITHIN, Result, path};

/// An `ETag` that no object has.
const NO_TAG: &str = "\"00000000000000000000000000000000\"";

/// A version of an object: what was written by one request.
#[derive(Clone, PartialEq, Eq)]
pub(in crate::store) struct Version(UpdateVersion);

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Version").field(&self.0.e_tag).finish()
    }
}

impl Objects {
    /// Reads all of a small object, and which version that is; `None` if there is no such object.
    pub(in crate::store) async fn read_version(
        &self,
        key: &str,
    ) -> Result<Option<(Bytes, Version)>> {
        let path = path(key)?;
        let read = async {
            let found = match self.store.get(&path).await {
                Ok(found) => found,
                Err(error) => {
                    return match ObjectError::classify(key, error) {
                        ObjectError::Missing { .. } => Ok(None),
                        error => Err(error),
                    };
                }
            };
            let (e_tag, version) = (found.meta.e_tag.clone(), found.meta.version.clone());
            let bytes = found.bytes().await.map_err(|error| ObjectError::classify(key, error))?;
            Ok(Some((bytes, Version(UpdateVersion { e_tag, version }))))
        };
        self.within(READ_WITHIN, read).await
    }

    /// Writes an object if what is there is still `version`, or nothing where that is `None`; whether it
    /// was. A server that does not honor conditions always writes it.
    pub(in crate::store) async fn replace(
        &self,
        key: &str,
        bytes: Bytes,
        version: Option<Version>,
    ) -> Result<bool> {
        let mode = match version {
            _ if !self.honors_conditions().await? => PutMode::Overwrite,
            None => PutMode::Create,
            Some(Version(version)) => PutMode::Update(version),
        };
        self.put_if(key, bytes, mode).await
    }

    /// Whether the server honors the conditions of `replace`, which is tried once. Not every one
    /// does: some refuse requests with conditions, and some ignore these.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn honors_conditions(&self) -> Result<bool> {
        let tried = self.honors_conditions.get_or_try_init(|| self.try_conditions()).await;
        tried.copied()
    }

    async fn try_conditions(&self) -> Result<bool> {
        let key = format!("check/{}", Uuid::new_v4());
        let other = UpdateVersion { e_tag: Some(NO_TAG.to_owned()), version: None };
        self.put(&key, Bytes::new()).await?;
        let mut are_honored = true;
        for mode in [PutMode::Create, PutMode::Update(other)] {
            are_honored &= match self.put_if(&key, Bytes::new(), mode).await {
                Ok(is_written) => !is_written,
                Err(ObjectError::Failed(_)) => false,
                Err(error) => return Err(error),
            };
        }
        self.delete(&key).await?;
        Ok(are_honored)
    }

    /// Writes an object under a condition; whether it held.
    async fn put_if(&self, key: &str, bytes: Bytes, mode: PutMode) -> Result<bool> {
        let (path, options) = (path(key)?, PutOptions { mode, ..PutOptions::default() });
        let put = async {
            match self.store.put_opts(&path, bytes.into(), options).await {
                Ok(_) => Ok(true),
                Err(
                    object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. },
                ) => Ok(false),
                Err(error) => Err(ObjectError::classify(key, error)),
            }
        };
        self.within(READ_WITHIN, put).await
    }
}
