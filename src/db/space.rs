//! Tracks if the disk has space for writes.
//!
//! A store that rejected a write counts as full until a write of that size succeeds, since smaller
//! writes often fit into the remaining space. Without writers, the store makes a trial write and removes
//! it.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// Assumed size of a write of unknown or tiny size: some pages of the file and its indexes.
pub const CHANGE_BYTES: u64 = 64 << 10;

/// Size of the largest trial write. With more free space than this a disk is not full.
const TRIAL_BYTES_MAX: u64 = 64 << 20;

/// Pause between trial writes, so that health checks do not keep a full store busy.
const TRIAL_PAUSE: Duration = Duration::from_secs(1);

/// Statement that removes the table of [`write_trial_sql`].
pub const DROP_TRIAL_SQL: &str = "DROP TABLE IF EXISTS space_trial";

/// Returns statements that write `n_bytes` of no meaning to a SQLite file.
#[must_use]
pub fn write_trial_sql(n_bytes: u64) -> String {
    format!("{DROP_TRIAL_SQL}; CREATE TABLE space_trial AS SELECT randomblob({n_bytes}) AS body")
}

/// Space of a store, by the writes that it rejected and accepted.
#[derive(Debug)]
pub struct SpaceWatch {
    path: PathBuf,
    refused: Mutex<Option<Refused>>,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    /// Size of the largest rejected write.
    n_bytes: u64,
    next_trial: Instant,
}

impl SpaceWatch {
    /// Creates the watch of the file at `path`, which has space so far.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), refused: Mutex::default() }
    }

    /// Returns true if no write of the size that was rejected has succeeded since.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.refused.lock().is_some()
    }

    /// Records that a write of about `n_bytes` found no space. Returns true if the store was not
    /// full.
    pub fn refuse(&self, n_bytes: u64) -> bool {
        let mut refused = self.refused.lock();
        let was_full = refused.is_some();
        let n_bytes = n_bytes.clamp(1, TRIAL_BYTES_MAX);
        let now = Instant::now();
        let refused = refused.get_or_insert(Refused { n_bytes, next_trial: now });
        refused.n_bytes = refused.n_bytes.max(n_bytes);
        !was_full
    }

    /// Records a write of about `n_bytes`. Returns true if the store was full and no longer is.
    pub fn accept(&self, n_bytes: u64) -> bool {
        self.refused.lock().take_if(|refused| refused.n_bytes <= n_bytes).is_some()
    }

    /// Returns the size of a trial write to a full store, or `None` if it is too early, or the file
    /// system has less space than that. Blocks for a system call.
    pub fn next_trial(&self) -> Option<u64> {
        let mut refused = self.refused.lock();
        let refused = refused.as_mut()?;
        let now = Instant::now();
        if now < refused.next_trial {
            return None;
        }
        // The log is copied to the file later. If the free space is unknown, try.
        let needed = refused.n_bytes.saturating_mul(2);
        if free_bytes(&self.path).is_ok_and(|free| free < needed) {
            return None;
        }
        refused.next_trial = now + TRIAL_PAUSE;
        Some(refused.n_bytes)
    }
}

/// Returns the free bytes of the file system of `path` for users other than root.
#[cfg(unix)]
fn free_bytes(path: &Path) -> io::Result<u64> {
    let found = rustix::fs::statvfs(path)?;
    Ok(found.f_bavail.saturating_mul(found.f_frsize))
}

#[cfg(not(unix))]
fn free_bytes(_path: &Path) -> io::Result<u64> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn store_is_full_until_a_write_of_the_rejected_size_succeeds() {
        let watch = SpaceWatch::new(Path::new("/"));
        assert!(!watch.is_full() && !watch.accept(1));
        assert!(watch.refuse(5_000) && !watch.refuse(300));
        assert!(!watch.accept(4_999) && watch.is_full());
        assert_eq!(watch.next_trial(), Some(5_000));
        assert_eq!(watch.next_trial(), None, "too early");
        tokio::time::advance(TRIAL_PAUSE).await;
        assert_eq!(watch.next_trial(), Some(5_000));
        assert!(watch.accept(5_000) && !watch.is_full());
        assert_eq!(watch.next_trial(), None);
    }
}
