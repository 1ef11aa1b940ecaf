//! Every table of the dataset store, and its version.

use rusqlite::{Connection, TransactionBehavior, params};

use super::{StoreError, opening};
use model::dataset::PUBLIC_TAG;

/// The steps from each version of the store to the next. The store's version, kept in SQLite's
/// `user_version`, is the number of steps taken.
///
/// Moments are microseconds since 1970. A key is a number of the accounts file.
///
/// - `datasets`: the catalogue. `owner` is a key, null for the service's own.
/// - `metadata`: one row for each field of a dataset.
/// - `columns`: `ordinal` is a column's place in the dataset, from 0 without gaps.
/// - `tags`, `dataset_tags`, `key_tags`: a key sees the datasets that share a tag with it.
/// - `progress`: what the writer knows of a dataset: `revision` counts its commits; `newest` is its
///   newest row; `kept_from` the moment before which rows were let go; `n_fresh` and `n_late` bound
///   from above how many rows of `tail` are after and before the end of the last chunk.
/// - `counters`: `row` is the last row number given.
/// - `chunks`: about 1024 rows each, as `block::codec` writes them. `resolution` is 0, for raw rows.
///   The spans of a dataset's chunks do not overlap. `times` stands before `body` so that it can be
///   read alone.
/// - `tail`: single rows, which win over a chunk's row at the same moment; `replaces` is 1 if there
///   is one.
/// - `buckets`: `resolution` is a bucket's length in seconds.
const STEPS: [&str; 1] = ["
CREATE TABLE datasets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    description TEXT NOT NULL,
    owner INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE INDEX datasets_owner ON datasets (owner);

CREATE TABLE metadata (
    dataset INTEGER NOT NULL REFERENCES datasets (id),
    field TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (dataset, field)
) STRICT, WITHOUT ROWID;
CREATE INDEX metadata_value ON metadata (field, value, dataset);

CREATE TABLE columns (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset INTEGER NOT NULL REFERENCES datasets (id),
    ordinal INTEGER NOT NULL,
    name TEXT NOT NULL,
    dtype TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    UNIQUE (dataset, ordinal),
    UNIQUE (dataset, name)
) STRICT;

CREATE TABLE tags (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL UNIQUE,
    is_public INTEGER NOT NULL
) STRICT;
CREATE TABLE dataset_tags (
    dataset INTEGER NOT NULL REFERENCES datasets (id),
    tag INTEGER NOT NULL REFERENCES tags (id),
    PRIMARY KEY (dataset, tag)
) STRICT, WITHOUT ROWID;
CREATE INDEX dataset_tags_tag ON dataset_tags (tag, dataset);
CREATE TABLE key_tags (
    key INTEGER NOT NULL,
    tag INTEGER NOT NULL REFERENCES tags (id),
    PRIMARY KEY (key, tag)
) STRICT, WITHOUT ROWID;

CREATE TABLE progress (
    dataset INTEGER PRIMARY KEY REFERENCES datasets (id),
    revision INTEGER NOT NULL,
    newest INTEGER,
    kept_from INTEGER,
    n_fresh INTEGER NOT NULL,
    n_late INTEGER NOT NULL
) STRICT;
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY,
    dataset INTEGER NOT NULL REFERENCES datasets (id),
    resolution INTEGER NOT NULL,
    t_first INTEGER NOT NULL,
    t_last INTEGER NOT NULL,
    n INTEGER NOT NULL,
    times BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunks_span ON chunks (dataset, resolution, t_last, t_first, n);

CREATE TABLE tail (
    dataset INTEGER NOT NULL REFERENCES datasets (id),
    t INTEGER NOT NULL,
    replaces INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (dataset, t)
) STRICT, WITHOUT ROWID;

CREATE TABLE buckets (
    dataset INTEGER NOT NULL REFERENCES datasets (id),
    resolution INTEGER NOT NULL,
    t INTEGER NOT NULL,
    open REAL NOT NULL,
    high REAL NOT NULL,
    low REAL NOT NULL,
    close REAL NOT NULL,
    volume REAL NOT NULL,
    count INTEGER NOT NULL,
    PRIMARY KEY (dataset, resolution, t)
) STRICT, WITHOUT ROWID;

INSERT INTO counters (name, value) VALUES ('row', 0);
"];

/// Brings the store to this program's version, in one transaction.
pub(super) fn set_up(connection: &mut Connection) -> Result<(), StoreError> {
    let write =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(opening)?;
    let found: i64 =
        write.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(opening)?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    let n_taken = usize::try_from(found).unwrap_or(usize::MAX);
    let Some(steps) = STEPS.get(n_taken..) else {
        return Err(StoreError::Newer { found, known });
    };
    for step in steps {
        write.execute_batch(step).map_err(opening)?;
    }
    write
        .execute("INSERT OR IGNORE INTO tags (name, is_public) VALUES (?1, 1)", params![PUBLIC_TAG])
        .map_err(opening)?;
    write.pragma_update(None, "user_version", known).map_err(opening)?;
    write.commit().map_err(opening)
}
