//! Advisory locks, by which a single process at a time uses a directory or a store.
//!
//! The system releases a lock when its process exits, for any reason.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;
use std::{io, thread};

/// A file that this process has locked. Dropping it unlocks the file.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    /// Unlocks the file explicitly. Closing it is not enough while a child process has a copy of
    /// the descriptor, between fork and exec.
    fn drop(&mut self) {
        // If this fails, closing the file unlocks it in most cases.
        drop(self.0.unlock());
    }
}

/// Locks the file at `path`. Creates the file if it is missing. Returns `None` if the file is
/// already locked.
///
/// # Errors
/// If the file cannot be created or locked.
pub fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    let mut options = OpenOptions::new();
    // Any user who can open the file can lock it, so only its owner can open the file.
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Like [`try_lock`], but waits up to two seconds for the lock, since a service that is stopping can
/// still hold it. Blocks the thread.
///
/// # Errors
/// Same as [`try_lock`].
pub fn wait_for(path: &Path) -> io::Result<Option<Lock>> {
    for _ in 1..200 {
        match try_lock(path)? {
            None => thread::park_timeout(Duration::from_millis(10)),
            locked => return Ok(locked),
        }
    }
    try_lock(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lock_has_one_holder_at_a_time() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("lock");
        let held = try_lock(&path).unwrap();
        assert!(held.is_some());
        assert!(try_lock(&path).unwrap().is_none());
        let waiting = thread::scope(|scope| {
            let waiting = scope.spawn(|| wait_for(&path).unwrap().is_some());
            drop(held);
            waiting.join().unwrap()
        });
        assert!(waiting);
    }

    #[test]
    fn dropped_lock_is_free_even_if_a_copy_of_its_descriptor_is_open() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("lock");
        let held = try_lock(&path).unwrap().unwrap();
        let copy_of_a_child = held.0.try_clone().unwrap();
        drop(held);
        assert!(try_lock(&path).unwrap().is_some());
        drop(copy_of_a_child);
    }
}
