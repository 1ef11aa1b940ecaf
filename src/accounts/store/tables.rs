//! Every table of the accounts file, and its version.

use rusqlite::{Connection, TransactionBehavior};

use super::{StoreError, opening};

/// The steps from each version of the file to the next. The file's version, kept in SQLite's
/// `user_version`, is the number of steps taken. Timestamps are microseconds since 1970.
///
/// `keys`: one row for each API key ever made. `hash` is the SHA-256 of the key's text, `prefix` how
/// that text begins; a key is good while `revoked_at` is null. `account` is null for a key that an
/// operator made, or whose account is gone. Limits are null where the service's are to hold, 0 for
/// none.
///
/// `accounts`: `folded` is the name in small letters; `password` is an argon2id hash in the PHC form.
///
/// `sessions`: `hash` is the SHA-256 of the token in a browser's cookie.
///
/// `settings`: what operators switch: `sign_up` is `open` or `closed`.
const STEPS: [&str; 2] = [
    "CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER
) STRICT",
    "CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    folded TEXT NOT NULL UNIQUE,
    password TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE sessions (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    account INTEGER NOT NULL REFERENCES accounts (id),
    client TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_of_account ON sessions (account);
CREATE INDEX sessions_by_end ON sessions (expires_at);
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT, WITHOUT ROWID;
ALTER TABLE keys ADD COLUMN account INTEGER REFERENCES accounts (id);
ALTER TABLE keys ADD COLUMN prefix TEXT;
ALTER TABLE keys ADD COLUMN used_at INTEGER;
ALTER TABLE keys ADD COLUMN rate INTEGER;
ALTER TABLE keys ADD COLUMN burst INTEGER;
ALTER TABLE keys ADD COLUMN requests_per_day INTEGER;
ALTER TABLE keys ADD COLUMN bytes_per_day INTEGER;
CREATE INDEX keys_of_account ON keys (account, id);",
];

/// Brings the file to this program's version, in one transaction.
pub(super) fn set_up(connection: &mut Connection) -> Result<(), StoreError> {
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let found: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(opening)?;
    // Opening writes nothing where there is nothing to do, and waits for no writer.
    if found == known {
        return Ok(());
    }
    let write =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(opening)?;
    let found: i64 =
        write.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(opening)?;
    let n_taken = usize::try_from(found).unwrap_or(usize::MAX);
    let Some(steps) = STEPS.get(n_taken..) else {
        return Err(StoreError::Newer { found, known });
    };
    for step in steps {
        write.execute_batch(step).map_err(opening)?;
    }
    write.pragma_update(None, "user_version", known).map_err(opening)?;
    write.commit().map_err(opening)
}
