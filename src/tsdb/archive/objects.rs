//! Objects of the archive, on S3 or in a directory, accessed with `object_store`.
//!
//! Requests use a separate small runtime, so that a reader can block any thread until its request
//! completes.

mod error;
mod url;

use std::fs::File;
use std::future::Future;
use std::io::Read as _;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryFutureExt as _;
use futures::executor::block_on;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{
    BackoffConfig, ClientOptions, ObjectMeta, ObjectStore, ObjectStoreExt as _, PutMode,
    RetryConfig, UpdateVersion, WriteMultipart,
};
use task::process::install_crypto;
use tokio::runtime::{Builder, Runtime};
use tokio::task::unconstrained;
use tokio::time::timeout;

pub use self::error::ObjectError;
use self::error::REPLACED;
use self::url::Target;
pub use self::url::{ArchiveUrl, ArchiveUrlError};

/// Timeout for connecting. A server that is up responds within a round trip.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Timeout for a read with its retries. It is shorter than the timeout of the request for a page.
const READ_WITHIN: Duration = Duration::from_secs(20);

/// Timeout for a single request, which sends up to 8 MiB.
const REQUEST_WITHIN: Duration = Duration::from_secs(64);

/// Maximum number of retries of a request within [`RETRY_WITHIN`], after a temporary error such as
/// `SlowDown`.
const RETRIES: usize = 4;

/// Time during which a request is retried, counted from the first attempt. A restart of the server takes
/// less.
const RETRY_WITHIN: Duration = Duration::from_secs(10);

/// Pause before the first retry. Each later pause is up to twice as long as the previous one.
const PAUSE_FIRST: Duration = Duration::from_millis(100);

/// Longest pause before a retry.
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Size of a part of an upload. S3 accepts 10 000 parts of at least 5 MiB.
const PART_BYTES: usize = 8 * 1024 * 1024;

/// Number of parts that are sent in parallel.
const PARTS_AT_ONCE: usize = 4;

/// Name of the file that a writer locks if the archive is a directory. It is hidden, so that other
/// programs skip it.
const LOCK: &str = ".lock";

/// Threads of the runtime. Two suffice, since they only wait for requests.
const THREADS: usize = 2;

/// Result of an operation on the objects of an archive.
pub(crate) type Result<T, E = ObjectError> = std::result::Result<T, E>;

/// Objects of an archive, in a directory or on S3.
#[derive(derive_more::Debug)]
#[debug("Objects({place})")]
pub struct Objects {
    #[debug(skip)]
    store: Arc<dyn ObjectStore>,
    /// Lock file for writers in a directory; `None` on S3.
    #[debug(skip)]
    lock: Option<PathBuf>,
    /// Address of the archive for messages, without credentials.
    place: String,
    /// `None` only while the value is dropped.
    #[debug(skip)]
    runtime: Option<Runtime>,
}

impl Drop for Objects {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

impl Objects {
    /// Returns the objects at `url`. Does not contact S3 yet.
    ///
    /// # Errors
    /// [`ObjectError::NoDirectory`] if the directory does not exist or is a file, since its disk can be
    /// missing.
    /// [`ObjectError::Failed`] if the settings are incomplete.
    pub fn open(url: &ArchiveUrl) -> Result<Self> {
        Self::connect(url, AmazonS3Builder::from_env())
    }

