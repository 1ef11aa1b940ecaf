//! Objects on S3, where old chunks go: put, read by ranges, deleted and listed.
//!
//! A thin layer over `object_store`, with time limits, and with errors that say what to do. A key is
//! written once and never changed, but for those that are replaced under conditions. Which objects are in
//! use is not known here: a bucket holds bytes, and PostgreSQL what they mean.

mod conditional;
mod error;
mod figures;
#[cfg(test)]
pub(in crate::store) mod test_server;
#[cfg(test)]
mod tests;
mod url;

use std::{fmt, future::Future, ops::Range, slice::from_ref, sync::Arc, time::Duration};

use bytes::Bytes;
use futures::{StreamExt as _, TryStreamExt as _};
use model::timestamp::Timestamp;
use object_store::{
    BackoffConfig, ClientOptions, GetOptions, ObjectStore, ObjectStoreExt as _, RetryConfig,
    aws::AmazonS3Builder, coalesce_ranges, memory::InMemory, path::Path, prefix::PrefixStore,
};
use tokio::{sync::OnceCell, time::timeout};
use uuid::Uuid;

use self::figures::Counts;
pub use self::{
    error::ObjectError,
    figures::ObjectFigures,
    url::{ColdUrl, ColdUrlError},
};

/// How long a connection may take to open. A server that is there answers within a round trip.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// How long reading may take, retries included: less than a reader waits for a step of a long read.
const READ_WITHIN: Duration = Duration::from_secs(20);

/// How long writing an object may take, retries included: 64 MiB at 1 MiB a second.
const WRITE_WITHIN: Duration = Duration::from_secs(64);

/// How often a request is repeated after an error that may pass, within [`RETRY_WITHIN`].
const RETRIES: usize = 4;

/// How long after the first attempt there may be another. A server that restarts within it is not
/// noticed by readers.
const RETRY_WITHIN: Duration = Duration::from_secs(10);

/// The first pause before a retry; later ones are up to twice as long each.
const PAUSE_FIRST: Duration = Duration::from_millis(100);

/// The longest pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Ranges that are no further apart are read in one request. Reading so much more takes about as long
/// as asking once more.
const GAP_BYTES: u64 = 128 * 1024;

/// The result of an operation on objects.
pub type Result<T, E = ObjectError> = std::result::Result<T, E>;

/// The objects below one prefix of a bucket. Cheap to clone; all clones share their connections.
///
/// Its requests need the context of a runtime. Dropping one midway is safe: an object is there as a
/// whole or not at all.
#[derive(Clone, derive_more::Debug)]
#[debug("Objects({place})")]
pub struct Objects {
    store: Arc<dyn ObjectStore>,
    /// Where they are, for messages.
    place: Arc<str>,
    counts: Arc<Counts>,
    /// Whether the server honors conditions of requests; empty until it was tried.
    honors_conditions: Arc<OnceCell<bool>>,
}

/// An object that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its key, without the prefix of the address.
    pub key: String,
    /// Its length in bytes.
    pub n_bytes: u64,
    /// When it was written, by the server's clock.
    pub written: Timestamp,
}

impl Objects {
    /// Returns the objects at `url`, with the credentials that the environment has. Connects to nobody
    /// yet.
    ///
    /// # Errors
    /// [`ObjectError::Prepare`] if half of the credentials is missing, or a variable has no sense.
    pub fn open(url: &ColdUrl) -> Result<Self> {
        Self::connect(url, AmazonS3Builder::from_env())
    }

