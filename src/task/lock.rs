//! Advisory locks: one process at a time uses a folder or a store.
//!
//! The system releases a lock when the process ends, however it ends.

use std::{
    fs::{File, OpenOptions, TryLockError},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    thread,
    time::Duration,
};

/// How often [`wait_for`] tries: for two seconds in all. A service that is just ending still holds
/// its lock.
const TRIES: u32 = 200;

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(10);

/// A file that this process has locked, until this is dropped.
#[derive(Debug)]
pub struct Lock(File);

impl Drop for Lock {
    /// Unlocks the file and does not leave it to closing it: a child process has a copy of it between
    /// its fork and its exec, which would keep the lock.
    fn drop(&mut self) {
        // It is closed next, which unlocks it, too.
        drop(self.0.unlock());
    }
}

/// Locks the file at `path`, which is created if it is missing. None if it is locked already.
///
/// # Errors
/// If the file cannot be created or locked.
pub fn try_lock(path: &Path) -> io::Result<Option<Lock>> {
    let mut options = OpenOptions::new();
    // Another user who can open it can lock it.
    options.create(true).truncate(false).write(true).mode(0o600);
    let file = options.open(path)?;
    match file.try_lock() {
        Ok(()) => Ok(Some(Lock(file))),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// As [`try_lock`], but waits up to two seconds for another process that is about to end. Blocks.
///
/// # Errors
/// As [`try_lock`].
pub fn wait_for(path: &Path) -> io::Result<Option<Lock>> {
    for _ in 1..TRIES {
        match try_lock(path)? {
            None => thread::park_timeout(PAUSE),
            locked => return Ok(locked),
        }
    }
    try_lock(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_locked_once_at_a_time() {
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
    fn a_dropped_lock_is_free_while_a_copy_of_its_file_is_open() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("lock");
        let held = try_lock(&path).unwrap().unwrap();
        let copy_of_a_child = held.0.try_clone().unwrap();
        drop(held);
        assert!(try_lock(&path).unwrap().is_some());
        drop(copy_of_a_child);
    }
}
