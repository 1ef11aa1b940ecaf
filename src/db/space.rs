//! Whether the disk has space for writes.
//!
//! A store that refused a write stays full until a write of that size succeeds: a smaller one often
//! fits into the space that is left. Where nobody writes, the store tries one that it then removes.

use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The size that is assumed of a write whose own is unknown or tiny: some pages of the file and of
/// its indexes. With less than this free a store takes next to nothing.
pub const CHANGE_BYTES: u64 = 64 << 10;

/// The largest write that is tried. More free space than this means that the disk is not full.
const TRIAL_BYTES_MAX: u64 = 64 << 20;

/// Between two trial writes, so that polling a full store's health does not keep it busy.
const TRIAL_PAUSE: Duration = Duration::from_secs(1);

/// Removes what [`write_trial_sql`] wrote, if it is there.
pub const DROP_TRIAL_SQL: &str = "DROP TABLE IF EXISTS space_trial";

/// Writes `n_bytes` to a SQLite file that mean nothing.
#[must_use]
pub fn write_trial_sql(n_bytes: u64) -> String {
    format!("{DROP_TRIAL_SQL}; CREATE TABLE space_trial AS SELECT randomblob({n_bytes}) AS body")
}

/// Whether a store has space, by the writes that it refused and took.
#[derive(Debug)]
pub struct SpaceWatch {
    path: PathBuf,
    refused: Mutex<Option<Refused>>,
}

#[derive(Debug, Clone, Copy)]
struct Refused {
    /// The size of the largest write that was refused.
    n_bytes: u64,
    next_trial: Instant,
}

impl SpaceWatch {
    /// The watch of the file at `path`, which had space so far.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), refused: Mutex::default() }
    }

    /// Whether a write of the size that was refused last has not succeeded since.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.refused.lock().is_some()
    }

    /// Notes that a write of about `n_bytes` found no space; whether the store was not full before.
    pub fn refuse(&self, n_bytes: u64) -> bool {
        let mut refused = self.refused.lock();
        let was_full = refused.is_some();
        let n_bytes = n_bytes.clamp(1, TRIAL_BYTES_MAX);
        let now = Instant::now();
        let refused = refused.get_or_insert(Refused { n_bytes, next_trial: now });
        refused.n_bytes = refused.n_bytes.max(n_bytes);
        !was_full
    }

    /// Notes that about `n_bytes` were written; whether the store was full and no longer is.
    pub fn accept(&self, n_bytes: u64) -> bool {
        self.refused.lock().take_if(|refused| refused.n_bytes <= n_bytes).is_some()
    }

    /// How many bytes to try to write to a full store; none if it is too early for that, or the file
    /// system has less than that free. Blocks for a call of the system.
    pub fn next_trial(&self) -> Option<u64> {
        let mut refused = self.refused.lock();
        let refused = refused.as_mut()?;
        let now = Instant::now();
        if now < refused.next_trial {
            return None;
        }
        // What goes to the log goes to the file later. A file system that says nothing is tried.
        let needed = refused.n_bytes.saturating_mul(2);
        if free_bytes(&self.path).is_ok_and(|free| free < needed) {
            return None;
        }
        refused.next_trial = now + TRIAL_PAUSE;
        Some(refused.n_bytes)
    }
}

/// Bytes that the file system of `path` has free for who is not root.
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
    async fn a_store_is_full_until_a_write_of_the_refused_size_succeeds() {
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
