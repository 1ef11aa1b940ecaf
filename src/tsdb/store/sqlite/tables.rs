//! Tables of the embedded dataset store, and the number of their format.

use db::connection::Schema;
use model::dataset::DatasetId;
use rusqlite::{Connection, Row};

/// Renames columns of the tables of the archive to the names that they have in PostgreSQL.
const TO_11: &str = "ALTER TABLE archived RENAME COLUMN rows TO n_rows;
     ALTER TABLE archived RENAME COLUMN bytes TO n_bytes;
     ALTER TABLE archived RENAME COLUMN first TO first_ts;
     ALTER TABLE archived RENAME COLUMN last TO last_ts;
     ALTER TABLE archived_cuts RENAME COLUMN first TO first_ts;
     ALTER TABLE archived_cuts RENAME COLUMN last TO last_ts;";

/// Adds the records of commits that removed or replaced rows.
const TO_12: &str = "CREATE TABLE row_changes (
    dataset INTEGER NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
    n INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    first_ts INTEGER,
    last_ts INTEGER,
    replaced BLOB NOT NULL,
    PRIMARY KEY (dataset, n)
) STRICT, WITHOUT ROWID;";

/// Allows packed lists in chunks (see `codec/packed.rs`), which older programs cannot read. Existing
/// chunks are not changed.
const TO_13: &str = "";

/// The tables and the number of their format, which increases with each change of the tables or of the
/// encoding of chunks.
///
/// Timestamps are microseconds since 1970. A key is its number in the accounts file.
///
/// - `datasets`: the catalog. `owner` is a key, or null for the service itself. A name is unique per
///   owner. `folded` is the name in lower case.
/// - `metadata`: one row for each field of a dataset. The index finds the datasets with a retention
///   limit.
/// - `columns`: `ordinal` is the position of a column in the dataset, from 0 without gaps. The name of a
///   deleted column starts with a tab, which no other name contains.
/// - `tags`, `dataset_tags`, `key_tags`: a key can read the datasets with which it shares a tag. The
///   `owner` of a tag is the key that attaches it to datasets and gives it to others. A name is unique
///   per owner.
/// - `terms`, `postings`: sets of datasets that share an owner, a tag or a metadata field (see
///   `postings.rs`).
/// - `name_runs`, `description_runs`: runs of three letters of lowercase names and descriptions.
///   `name_grams`, `description_grams`: single letters and pairs of letters of the same texts, as
///   hexadecimal digits. These tables are indexes and do not contain the texts themselves.
/// - `progress`: the writer's state of a dataset. `revision` is the number of its commits, `newest` the
///   timestamp of its latest row, and `kept_from` the timestamp before which rows were pruned. `n_fresh`
///   and `n_late` are upper bounds of the number of rows of `tail` after and before the end of the last
///   chunk. A trigger changes `layout` whenever a chunk is removed. As long as `layout` is unchanged,
///   new chunks come after all others. `archived_until` is the end of the last month that was ever
///   archived, `newest_archived` the timestamp of the latest archived row, and `removed` the revision of
///   the last commit that removed rows.
/// - `counters`: `row` is the last allocated row number. `era` is a random number, which a restored
///   backup replaces.
/// - `chunks`: about 1024 rows each, as `codec` encodes them. `resolution` is 0 for raw rows, otherwise
///   the length of a bucket in seconds. The spans of the chunks of a series do not overlap. `packed` is
///   1 if the columns are packed into as few bits as possible, 2 if they are damaged and cannot be
///   packed, and 3 for a new chunk of buckets, which is joined with its neighbors later. The column
///   `times` precedes `body`, so that it can be read without the body. `last_row` is the highest row
///   number in the chunk, 0 for buckets. Chunk ids are never reused.
/// - `tail`: single rows. A single row replaces the row of a chunk at the same timestamp. `replaces` is
///   1 if a chunk has such a row.
/// - `buckets`: `resolution` is the length of a bucket in seconds. A record replaces the bucket of a
///   chunk with the same start.
/// - `batches`: appends that a writer, which is a key, named `batch`, with the response. `n` counts the
///   batches of the writer, by which the oldest are found. `digest` is the digest of the request. A
///   batch of a deleted dataset is ignored.
/// - `archived`: files of the archive, each with the rows of the month that begins at `month`.
///   `archived_cuts` are the spans that were deleted since the file of the month was written (see
///   `store/archived.rs`). `state` is 0 for a file that is being written, 1 for the file in effect, and
///   2 for a file that is to be deleted. `changed` is the time of the last change of `state`.
///   `archive_lease` names the process that writes files.
/// - `row_changes`: the latest commits of each dataset that removed or replaced rows, which streams
///   follow. `n` counts them. A commit removed the rows from `first_ts`, or the start if it is null, to
///   `last_ts`. If `last_ts` is null, the commit added rows, and `replaced` has a bit for each of them in
///   descending order, beginning with the row `last_row` and the lowest bit of a byte. The bit is set if
///   the row replaced another. `last_row` is the highest row number at the commit.
/// - `doomed`: deleted datasets of which some `chunks`, `tail` or `buckets` are still to be
///   removed.
pub(super) const SCHEMA: Schema = Schema {
    name: "dataset store",
    version: 13,
    steps: &[TO_11, TO_12, TO_13],
    // `auto_vacuum` can only be set while the file is empty. The write-ahead log is copied to the file
    // after 4000 pages, which is rare enough for bulk loads and limits the log to 40 MB.
    pragmas: "PRAGMA auto_vacuum = incremental;
PRAGMA foreign_keys = on;
PRAGMA wal_autocheckpoint = 4000;",
    tables: "
CREATE TABLE datasets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    folded TEXT NOT NULL,
    description TEXT NOT NULL,
    owner INTEGER,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX datasets_name ON datasets (name, ifnull(owner, 0));
CREATE INDEX datasets_folded ON datasets (folded);
CREATE INDEX datasets_owner ON datasets (owner);

CREATE TABLE metadata (
    dataset INTEGER NOT NULL REFERENCES datasets (id),
    field TEXT NOT NULL,
    value TEXT NOT NULL,
    PRIMARY KEY (dataset, field)
) STRICT, WITHOUT ROWID;
CREATE INDEX metadata_keep ON metadata (dataset, field)
WHERE field IN ('keep_days', 'keep_bytes');

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
    name TEXT NOT NULL,
    is_public INTEGER NOT NULL,
    owner INTEGER
) STRICT;
CREATE UNIQUE INDEX tags_name ON tags (name, ifnull(owner, 0));
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

