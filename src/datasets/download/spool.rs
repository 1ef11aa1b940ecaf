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
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use formats::content_coding::Coding;
use lru::LruCache;
use model::key::KeyId;
use parking_lot::Mutex;
use tokio::fs::File as AsyncFile;
use tokio::io::AsyncWriteExt as _;
use tokio::sync::{OnceCell, oneshot};
use tsdb::store::StoreError;

use super::{Download, DownloadRequest, DownloadResponse, RangeFacts, Source};
use crate::error::{OperationError, Result};
use crate::etag::{ETag, KnownETags};
use crate::query::params::DownloadQuery;
use crate::{Datasets, run_blocking};

/// Maximum total size of spooled files: some fifty million rows. Beyond it, the least recently used
/// files are evicted.
const FILES_BYTES_MAX: u64 = 2 * 1024 * 1024 * 1024;

/// Maximum total size of all files, with evicted files that are still read and files that are being
/// written. Beyond it, downloads are not spooled.
const SPACE_BYTES_MAX: u64 = 2 * FILES_BYTES_MAX;

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
    _space: Arc<Space>,
}

/// Disk space of a file, counted until the file is closed.
#[derive(Debug)]
struct Space {
    n_bytes: u64,
    total: Arc<AtomicU64>,
}

impl Space {
    /// Counts `n_bytes` more. Returns false if the file or the total exceeds its maximum.
    fn grow(&mut self, n_bytes: u64) -> bool {
        self.n_bytes += n_bytes;
        let total = self.total.fetch_add(n_bytes, Ordering::Relaxed) + n_bytes;
        self.n_bytes <= FILES_BYTES_MAX && total <= SPACE_BYTES_MAX
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.total.fetch_sub(self.n_bytes, Ordering::Relaxed);
    }
}

/// Spooled files, keyed by entity tag. Clones share the files.
#[derive(Debug, Clone)]
pub(crate) struct Spool {
    files: Arc<Mutex<LruCache<ETag, Arc<OnceCell<SpooledFile>>>>>,
    n_bytes: Arc<AtomicU64>,
}

impl Default for Spool {
    fn default() -> Self {
        let files = Arc::new(Mutex::new(LruCache::new(FILES_MAX)));
        Self { files, n_bytes: Arc::default() }
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
    /// `None` if the file exceeds a limit, or if it does not exist yet and would have more than `rows_max`
    /// rows or is one of those that the client already has.
    ///
    /// # Errors
    /// The same as for [`Self::download`], and [`OperationError::Spool`] if the disk fails.
    pub(crate) async fn spool_download(
        &self,
        key: KeyId,
        query: DownloadQuery,
        seen: Option<u64>,
        known: &KnownETags,
        rows_max: u64,
    ) -> Result<Option<SpooledFile>> {
        let Source { range, form, .. } = self.find_source(key, &query, seen).await?;
        let RangeFacts { tag, revision, n_rows } = self.facts(range, form).await?;
        let is_unneeded = n_rows > rows_max || known.find(tag).is_some();
        if is_unneeded && !self.spool.has_file(tag) {
            return Ok(None);
        }
        // Written by a task, so that a later request finds the file if this one times out.
        let (sender, written) = oneshot::channel();
        let datasets = self.clone();
        self.group.spawn("download file", async move {
            let cell = datasets.spool.cell(tag);
            let file = cell.get_or_try_init(|| datasets.write_file(key, query)).await.cloned();
            let has_tag = |file: &SpooledFile| file.facts.is_some_and(|facts| facts.tag == tag);
            // If rows changed before they were read, the file does not have the expected entity tag.
            // Only the current request uses it.
            if !file.as_ref().is_ok_and(has_tag) {
                datasets.spool.files.lock().pop(&tag);
            }
            datasets.spool.trim();
            // Sending fails only if the client has disconnected.
            sender.send(file).ok();
        });
        match written.await.unwrap_or_else(|_| Err(OperationError::lost_task(&self.group))) {
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
    /// [`FILES_BYTES_MAX`] or all files exceed [`SPACE_BYTES_MAX`], and [`OperationError::Spool`] if the
    /// disk fails.
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
        let mut space = Space { n_bytes: 0, total: Arc::clone(&self.spool.n_bytes) };
        while let Some(part) = download.body.next().await {
            let part = part.map_err(|_| OperationError::lost_task(&self.group))?;
            if !space.grow(part.len() as u64) {
                return Err(OperationError::TooLarge);
            }
            to.write_all(&part).await.map_err(spool_error)?;
        }
        to.flush().await.map_err(spool_error)?;
        let Download { file_name, facts, revision, .. } = download;
        let (size_bytes, file) = (space.n_bytes, Arc::new(file));
        Ok(SpooledFile { file_name, facts, revision, size_bytes, file, _space: Arc::new(space) })
    }
}

fn spool_error(error: io::Error) -> OperationError {
    if error.kind() == io::ErrorKind::StorageFull {
        return OperationError::Store(StoreError::Full);
    }
    OperationError::Spool(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_of_a_file_is_counted_until_it_is_closed() {
        let total = Arc::default();
        let [mut old, mut new, mut next] =
            [(); 3].map(|()| Space { n_bytes: 0, total: Arc::clone(&total) });
        assert!(old.grow(FILES_BYTES_MAX));
        assert!(new.grow(FILES_BYTES_MAX));
        assert!(!next.grow(1), "no space");
        drop((old, next));
        assert!(!new.grow(1), "the file is too large");
        assert_eq!(total.load(Ordering::Relaxed), FILES_BYTES_MAX + 1);
    }
}