    /// Returns the objects at `url`, with the credentials of `builder`.
    pub(super) fn connect(url: &ArchiveUrl, builder: AmazonS3Builder) -> Result<Self> {
        let mut lock = None;
        let store: Arc<dyn ObjectStore> = match &url.target {
            Target::Directory(path) => {
                lock = Some(path.join(LOCK));
                match std::fs::metadata(path) {
                    Ok(found) if found.is_dir() => {}
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                        return Err(ObjectError::Failed(error.into()));
                    }
                    _ => return Err(ObjectError::NoDirectory { path: path.clone() }),
                }
                let directory = LocalFileSystem::new_with_prefix(path)
                    .map_err(|error| ObjectError::Failed(error.into()))?;
                Arc::new(directory.with_fsync(true))
            }
            Target::Bucket { bucket, prefix, options } => {
                install_crypto();
                let endpoint = options.get(&AmazonS3ConfigKey::Endpoint);
                let is_plain = endpoint.is_some_and(|url| url.starts_with("http://"));
                let client = ClientOptions::new()
                    .with_allow_http(is_plain)
                    .with_connect_timeout(CONNECT_WITHIN)
                    .with_timeout(REQUEST_WITHIN);
                let backoff =
                    BackoffConfig { init_backoff: PAUSE_FIRST, max_backoff: PAUSE_MAX, base: 2.0 };
                let retry =
                    RetryConfig { backoff, max_retries: RETRIES, retry_timeout: RETRY_WITHIN };
                let builder =
                    builder.with_client_options(client).with_retry(retry).with_bucket_name(bucket);
                let builder = options
                    .iter()
                    .fold(builder, |builder, (key, value)| builder.with_config(*key, value));
                let bucket = builder.build().map_err(|error| ObjectError::Failed(error.into()))?;
                Arc::new(PrefixStore::new(bucket, prefix.clone()))
            }
        };
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("archive")
            .enable_all()
            .build()
            .map_err(|error| ObjectError::Failed(error.into()))?;
        Ok(Self { store, lock, place: url.to_string(), runtime: Some(runtime) })
    }

    /// Returns the address of the archive for messages.
    #[must_use]
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Checks that the archive responds, by looking for an object. Blocks.
    ///
    /// # Errors
    /// The same [`ObjectError`] that a read would return.
    pub fn check(&self) -> Result<()> {
        self.has("dataset=0/check").map(drop)
    }

    /// Returns true if the object `key` exists. Blocks.
    ///
    /// # Errors
    /// The same [`ObjectError`] that a read would return.
    pub fn has(&self, key: &str) -> Result<bool> {
        Ok(self.find(key)?.is_some())
    }

    /// Reads a range of an object. Blocks.
    pub(crate) fn read_range(&self, key: &str, range: Range<u64>) -> Result<Bytes> {
        let (path, n_bytes) = (path(key)?, range.end - range.start);
        let read = self.store.get_range(&path, range);
        let read =
            self.wait(READ_WITHIN, read.map_err(|error| ObjectError::classify(key, error)))?;
        if read.len() as u64 == n_bytes {
            Ok(read)
        } else {
            Err(ObjectError::damaged(key, "it is too short"))
        }
    }