    /// Returns the objects at `url`, with the credentials that `builder` has.
    fn connect(url: &ColdUrl, builder: AmazonS3Builder) -> Result<Self> {
        if rustls::crypto::CryptoProvider::get_default().is_none()
            && rustls::crypto::ring::default_provider().install_default().is_err()
        {
            tracing::debug!("another thread installed a provider of cryptography first");
        }
        let client = ClientOptions::new()
            .with_allow_http(url.is_plain())
            .with_connect_timeout(CONNECT_WITHIN)
            .with_timeout(WRITE_WITHIN);
        let backoff =
            BackoffConfig { init_backoff: PAUSE_FIRST, max_backoff: PAUSE_MAX, base: 2.0 };
        let retry = RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_WITHIN };
        let mut builder =
            builder.with_client_options(client).with_retry(retry).with_bucket_name(url.bucket());
        if let Some(endpoint) = url.endpoint() {
            builder = builder.with_endpoint(endpoint);
        }
        if let Some(region) = url.region() {
            builder = builder.with_region(region);
        }
        let bucket = builder.build().map_err(|error| ObjectError::Prepare(error.into()))?;
        let store = PrefixStore::new(bucket, url.prefix());
        Ok(Self::new(store, url.to_string()))
    }

    /// Returns a bucket of its own in memory, for tests.
    pub fn in_memory() -> Self {
        Self::new(InMemory::new(), "memory".to_owned())
    }

    fn new(store: impl ObjectStore, place: String) -> Self {
        let (counts, honors_conditions) = Default::default();
        Self { store: Arc::new(store), place: place.into(), counts, honors_conditions }
    }

    /// What was done with objects since this was opened, by all clones together.
    pub fn figures(&self) -> ObjectFigures {
        self.counts.read()
    }

    /// Notes whether another database owns the objects; whether that is new.
    pub(in crate::store) fn note_foreign(&self, is_foreign: bool) -> bool {
        self.counts.note_foreign(is_foreign)
    }

    /// Writes an object, which is durable when this returns. One of this key is replaced.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn put(&self, key: &str, bytes: Bytes) -> Result<()> {
        let path = path(key)?;
        let n_bytes = bytes.len();
        let put = async {
            let put = self.store.put(&path, bytes.into()).await;
            put.map_err(|error| ObjectError::classify(key, error))
        };
        self.within(WRITE_WITHIN, put).await?;
        self.counts.add_written(n_bytes);
        Ok(())
    }

    /// Reads ranges of bytes of an object, in their order. Near ones are read in one request.
    ///
    /// # Errors
    /// [`ObjectError::Missing`] if there is no such object, [`ObjectError::Short`] if it ends before
    /// one of the ranges does.
    pub async fn read_ranges(&self, key: &str, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        if let Some(range) = ranges.iter().find(|range| range.start > range.end) {
            return Err(ObjectError::Range { key: key.to_owned(), range: range.clone() });
        }
        let path = path(key)?;
        let fetch = |range| self.read_range(key, &path, range);
        let read = self.within(READ_WITHIN, coalesce_ranges(ranges, fetch, GAP_BYTES)).await?;
        self.counts.add_read(read.iter().map(Bytes::len).sum());
        Ok(read)
    }

    /// Reads one range; no more and no less, which [`coalesce_ranges`] relies on.
    async fn read_range(&self, key: &str, path: &Path, range: Range<u64>) -> Result<Bytes> {
        if range.is_empty() {
            return Ok(Bytes::new());
        }
        let short =
            |n_bytes| ObjectError::Short { key: key.to_owned(), n_bytes, wanted: range.end };
        let options = GetOptions::default().with_range(Some(range.clone()));
        let found = match self.store.get_opts(path, options).await {
            Ok(found) => found,
            Err(error) => {
                // Of one that ends before the range begins, servers say in many ways that it does.
                return Err(
                    match (ObjectError::classify(key, error), self.store.head(path).await) {
                        (ObjectError::Failed(_), Ok(meta)) if meta.size < range.end => {
                            short(meta.size)
                        }
                        (error, _) => error,
                    },
                );
            }
        };
        if found.range != range {
            return Err(short(found.meta.size));
        }
        let n_bytes = found.meta.size;
        let bytes = found.bytes().await.map_err(|error| ObjectError::classify(key, error))?;
        if bytes.len() as u64 == range.end - range.start { Ok(bytes) } else { Err(short(n_bytes)) }
    }

    /// Deletes an object. That there is none is not an error.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn delete(&self, key: &str) -> Result<()> {
        let path = path(key)?;
        let deletion = async {
            match self.store.delete(&path).await.map_err(|error| ObjectError::classify(key, error))
            {
                Ok(()) | Err(ObjectError::Missing { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        };
        self.within(READ_WITHIN, deletion).await?;
        self.counts.add_deleted();
        Ok(())
    }

    /// Lists objects below `folder`, or all where it is empty: those with keys after `after`, in the
    /// order of their keys, at most `limit`.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn list(
        &self,
        folder: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<StoredObject>> {
        let (folder, after) = (path(folder)?, after.map(path).transpose()?);
        let found = match after {
            Some(after) => self.store.list_with_offset(Some(&folder), &after),
            None => self.store.list(Some(&folder)),
        };
        let found =
            found.take(limit).map_err(|error| ObjectError::classify(folder.as_ref(), error));
        let objects = found.map_ok(|meta| StoredObject {
            key: meta.location.into(),
            n_bytes: meta.size,
            written: Timestamp::from_micros(meta.last_modified.timestamp_micros()),
        });
        self.within(READ_WITHIN, objects.try_collect()).await
    }

    /// Writes an object, reads it, lists it and deletes it.
    ///
    /// # Errors
    /// [`ObjectError`]: the first of these that failed, and why.
    pub async fn check(&self) -> Result<()> {
        let key = format!("check/{}", Uuid::new_v4());
        let sent = Bytes::from_static(b"triptych");
        self.put(&key, sent.clone()).await?;
        let read = self.read_ranges(&key, from_ref(&(1..sent.len() as u64))).await;
        let listed = self.list("check", None, 1).await;
        self.delete(&key).await?;
        if read?.concat() != sent[1..] || listed?.is_empty() {
            return Err(ObjectError::Unlike { key });
        }
        Ok(())
    }
}

impl Objects {
    /// Runs a request within a time limit, and counts it if it fails.
    async fn within<T>(&self, limit: Duration, work: impl Future<Output = Result<T>>) -> Result<T> {
        let late = |elapsed| Err(ObjectError::Unreachable(Box::new(elapsed)));
        let done = timeout(limit, work).await.unwrap_or_else(late);
        self.counts.add_outcome(done.as_ref().err());
        done
    }
}

impl fmt::Display for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.place)
    }
}

fn path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(|error| ObjectError::Prepare(error.into()))
}
