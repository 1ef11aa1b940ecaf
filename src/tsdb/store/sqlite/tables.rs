//! Every table of the dataset store, and its version.

use std::cmp::Ordering;

use rusqlite::{Connection, TransactionBehavior, params};

use super::{StoreError, catalog, opening};
use model::dataset::PUBLIC_TAG;

/// The steps from each version of the store to the next. The store's version, kept in SQLite's
/// `user_version`, is the number of steps taken.
///
/// Moments are microseconds since 1970. A key is a number of the accounts file.
///
/// - `datasets`: the catalogue. `owner` is a key, null for the service's own. A name is unique among
///   its owner's. `folded` is the name in lower case.
/// - `metadata`: one row for each field of a dataset.
/// - `columns`: `ordinal` is a column's place in the dataset, from 0 without gaps. The name of a
///   deleted column starts with a tab, which no other name contains.
/// - `tags`, `dataset_tags`, `key_tags`: a key sees the datasets that share a tag with it. A tag's
///   `owner` is the key that uses it for its datasets, and gives it to others. A name is unique among
///   its owner's.
/// - `terms`, `postings`: which datasets an owner, a tag or a metadata field has, as sets (see
///   `postings.rs`).
/// - `name_runs`, `description_runs`: names and descriptions in lower case, by runs of three
///   letters. `name_grams`, `description_grams`: the single letters and pairs in them, each as
///   hexadecimal digits. None of them keeps the text itself.
/// - `progress`: what the writer knows of a dataset: `revision` counts its commits; `newest` is its
///   newest row; `kept_from` the moment before which rows were let go; `n_fresh` and `n_late` bound
///   from above how many rows of `tail` are after and before the end of the last chunk; `layout` is
///   another number after a chunk was removed, whoever did it. Without that, new chunks come after
///   all others.
/// - `counters`: `row` is the last row number given; `era` a random number that tells this life of
///   the store from one after it was restored from a copy; `since` the row number from which on
///   `last_row` of `chunks` is known.
/// - `chunks`: about 1024 rows each, as `block::codec` writes them. `resolution` is 0 for raw rows,
///   else as in `buckets`. The spans of a dataset's chunks of one resolution do not overlap. `packed`
///   is 1 if the columns are in as few bits as there are, 2 if they are damaged and cannot be, and 3 of
///   new buckets, of which several chunks become one that is packed. `times`
///   stands before `body` so that it can be read alone. `last_row` is the highest row number in it, 0
///   for buckets. A chunk's own number is never given twice.
/// - `tail`: single rows, which win over a chunk's row at the same moment; `replaces` is 1 if there
///   is one.
/// - `buckets`: `resolution` is a bucket's length in seconds. They win over the buckets of `chunks`
///   at the same moments.
/// - `doomed`: datasets that are deleted, as far as anyone sees, and of which some `chunks`, `tail`
///   or `buckets` are still there.
const STEPS: [&str; 7] = [FIRST, SECOND, THIRD, ROW_NUMBERS, LAYOUT, OWN_TAGS, RETENTION];

/// The tables of version 1.
pub(super) const FIRST: &str = "
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
";

/// Version 2 packs what is old, and deletes datasets before their rows, which no longer refer to them.
const SECOND: &str = "
INSERT INTO counters (name, value) VALUES ('era', random());

CREATE TABLE doomed (
    dataset INTEGER PRIMARY KEY
) STRICT;

ALTER TABLE chunks RENAME TO chunks_1;
DROP INDEX chunks_span;
CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset INTEGER NOT NULL,
    resolution INTEGER NOT NULL,
    t_first INTEGER NOT NULL,
    t_last INTEGER NOT NULL,
    n INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    times BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
INSERT INTO chunks
    SELECT id, dataset, resolution, t_first, t_last, n, 0, times, body FROM chunks_1;
DROP TABLE chunks_1;
CREATE UNIQUE INDEX chunks_span ON chunks (dataset, resolution, t_last, t_first, n);
CREATE INDEX progress_late ON progress (dataset) WHERE n_late >= 2048;
CREATE INDEX chunks_unpacked ON chunks (id) WHERE packed = 0;

ALTER TABLE tail RENAME TO tail_1;
CREATE TABLE tail (
    dataset INTEGER NOT NULL,
    t INTEGER NOT NULL,
    replaces INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (dataset, t)
) STRICT, WITHOUT ROWID;
INSERT INTO tail SELECT * FROM tail_1;
DROP TABLE tail_1;