    /// Returns the version and the length of an object, or `None` if it does not exist. Blocks.
    pub(crate) fn find(&self, key: &str) -> Result<Option<ObjectMeta>> {
        let path = path(key)?;
        let head = self.store.head(&path).map_err(|error| ObjectError::classify(key, error));
        match self.wait(READ_WITHIN, head) {
            Ok(meta) => Ok(Some(meta)),
            Err(ObjectError::Missing { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes an object of `n_bytes` from a file. The object replaces the version `replaced`; `None`
    /// requires that no object exists. The write takes effect as a whole, or not at all if the current
    /// version is a different one. Blocks.
    pub(crate) fn replace(
        &self,
        key: &str,
        replaced: Option<ObjectMeta>,
        mut file: File,
        n_bytes: u64,
    ) -> Result<()> {
        let (store, path) = (&self.store, path(key)?);
        let n_parts = n_bytes.div_ceil(PART_BYTES as u64).max(1);
        let limit = REQUEST_WITHIN.saturating_mul(u32::try_from(n_parts).unwrap_or(u32::MAX));
        let lock = self.lock_directory(key)?;
        let write = async {
            let io = |source: std::io::Error| ObjectError::Failed(source.into());
            let failed = |error| ObjectError::classify(key, error);
            let mut part = Vec::new();
            if n_parts == 1 && lock.is_none() {
                file.read_to_end(&mut part).map_err(io)?;
                let mode = match replaced {
                    None => PutMode::Create,
                    Some(ObjectMeta { e_tag, version, .. }) => {
                        PutMode::Update(UpdateVersion { e_tag, version })
                    }
                };
                let put = store.put_opts(&path, part.into(), mode.into()).await;
                return put.map(drop).map_err(failed);
            }
            let upload = store.put_multipart(&path).await.map_err(failed)?;
            let mut upload = WriteMultipart::new_with_chunk_size(upload, PART_BYTES);
            let sent = async {
                loop {
                    part.clear();
                    file.by_ref().take(PART_BYTES as u64).read_to_end(&mut part).map_err(io)?;
                    if part.is_empty() {
                        break;
                    }
                    upload.wait_for_capacity(PARTS_AT_ONCE).await.map_err(failed)?;
                    upload.write(&part);
                }
                // The completion of a multipart upload cannot be conditional. In a directory, the lock
                // prevents conflicts. On S3, the version is compared as late as possible, when only the
                // last part and the completion are still to be sent.
                upload.wait_for_capacity(0).await.map_err(failed)?;
                let found = match store.head(&path).await {
                    Err(object_store::Error::NotFound { .. }) => None,
                    found => found.map_err(failed)?.e_tag,
                };
                if found == replaced.and_then(|replaced| replaced.e_tag) {
                    return Ok(());
                }
                Err(ObjectError::damaged(key, REPLACED))
            };
            if let Err(error) = within(limit, sent).await {
                // If the abort fails, S3 retains the uploaded parts, but they are not visible as an
                // object.
                upload.abort().await.ok();
                return Err(error);
            }
            upload.finish().await.map(drop).map_err(failed)
        };
        // Leaves time for the abort.
        self.wait(limit + REQUEST_WITHIN, write)
    }

    /// Deletes an object. A missing object is not an error. Blocks.
    pub(crate) fn delete(&self, key: &str) -> Result<()> {
        let _lock = self.lock_directory(key)?;
        let path = path(key)?;
        let delete = self.store.delete(&path).map_err(|error| ObjectError::classify(key, error));
        match self.wait(READ_WITHIN, delete) {
            Ok(()) | Err(ObjectError::Missing { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Waits for the lock of the directory, and removes the files that interrupted writes of `key` left.
    /// Their names have a `#` and a number after the key. Closing the returned file releases the lock.
    /// Does nothing on S3.
    fn lock_directory(&self, key: &str) -> Result<Option<File>> {
        let Some(path) = &self.lock else { return Ok(None) };
        let lock = || {
            let locked = File::create(path)?;
            locked.lock()?;
            let object = path.with_file_name(key);
            let folder = object.parent().filter(|folder| folder.is_dir());
            for entry in folder.map(std::fs::read_dir).transpose()?.into_iter().flatten() {
                let found = entry?.path();
                let is_left = found.to_str().and_then(|found| found.rsplit_once('#'));
                if is_left.is_some_and(|(whole, _)| std::path::Path::new(whole) == object) {
                    std::fs::remove_file(found)?;
                }
            }
            Ok(Some(locked))
        };
        lock().map_err(|error: std::io::Error| ObjectError::Failed(error.into()))
    }

    /// Runs `work` on a blocking thread of the runtime. Returns `None` if the program is stopping.
    pub(super) async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        self.runtime.as_ref()?.spawn_blocking(work).await.ok()
    }

    /// Blocks until a request completes. Can be called on any thread, except within another `block_on`.
    /// The tasks of its connections run on the runtime of the archive.
    fn wait<T>(&self, limit: Duration, request: impl Future<Output = Result<T>>) -> Result<T> {
        let _context = self.runtime.as_ref().map(Runtime::enter);
        block_on(unconstrained(within(limit, request)))
    }
}

async fn within<T>(limit: Duration, request: impl Future<Output = Result<T>>) -> Result<T> {
    timeout(limit, request).await.unwrap_or_else(|late| Err(ObjectError::Unreachable(late.into())))
}

fn path(key: &str) -> Result<Path> {
    Path::parse(key).map_err(|error| ObjectError::Failed(error.into()))
}
