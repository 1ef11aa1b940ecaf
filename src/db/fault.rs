//! What an error of SQLite means, as one sentence for people.

use rusqlite::{
    Error, ErrorCode,
    ffi::{self, SQLITE_IOERR_SHMSIZE, SQLITE_IOERR_WRITE},
};

/// An error of SQLite as people read it: one sentence without a source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct DatabaseFault {
    /// None where the error is not SQLite's own, such as a value of another type.
    code: Option<ffi::Error>,
    text: String,
}

impl From<&Error> for DatabaseFault {
    fn from(error: &Error) -> Self {
        let mut fault = Self { code: error.sqlite_error().copied(), text: error.to_string() };
        let plain = match fault.kind() {
            _ if fault.is_full() => "there is no space left on the disk",
            Some(ErrorCode::PermissionDenied | ErrorCode::ReadOnly) => {
                "this user may not write to the file, or not to its folder"
            }
            Some(ErrorCode::CannotOpen) => "this user cannot open it as a file",
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                "another process is using the file"
            }
            Some(ErrorCode::NotADatabase) => "the file is not a database",
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
    /// Whether there was no space for what was to be written.
    ///
    /// SQLite reports `ENOSPC` as `SQLITE_FULL`, but a quota (`EDQUOT`) and a limit of the file's size
    /// (`EFBIG`) as a failed write. The errors of a broken disk show when it syncs.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.kind() == Some(ErrorCode::DiskFull)
            || self.code.is_some_and(|code| {
                matches!(code.extended_code, SQLITE_IOERR_WRITE | SQLITE_IOERR_SHMSIZE)
            })
    }

    /// Whether another process held the file, so that a retry may help.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.kind() == Some(ErrorCode::DatabaseBusy)
    }

    /// Whether the file, or its folder, cannot be written to.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.kind() == Some(ErrorCode::ReadOnly)
    }

    /// Whether the file is not what SQLite wrote.
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
        let text = Some("what SQLite says".to_owned());
        Error::SqliteFailure(ffi::Error::new(extended_code), text).into()
    }

    #[test]
    fn an_error_is_one_sentence_without_its_number() {
        assert!(fault(ffi::SQLITE_READONLY_DIRECTORY).to_string().starts_with("this user may not"));
        assert_eq!(fault(ffi::SQLITE_IOERR).to_string(), "what SQLite says");
    }

    #[test]
    fn an_error_is_classified_by_its_extended_code() {
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
