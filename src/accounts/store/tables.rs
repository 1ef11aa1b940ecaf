//! Every table of the accounts file, and its version.

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// The steps from each version of the file to the next. The file's version, kept in SQLite's
/// `user_version`, is the number of steps taken.
///
/// `keys`: one row for each API key ever made. `hash` is the SHA-256 of the key's text; moments are
/// microseconds since 1970; a key is good while `revoked_at` is null.
const STEPS: [&str; 1] = ["CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT"];

/// Brings the file to this program's version, in one transaction.
pub(super) fn set_up(connection: &mut Connection) -> Result<(), StoreError> {
    let write = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(StoreError::Open)?;
    let found: i64 = write
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .map_err(StoreError::Open)?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let n_taken = usize::try_from(found).unwrap_or(usize::MAX);
    let Some(steps) = STEPS.get(n_taken..) else {
        return Err(StoreError::Newer { found, known });
    };
    for step in steps {
        write.execute_batch(step).map_err(StoreError::Open)?;
    }
    write.pragma_update(None, "user_version", known).map_err(StoreError::Open)?;
    write.commit().map_err(StoreError::Open)
}
