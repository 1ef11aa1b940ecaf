//! Stores whole downloads as files, of which clients read parts.
//!
//! A Parquet reader first requests the end of a file, then the pages that it needs, in dozens of
//! requests. The file is written once, to an unnamed temporary file, which the system removes when the
//! service exits or is killed.

use std::fs::File;
use std::io;
use std::num::NonZeroUsize;
use std::os::unix::fs::FileExt as _;
use std::sync::Arc;

use bytes::Bytes;
use formats::content_coding::Coding;
use lru::LruCache;
use model::key::KeyId;
use parking_lot::Mutex;
use tokio::fs::File as AsyncFile;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::OnceCell;
use tsdb::store::StoreError;

use super::{Download, DownloadRequest, DownloadResponse, RangeFacts, Source};
use crate::error::{OperationError, Result};
use crate::etag::{ETag, KnownETags};
use crate::query::params::DownloadQuery;
use crate::{Datasets, run_blocking};

/// Maximum total size of spooled files: some fifty million rows. Beyond it, the least recently used
/// files are evicted.
const FILES_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Maximum number of spooled files, since each needs a file descriptor.
const FILES_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(63);

/// Maximum number of bytes that one call reads.
pub(crate) const PART_BYTES: usize = 256 * 1024;

/// A file that contains a whole download.
#[derive(Debug, Clone)]
pub(crate) struct SpooledFile {
    /// File name that the response suggests to a browser.
    pub(crate) file_name: String,
    /// Entity tag and number of rows. `None` if the rows changed before they were read.
    pub(crate) facts: Option<RangeFacts>,
    /// Revision of the dataset up to which the file has all rows.
    pub(crate) revision: u64,
    pub(crate) size_bytes: u64,
    file: Arc<File>,
}

/// Spooled files, keyed by entity tag. Clones share the files.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    files: Arc<Mutex<LruCache<ETag, Arc<OnceCell<SpooledFile>>>>>,
}

impl Default for Spool {
    fn default() -> Self {
        Self { files: Arc::new(Mutex::new(LruCache::new(FILES_MAX))) }
    }
}

impl Spool {
    /// Returns the cell for the file with this tag. The first caller writes the file.
    fn cell(&self, tag: ETag) -> Arc<OnceCell<SpooledFile>> {
        Arc::clone(self.files.lock().get_or_insert(tag, Arc::default))
    }

    /// Returns true if the file with this tag is completely written.
    fn has_file(&self, tag: ETag) -> bool {
        self.files.lock().peek(&tag).is_some_and(|file| file.initialized())
    }

    /// Evicts the least recently used files until the total size is at most [`FILES_BYTES_MAX`], but
    /// always leaves one file. Callers that are reading an evicted file have it open.
    fn trim(&self) {
        let mut files = self.files.lock();
        let size = |file: &Arc<OnceCell<SpooledFile>>| file.get().map_or(0, |file| file.size_bytes);
        let mut n_bytes: u64 = files.iter().map(|(_, file)| size(file)).sum();
        while n_bytes > FILES_BYTES_MAX
            && files.len() > 1
            && let Some((_, file)) = files.pop_lru()
        {
            n_bytes -= size(&file);
        }
    }
}

impl SpooledFile {
    /// Reads at most [`PART_BYTES`] bytes from offset `begin` up to offset `end`, which is excluded.
    ///
    /// # Errors
    /// An I/O error of the disk.
    pub(crate) async fn read(&self, begin: u64, end: u64) -> io::Result<Bytes> {
        let file = Arc::clone(&self.file);
        let length = usize::try_from(end - begin).unwrap_or(usize::MAX).min(PART_BYTES);
        let read = run_blocking(move || {
            let mut part = vec![0; length];
            file.read_exact_at(&mut part, begin).map(|()| Bytes::from(part))
        });
        read.await.map_err(io::Error::other)?
    }
}

impl Datasets {
    /// Returns the spooled file of a range. Reuses an earlier file if its rows are unchanged. Returns
    /// `None` if the file exceeds [`FILES_BYTES_MAX`], or if it does not exist yet and would have more
    /// than `rows_max` rows.
    ///
    /// # Errors
    /// The same as for [`Self::download`], and [`OperationError::Spool`] if the disk fails.
    pub(crate) async fn spool_download(
        &self,
        key: KeyId,
        query: DownloadQuery,
        seen: Option<u64>,
        rows_max: u64,
    ) -> Result<Option<SpooledFile>> {
        let Source { range, form, .. } = self.find_source(key, &query, seen).await?;
        let RangeFacts { tag, revision, n_rows } = self.facts(range, form).await?;
        if n_rows > rows_max && !self.spool.has_file(tag) {
            return Ok(None);
        }
        let cell = self.spool.cell(tag);
        let file = cell.get_or_try_init(|| self.write_file(key, query)).await.cloned();
        let has_tag = |file: &SpooledFile| file.facts.is_some_and(|facts| facts.tag == tag);
        // If rows changed before they were read, the file does not have the expected entity tag. Only
        // the current request uses it.
        if !file.as_ref().is_ok_and(has_tag) {
            self.spool.files.lock().pop(&tag);
        }
        self.spool.trim();
        match file {
            // With the same entity tag, no commit since the file was written has changed its rows, so
            // the file also includes the latest revision.
            Ok(file) => Ok(Some(SpooledFile { revision: revision.max(file.revision), ..file })),
            Err(OperationError::TooLarge) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes a download to a file.
    ///
    /// # Errors
    /// The same as for [`Self::download`]. [`OperationError::TooLarge`] if the file exceeds
    /// [`FILES_BYTES_MAX`], and [`OperationError::Spool`] if the disk fails.
    async fn write_file(&self, key: KeyId, query: DownloadQuery) -> Result<SpooledFile> {
        let (coding, known) = (Coding::Identity, KnownETags::default());
        let wanted = DownloadRequest { query, coding, known, seen: None };
        let DownloadResponse::Range(mut download) = self.download(key, wanted).await? else {
            return Err(OperationError::BUSY);
        };
        let folder = self.file.as_ref().and_then(|path| path.parent().map(ToOwned::to_owned));
        let file = run_blocking(move || match folder {
            Some(folder) => tempfile::tempfile_in(folder),
            None => tempfile::tempfile(),
        });
        let file = file.await?.map_err(spool_error)?;
        let mut to = AsyncFile::from_std(file.try_clone().map_err(spool_error)?);
        let mut size_bytes = 0;
        while let Some(part) = download.body.next().await {
            let part = part.map_err(|_| OperationError::Store(StoreError::Closed))?;
            to.write_all(&part).await.map_err(spool_error)?;
            size_bytes += part.len() as u64;
            if size_bytes > FILES_BYTES_MAX {
                return Err(OperationError::TooLarge);
            }
        }
        to.flush().await.map_err(spool_error)?;
        let Download { file_name, facts, revision, .. } = download;
        Ok(SpooledFile { file_name, facts, revision, size_bytes, file: Arc::new(file) })
    }
}

fn spool_error(error: io::Error) -> OperationError {
    if error.kind() == io::ErrorKind::StorageFull {
        return OperationError::Store(StoreError::Full);
    }
    OperationError::Spool(error)
}
