//! Classifies errors of SQLite, and describes each in a sentence.

use rusqlite::ffi::{self, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE};
use rusqlite::{Error, ErrorCode};

/// An error of SQLite as one sentence, without a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DatabaseFault {
    /// Code of the error. `None` if the error did not come from SQLite itself, but for example from a
    /// value of an unexpected type.
    code: Option<ffi::Error>,
    text: String,
}

impl From<&Error> for DatabaseFault {
    fn from(error: &Error) -> Self {
        let mut fault = Self { code: error.sqlite_error().copied(), text: error.to_string() };
        let plain = match fault.kind() {
            _ if fault.is_full() => "no space left on the disk",
            Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                "file or directory is not writable by this user, or its file system is read-only"
            }
            Some(ErrorCode::CannotOpen) => {
                "file cannot be opened or created by this user, or its file system is read-only"
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "file is in use by another process"
            }
            Some(ErrorCode::NotADatabase) => "file is not a database",
            _ => return fault,
        };
        plain.clone_into(&mut fault.text);
        fault
    }
}

impl From<Error> for DatabaseFault {
    fn from(error: Error) -> Self {
        Self::from(&error)
    }
}

impl DatabaseFault {
    /// Returns true if a write failed for lack of space.
    ///
    /// SQLite reports `ENOSPC` as `SQLITE_FULL`, but an exceeded quota (`EDQUOT`) or file size limit
    /// (`EFBIG`) as `SQLITE_IOERR_WRITE`. The latter is no sign of a broken disk, on which a sync fails.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind() == Some(ErrorCode::DiskFull)
            || self.code.is_some_and(|code| {
                matches!(code.extended_code, SQLITE_IOERR_WRITE | SQLITE_IOERR_SHMSIZE)
            })
    }

    /// Returns true if another process had locked the file, so a retry can succeed.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.kind() == Some(ErrorCode::DatabaseBusy)
    }

    /// Returns true if the file or its directory cannot be written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.kind() == Some(ErrorCode::ReadOnly)
    }

    /// Returns true if the file is corrupt or not a database.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        matches!(self.kind(), Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase))
    }

    fn kind(&self) -> Option<ErrorCode> {
        self.code.map(|code| code.code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fault(extended_code: i32) -> DatabaseFault {
        let text = Some("text of SQLite".to_owned());
        Error::SqliteFailure(ffi::Error::new(extended_code), text).into()
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
        assert!(fault(ffi::SQLITE_READONLY_DIRECTORY).is_read_only());
        assert!(fault(ffi::SQLITE_NOTADB).is_damaged());
        assert!(fault(ffi::SQLITE_BUSY_RECOVERY).is_busy());
        for code in [ffi::SQLITE_FULL, SQLITE_IOERR_WRITE, SQLITE_IOERR_SHMSIZE] {
            assert!(fault(code).is_full(), "{code}");
        }
        for code in [ffi::SQLITE_IOERR, ffi::SQLITE_IOERR_READ, ffi::SQLITE_IOERR_FSYNC] {
            assert!(!fault(code).is_full(), "{code}");
        }
    }
}
