//! Tables of the accounts and their format versions, in a file and in a database.

use db::connection;
use db::postgres::schema;

/// Schema of the file. Timestamps are microseconds since 1970.
///
/// `keys`: one row for each API key ever created. `hash` is the SHA-256 of the key's text, and `prefix`
/// contains its first characters. A key is valid if `revoked_at` is null. `account` is null if an
/// operator created the key, or if the key's account was deleted. If a limit is null, the service's
/// limit applies, and 0 means no limit.
///
/// `accounts`: `folded` is the name in lower case, and `password` an argon2id hash as a PHC string.
///
/// `sessions`: `hash` is the SHA-256 of the token in a browser's cookie.
///
/// `settings`: settings made by operators. `sign_up` is `open` or `closed`.
pub(super) const FILE: connection::Schema = connection::Schema {
    name: "accounts file",
    version: 2,
    steps: &[],
    pragmas: "",
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

/// Schema of the database: the same tables, and `keys_version`, which has a single row with the version
/// of the keys. Each table has a primary key, since logical replication requires a primary key.
pub(super) const DATABASE: schema::Schema = schema::Schema {
    name: "accounts",
    version: 3,
    steps: &[],
    tables: r"
CREATE TABLE accounts (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text NOT NULL,
    folded text NOT NULL UNIQUE,
    password text NOT NULL,
    created_at bigint NOT NULL
);
CREATE TABLE keys (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    name text NOT NULL,
    created_at bigint NOT NULL,
    revoked_at bigint,
    account bigint REFERENCES accounts (id),
    prefix text,
    used_at bigint,
    rate bigint,
    burst bigint,
    requests_per_day bigint,
    bytes_per_day bigint
);
CREATE INDEX keys_of_account ON keys (account, id);
CREATE TABLE keys_version (id integer PRIMARY KEY CHECK (id = 1), version bigint NOT NULL);
INSERT INTO keys_version VALUES (1, 0);
CREATE TABLE sessions (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    hash bytea NOT NULL UNIQUE,
    account bigint NOT NULL REFERENCES accounts (id),
    client text NOT NULL,
    created_at bigint NOT NULL,
    expires_at bigint NOT NULL
);
CREATE INDEX sessions_of_account ON sessions (account);
CREATE INDEX sessions_by_end ON sessions (expires_at);
CREATE TABLE settings (name text PRIMARY KEY, value text NOT NULL);
",
};