ALTER TABLE buckets RENAME TO buckets_1;
CREATE TABLE buckets (
    dataset INTEGER NOT NULL,
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
INSERT INTO buckets SELECT * FROM buckets_1;
DROP TABLE buckets_1;
";

/// Version 3 finds datasets among a million, and has names that are unique for their owner alone.
const THIRD: &str = "
CREATE TABLE named (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    description TEXT NOT NULL,
    owner INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
INSERT INTO named SELECT id, name, lower(name), description, owner, created_at, updated_at
FROM datasets;
DROP TABLE datasets;
ALTER TABLE named RENAME TO datasets;
CREATE UNIQUE INDEX datasets_name ON datasets (name, ifnull(owner, 0));
CREATE INDEX datasets_folded ON datasets (folded);
CREATE INDEX datasets_owner ON datasets (owner);
DROP INDEX metadata_value;

ALTER TABLE tags ADD COLUMN owner INTEGER;
UPDATE tags SET owner = (
    SELECT d.owner FROM dataset_tags dt JOIN datasets d ON d.id = dt.dataset
    WHERE dt.tag = tags.id ORDER BY d.id LIMIT 1
) WHERE is_public = 0;
CREATE INDEX key_tags_tag ON key_tags (tag, key);

CREATE TABLE terms (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    kind INTEGER NOT NULL,
    name TEXT NOT NULL,
    value TEXT NOT NULL,
    UNIQUE (kind, name, value)
) STRICT;
CREATE TABLE postings (
    id INTEGER PRIMARY KEY,
    body BLOB NOT NULL
) STRICT;
CREATE VIRTUAL TABLE name_runs USING fts5 (
    body, content='', columnsize=0, tokenize='trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE description_runs USING fts5 (
    body, content='', columnsize=0, tokenize='trigram case_sensitive 1'
);
CREATE VIRTUAL TABLE name_grams USING fts5 (
    body, content='', columnsize=0, detail=none, tokenize='ascii'
);
CREATE VIRTUAL TABLE description_grams USING fts5 (
    body, content='', columnsize=0, detail=none, tokenize='ascii'
);
";

/// Version 4 finds the rows committed after a certain one, from the present last one on.
const ROW_NUMBERS: &str = "
ALTER TABLE chunks ADD COLUMN last_row INTEGER NOT NULL DEFAULT 0;
CREATE INDEX chunks_last_row ON chunks (dataset, last_row);
INSERT INTO counters (name, value) SELECT 'since', value FROM counters WHERE name = 'row';
";

/// Version 5 tells when what is known of a dataset's chunks no longer holds. A trigger does, so that
/// nothing that removes one can forget it.
const LAYOUT: &str = "
ALTER TABLE progress ADD COLUMN layout INTEGER NOT NULL DEFAULT 0;
CREATE TRIGGER chunks_removed AFTER DELETE ON chunks BEGIN
    UPDATE progress SET layout = layout + 1 WHERE dataset = old.dataset;
END;
";

/// Version 6 has tags whose names are unique for their owner alone, so that nobody learns by a name of
/// a tag of another key. What is found by a tag is found by its number.
const OWN_TAGS: &str = "
CREATE TABLE owned_tags (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    owner INTEGER
) STRICT;
INSERT INTO owned_tags SELECT id, name, is_public, owner FROM tags;
UPDATE terms SET kind = 4, name = (SELECT CAST(id AS TEXT) FROM tags WHERE tags.name = terms.name)
WHERE kind = 2;
DROP TABLE tags;
ALTER TABLE owned_tags RENAME TO tags;
CREATE UNIQUE INDEX tags_name ON tags (name, ifnull(owner, 0));
";

/// Version 7 finds the datasets that say how much they keep among a million.
const RETENTION: &str = "
CREATE INDEX metadata_keep ON metadata (dataset, field)
WHERE field IN ('keep_days', 'keep_bytes');
";

/// Whether the store is of this program's version, which nothing that only reads can bring it to.
pub(super) fn check_version(connection: &Connection) -> Result<(), StoreError> {
    let found: i64 =
        connection.pragma_query_value(None, "user_version", |row| row.get(0)).map_err(opening)?;
    let known = i64::try_from(STEPS.len()).unwrap_or(i64::MAX);
    match found.cmp(&known) {
        Ordering::Less => Err(StoreError::Older { found, known }),
        Ordering::Equal => Ok(()),
        Ordering::Greater => Err(StoreError::Newer { found, known }),
    }
}

/// The number of this life of the store.
pub(super) fn era(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT value FROM counters WHERE name = 'era'", [], |row| row.get(0))
}

/// The version at which the catalogue got its indexes, which SQL alone cannot fill.
const INDEXED_FROM: i64 = 3;

/// Brings the store to this program's version, in one transaction.
pub(super) fn set_up(connection: &mut Connection) -> Result<(), StoreError> {
    // A table that others refer to is made anew: what refers to it is right again at the end.
    let is_checked: bool =
        connection.pragma_query_value(None, "foreign_keys", |row| row.get(0)).map_err(opening)?;
    connection.pragma_update(None, "foreign_keys", false).map_err(opening)?;
    let done = take_steps(connection);
    connection.pragma_update(None, "foreign_keys", is_checked).map_err(opening)?;
    done
}

fn take_steps(connection: &mut Connection) -> Result<(), StoreError> {
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
    if (1..INDEXED_FROM).contains(&found) {
        catalog::index_all(&write)?;
    }
    write
        .execute("INSERT OR IGNORE INTO tags (name, is_public) VALUES (?1, 1)", params![PUBLIC_TAG])
        .map_err(opening)?;
    write.pragma_update(None, "user_version", known).map_err(opening)?;
    write.commit().map_err(opening)
}

#[cfg(test)]
pub(crate) mod tests;
