//! Every table of the accounts file, and its version.

use db::connection::{RETRIED_OPEN_WAIT, Schema};

/// The file. Timestamps are microseconds since 1970.
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
pub(super) const SCHEMA: Schema = Schema {
    name: "accounts file",
    version: 2,
    pragmas: "",
    open_wait: RETRIED_OPEN_WAIT,
    tables: "
CREATE TABLE accounts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    folded TEXT NOT NULL UNIQUE,
    password TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE keys (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    hash BLOB NOT NULL UNIQUE,
    name TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    revoked_at INTEGER,
    account INTEGER REFERENCES accounts (id),
    prefix TEXT,
    used_at INTEGER,
    rate INTEGER,
    burst INTEGER,
    requests_per_day INTEGER,
    bytes_per_day INTEGER
) STRICT;
CREATE INDEX keys_of_account ON keys (account, id);
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
",
};
