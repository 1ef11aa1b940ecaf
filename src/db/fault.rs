//! Classifies errors of SQLite, and describes each in a sentence.

use std::error::Error as StdError;
use std::io;

use rusqlite::ffi::{SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
use rusqlite::{Error, ErrorCode};

/// Error type of the work that is run on a connection to either engine.
pub trait WorkError: StdError + Send + 'static {
    /// Returns true if a write failed for lack of space.
    fn is_full(&self) -> bool;
}

/// Class of an error of SQLite.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FaultKind {
    /// A write failed for lack of space.
    Full,
    /// Another process has locked the file, so a retry can succeed.
    Busy,
    /// The file or its directory cannot be written.
    ReadOnly,
    /// The file is corrupt or not a database.
    Damaged,
    /// Another error of SQLite, or for example a value of an unexpected type.
    Other,
}

/// An error of SQLite as one sentence, without a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DatabaseFault {
    /// Class of the error.
    pub kind: FaultKind,
    text: String,
}

impl From<Error> for DatabaseFault {
    /// SQLite reports `ENOSPC` as `SQLITE_FULL`, but an exceeded quota (`EDQUOT`) or file size limit
    /// (`EFBIG`) as `SQLITE_IOERR_WRITE`. The latter is no sign of a broken disk, on which a sync fails.
    fn from(error: Error) -> Self {
        let code = error.sqlite_error();
        let is_quota = |extended| matches!(extended, SQLITE_IOERR_WRITE | SQLITE_IOERR_SHMSIZE);
        let (kind, text) = match code.map(|code| code.code) {
            _ if code.is_some_and(|code| is_quota(code.extended_code)) => {
                (FaultKind::Full, "no space left on the disk")
            }
            Some(ErrorCode::DiskFull) => (FaultKind::Full, "no space left on the disk"),
            Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => (
                FaultKind::ReadOnly,
                "file or directory is not writable by this user, or its file system is read-only",
            ),
            Some(ErrorCode::CannotOpen) => (
                FaultKind::Other,
                "file cannot be opened or created by this user, or its file system is read-only",
            ),
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                (FaultKind::Busy, "file is in use by another process")
            }
            Some(ErrorCode::NotADatabase) => (FaultKind::Damaged, "file is not a database"),
            Some(ErrorCode::DatabaseCorrupt) => (FaultKind::Damaged, ""),
            _ => (FaultKind::Other, ""),
        };
        let text = if text.is_empty() { error.to_string() } else { text.to_owned() };
        Self { kind, text }
    }
}

impl From<io::Error> for DatabaseFault {
    fn from(error: io::Error) -> Self {
        Self { kind: FaultKind::Other, text: error.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use rusqlite::ffi;

    use super::*;

    fn fault(extended_code: i32) -> DatabaseFault {
        let text = Some("text of SQLite".to_owned());
        DatabaseFault::from(Error::SqliteFailure(ffi::Error::new(extended_code), text))
    }

    #[test]
    fn error_text_of_a_database_fault_is_readable_without_a_code() {
        let text = fault(ffi::SQLITE_READONLY_DIRECTORY).to_string();
        let want =
            "file or directory is not writable by this user, or its file system is read-only";
        assert_eq!(text, want);
        assert_eq!(fault(ffi::SQLITE_IOERR).to_string(), "text of SQLite");
    }

    #[test]
    fn sqlite_errors_are_classified_by_their_extended_codes() {
        assert!(fault(ffi::SQLITE_READONLY_DIRECTORY).kind == FaultKind::ReadOnly);
        assert!(fault(ffi::SQLITE_NOTADB).kind == FaultKind::Damaged);
        assert!(fault(ffi::SQLITE_BUSY_RECOVERY).kind == FaultKind::Busy);
        for code in [ffi::SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMSIZE] {
            assert_eq!(fault(code).kind, FaultKind::Full, "{code}");
        }
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_FSYNC] {
            assert_eq!(fault(code).kind, FaultKind::Other, "{code}");
        }
    }
}
