//! Every table of the dataset store, and the number of their format.

use std::{iter::Peekable, time::Duration};

use db::connection::Schema;
use model::dataset::DatasetId;
use rusqlite::{Connection, Row};

use super::Result;

/// The store. Its version, the number of the format, grows with each change of the tables or of the
/// bytes of chunks.
///
/// Timestamps are microseconds since 1970. A key is a number of the accounts file.
///
/// - `datasets`: the catalog. `owner` is a key, null for the service's own. A name is unique among
///   its owner's. `folded` is the name in lower case.
/// - `metadata`: one row for each field of a dataset. The index finds the datasets that limit how
///   much they keep.
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
/// - `progress`: the writer's state of a dataset: `revision` counts its commits; `newest` is its
///   newest row; `kept_from` the timestamp before which rows were pruned; `n_fresh` and `n_late` bound
///   from above how many rows of `tail` are after and before the end of the last chunk; `layout`
///   changes whenever a chunk is removed, by a trigger, so that nothing that removes one can forget
///   it. While it stays, new chunks come after all others. `archived_until` is the end of the last month
///   that was ever archived, `newest_archived` the newest archived row, and `removed` the revision of the
///   last commit that removed rows.
/// - `counters`: `row` is the last row number given; `era` a random number, another one after the
///   store was restored from a backup.
/// - `chunks`: about 1024 rows each, as `codec` writes them. `resolution` is 0 for raw rows, else as
///   in `buckets`. The spans of a dataset's chunks of one resolution do not overlap. `packed` is 1 if
///   the columns are in as few bits as possible, 2 if they are damaged and cannot be, and 3 of new
///   buckets, of which several chunks become one that is packed. `times` stands before `body` so that
///   it can be read alone. `last_row` is the highest row number in it, 0 for buckets. A chunk's own
///   number is never given twice.
/// - `tail`: single rows, which win over a chunk's row at the same timestamp; `replaces` is 1 if there
///   is one.
/// - `buckets`: `resolution` is a bucket's length in seconds. They win over the buckets of `chunks`
///   at the same timestamps.
/// - `batches`: appends that their writer, a key, called `batch`, with what it was answered. `n` counts
///   the writer's batches, so that the oldest are found. `digest` is that of the request. The dataset
///   may be deleted; then the batch is as if it were not there.
/// - `archived`: files of the archive, each with the rows of the month that begins at `month`, and
///   `archived_cuts`: spans whose rows were deleted since the file of the month was written (see
///   `store/archived.rs`). `state` is 0 of a file that is being written, 1 of the one in effect, and 2
///   of one that is to be deleted, for which `changed` counts. `archive_lease` names the process that
///   writes them.
/// - `doomed`: deleted datasets, invisible already, of which some `chunks`, `tail` or `buckets` are
///   still to be removed.
pub(super) const SCHEMA: Schema = Schema {
    name: "dataset store",
    version: 10,
    steps: &[],
    // Space that compaction frees is given back: only a file without tables takes that. The log is
    // moved into the file after 4000 pages: enough that a bulk load does not do it all the time, few
    // enough that the log stays below 40 MB.
    pragmas: "PRAGMA auto_vacuum = incremental;
PRAGMA foreign_keys = on;
PRAGMA wal_autocheckpoint = 4000;",
    // As long as a backup holds the file.
    open_wait: Duration::from_secs(5),
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
    rows INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    sha256 BLOB NOT NULL,
    tail_bytes INTEGER NOT NULL,
    tail_crc INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    last_row INTEGER NOT NULL,
    columns INTEGER NOT NULL,
    written INTEGER NOT NULL,
    PRIMARY KEY (dataset, month, stamp)
) STRICT, WITHOUT ROWID;
CREATE INDEX archived_doomed ON archived (changed) WHERE state <> 1;
CREATE TABLE archived_cuts (
    dataset INTEGER NOT NULL,
    month INTEGER NOT NULL,
    first INTEGER NOT NULL,
    last INTEGER NOT NULL,
    PRIMARY KEY (dataset, month, first, last)
) STRICT, WITHOUT ROWID;
CREATE TABLE archive_lease (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    holder INTEGER NOT NULL,
    until INTEGER NOT NULL
) STRICT;

CREATE TABLE doomed (
    dataset INTEGER PRIMARY KEY
) STRICT;

INSERT INTO tags (name, is_public) VALUES ('public', 1);
",
};

/// The store's era: another number after it was restored from a backup.
pub(super) fn era(connection: &Connection) -> rusqlite::Result<i64> {
    connection.query_row("SELECT value FROM counters WHERE name = 'era'", [], |row| row.get(0))
}

/// The dataset's number in the first column.
pub(super) fn dataset_id(row: &Row<'_>) -> rusqlite::Result<DatasetId> {
    checked_id(row.get(0)?)
}

/// The dataset of a stored number.
pub(super) fn checked_id(number: i64) -> rusqlite::Result<DatasetId> {
    DatasetId::new(number).ok_or(rusqlite::Error::IntegralValueOutOfRange(0, number))
}

/// Takes the next of `rows`, if `is_wanted`.
pub(super) fn next_if<T>(
    rows: &mut Peekable<impl Iterator<Item = rusqlite::Result<T>>>,
    is_wanted: impl Fn(&T) -> bool,
) -> Result<Option<T>> {
    let next = rows.next_if(|next| next.as_ref().map_or(true, &is_wanted));
    Ok(next.transpose()?)
}