CREATE TABLE progress (
    dataset INTEGER PRIMARY KEY REFERENCES datasets (id),
    revision INTEGER NOT NULL,
    newest INTEGER,
    kept_from INTEGER,
    n_fresh INTEGER NOT NULL,
    n_late INTEGER NOT NULL,
    layout INTEGER NOT NULL DEFAULT 0,
    archived_until INTEGER,
    newest_archived INTEGER,
    removed INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE INDEX progress_late ON progress (dataset) WHERE n_late >= 2048;
CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('row', 0), ('era', random());

CREATE TABLE chunks (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    dataset INTEGER NOT NULL,
    resolution INTEGER NOT NULL,
    t_first INTEGER NOT NULL,
    t_last INTEGER NOT NULL,
    n INTEGER NOT NULL,
    packed INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    times BLOB NOT NULL,
    body BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX chunks_span ON chunks (dataset, resolution, t_last, t_first, n);
CREATE INDEX chunks_unpacked ON chunks (id) WHERE packed = 0;
CREATE INDEX chunks_last_row ON chunks (dataset, last_row);
CREATE TRIGGER chunks_removed AFTER DELETE ON chunks BEGIN
    UPDATE progress SET layout = layout + 1 WHERE dataset = old.dataset;
END;

CREATE TABLE tail (
    dataset INTEGER NOT NULL,
    t INTEGER NOT NULL,
    replaces INTEGER NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (dataset, t)
) STRICT, WITHOUT ROWID;

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

CREATE TABLE batches (
    writer INTEGER NOT NULL,
    n INTEGER NOT NULL,
    batch TEXT NOT NULL,
    dataset INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    rows INTEGER NOT NULL,
    digest BLOB NOT NULL,
    at INTEGER NOT NULL,
    PRIMARY KEY (writer, n)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX batches_key ON batches (writer, batch);

CREATE TABLE archived (
    dataset INTEGER NOT NULL,
    month INTEGER NOT NULL,
    stamp INTEGER NOT NULL,
    state INTEGER NOT NULL,
    changed INTEGER NOT NULL,
    key TEXT NOT NULL,
    n_rows INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    tail_bytes INTEGER NOT NULL,
    tail_crc INTEGER NOT NULL,
    first_ts INTEGER NOT NULL,
    last_ts INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    columns INTEGER NOT NULL,
    written INTEGER NOT NULL,
    PRIMARY KEY (dataset, month, stamp)
) STRICT, WITHOUT ROWID;
CREATE INDEX archived_doomed ON archived (changed) WHERE state <> 1;
CREATE TABLE archived_cuts (
    dataset INTEGER NOT NULL,
    month INTEGER NOT NULL,
    first_ts INTEGER NOT NULL,
    last_ts INTEGER NOT NULL,
    PRIMARY KEY (dataset, month, first_ts, last_ts)
) STRICT, WITHOUT ROWID;
CREATE TABLE archive_lease (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    holder INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;

CREATE TABLE row_changes (
    dataset INTEGER NOT NULL REFERENCES datasets (id) ON DELETE CASCADE,
    n INTEGER NOT NULL,
    revision INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    first_ts INTEGER,
    last_ts INTEGER,
    replaced BLOB NOT NULL,
    PRIMARY KEY (dataset, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE doomed (
    dataset INTEGER PRIMARY KEY
) STRICT;

INSERT INTO tags (name, is_public) VALUES ('public', 1);
",
};

/// Returns the era of the store, which makes its row numbers comparable.
pub(super) fn era(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT value FROM counters WHERE name = 'era'", [], |row| row.get(0))
}

/// Reads the dataset id in the first column.
pub(super) fn dataset_id(row: &Row<'_>) -> rusqlite::Result<DatasetId> {
    checked_id(row.get(0)?)
}

/// Converts a dataset id that was read from a table.
pub(super) fn checked_id(number: i64) -> rusqlite::Result<DatasetId> {
    DatasetId::new(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))
}
