//! Every table of the inference file, its version, and connections to it.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior};

use super::StoreError;

/// How long a writer waits for another process to finish its own write, which takes milliseconds.
const BUSY_WAIT: Duration = Duration::from_secs(5);

/// The steps from each version of the file to the next. The file's version, kept in SQLite's
/// `user_version`, is the number of steps taken.
///
/// Moments are microseconds since 1970, records are JSON (see `record`), nonces are block heights.
///
/// `chain`: one row, when the chain began and how long its blocks take. `topics`: each topic's
/// settings. `epochs`: one row for each epoch that ever opened; `state` is 0 open, 1 closed with a
/// bundle, 2 closed without one, 3 learned from, 4 given up on, and only ever grows; `input_at` and
/// `input_value` are the newest row there was when it opened; `truth` and the losses are set when
/// it is learned from. `submissions`: one payload for each worker and nonce. `bundles`: what was
/// inferred, each actor's share in it, where the values lie, and what was inferred without outliers
/// where there were some. `baselines`: where a topic's values were. `labels`: the labels of an epoch
/// whose topic names none, in the order in which they came. `learned`: what a topic has learned so
/// far; `regrets` are those by pairs (see `grids`), which the record holds until the next lesson, and
/// `past` is what built-in forecasters remember.
/// `counters`: how many of something an epoch has, by name (see `worker_quota`). `trusted` is 1 for a
/// submission of the operator or of a whitelisted worker; `signed` is the value offered for signing
/// and `signed_intervals` where it lies, null where they are those of the bundle.
pub(super) const STEPS: [&str; 6] = [
    "
CREATE TABLE chain (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    genesis_at INTEGER NOT NULL,
    block_micros INTEGER NOT NULL
) STRICT;
CREATE TABLE topics (id INTEGER PRIMARY KEY, record TEXT NOT NULL) STRICT;
CREATE TABLE epochs (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    state INTEGER NOT NULL,
    opened_at INTEGER NOT NULL,
    closed_at INTEGER,
    input_at INTEGER,
    input_value REAL,
    truth TEXT,
    combined_loss REAL,
    naive_loss REAL,
    losses TEXT,
    PRIMARY KEY (topic_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX epochs_to_do ON epochs (topic_id, nonce) WHERE state IN (0, 1);
CREATE TABLE submissions (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    worker TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    record TEXT NOT NULL,
    PRIMARY KEY (topic_id, nonce, worker)
) STRICT, WITHOUT ROWID;
CREATE TABLE bundles (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    record TEXT NOT NULL,
    shares TEXT NOT NULL,
    PRIMARY KEY (topic_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE TABLE learned (
    topic_id INTEGER PRIMARY KEY,
    record TEXT NOT NULL
) STRICT;
",
    "
ALTER TABLE bundles ADD COLUMN intervals TEXT;
ALTER TABLE bundles ADD COLUMN resistant TEXT;
CREATE TABLE baselines (
    topic_id INTEGER PRIMARY KEY,
    median REAL NOT NULL,
    spread REAL NOT NULL
) STRICT;
CREATE TABLE labels (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    label TEXT NOT NULL,
    label_id INTEGER NOT NULL,
    PRIMARY KEY (topic_id, nonce, label)
) STRICT, WITHOUT ROWID;
CREATE INDEX submissions_by_worker ON submissions (topic_id, worker, nonce);
",
    "
CREATE TABLE holdings (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    key_id INTEGER NOT NULL,
    n_workers INTEGER NOT NULL,
    PRIMARY KEY (topic_id, nonce, key_id)
) STRICT, WITHOUT ROWID;
",
    "
ALTER TABLE learned ADD COLUMN regrets BLOB;
",
    "
DROP TABLE holdings;
CREATE TABLE counters (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    name TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (topic_id, nonce, name)
) STRICT, WITHOUT ROWID;
ALTER TABLE submissions ADD COLUMN trusted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE bundles ADD COLUMN signed TEXT;
ALTER TABLE bundles ADD COLUMN signed_intervals TEXT;
",
    "
ALTER TABLE learned ADD COLUMN past BLOB;
",
];

/// A connection that waits for its turn and writes through to the disk.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path).map_err(StoreError::Open)?;
    let prepare = || {
        connection.busy_timeout(BUSY_WAIT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")
    };
    prepare().map_err(StoreError::Open)?;
    Ok(connection)
}

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
