//! Every table of the inference file, its version, and connections to it.

use std::{path::Path, time::Duration};

use rusqlite::{Connection, TransactionBehavior};

use super::{StoreError, error::opening};

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
/// `newest_deleted` is the highest number of a deleted topic: no other topic gets it.
/// `forecast` are the losses that a submission expects, null where it expects none. `pairs` are values of pairs of actors (see `pairs`). `summary` is what a list of epochs shows of a
/// bundle; `n_bytes` what the epoch takes, counted once it is closed (see `retention`); `is_thin` is 1
/// where an old epoch keeps no values of pairs and no forecasts any more. `holdings` are the sums of a
/// topic's epochs. `snapshots` are what a topic had learned before some of its epochs. `stamp` changes with every write of what a topic has learned.
pub(super) const STEPS: [&str; 7] = [
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
    "
ALTER TABLE chain ADD COLUMN newest_deleted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE submissions ADD COLUMN forecast TEXT;
UPDATE submissions SET forecast = json_extract(record, '$.forecast')
    WHERE json_extract(record, '$.forecast') <> '{}';
UPDATE submissions SET record = json_remove(record, '$.forecast');
ALTER TABLE bundles ADD COLUMN pairs BLOB;
ALTER TABLE bundles ADD COLUMN resistant_pairs BLOB;
CREATE TABLE losses (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    record TEXT NOT NULL,
    pairs BLOB,
    PRIMARY KEY (topic_id, nonce)
) STRICT;
INSERT INTO losses (topic_id, nonce, record)
    SELECT topic_id, nonce, losses FROM epochs WHERE losses IS NOT NULL;
ALTER TABLE epochs DROP COLUMN losses;
ALTER TABLE epochs ADD COLUMN summary TEXT;
ALTER TABLE epochs ADD COLUMN n_bytes INTEGER NOT NULL DEFAULT 0;
ALTER TABLE epochs ADD COLUMN is_thin INTEGER NOT NULL DEFAULT 0;
CREATE INDEX epochs_to_thin ON epochs (topic_id, nonce) WHERE is_thin = 0 AND state > 1;
UPDATE epochs SET summary = (
    SELECT json_object(
        'combined_value', json_extract(record, '$.network_inferences.combined_value'),
        'naive_value', json_extract(record, '$.network_inferences.naive_value'),
        'n_inferers', json_array_length(record, '$.network_inferences.inferer_values'),
        'n_forecasters', json_array_length(record, '$.network_inferences.forecaster_values'))
    FROM bundles WHERE bundles.topic_id = epochs.topic_id AND bundles.nonce = epochs.nonce);
UPDATE epochs SET n_bytes = 5000
    + coalesce((SELECT sum(octet_length(record) + coalesce(octet_length(forecast), 0) + 500)
                FROM submissions s WHERE s.topic_id = epochs.topic_id AND s.nonce = epochs.nonce), 0)
    + coalesce((SELECT octet_length(record) + octet_length(shares) + coalesce(octet_length(resistant), 0)
                FROM bundles b WHERE b.topic_id = epochs.topic_id AND b.nonce = epochs.nonce), 0)
    + coalesce((SELECT octet_length(record)
                FROM losses l WHERE l.topic_id = epochs.topic_id AND l.nonce = epochs.nonce), 0);
CREATE TABLE holdings (
    topic_id INTEGER PRIMARY KEY,
    n_epochs INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    n_full_bytes INTEGER NOT NULL
) STRICT;
INSERT INTO holdings
    SELECT topic_id, count(*), sum(n_bytes), sum(n_bytes) FROM epochs WHERE state > 0 GROUP BY topic_id;
CREATE TABLE learned_next (
    topic_id INTEGER PRIMARY KEY,
    stamp INTEGER NOT NULL,
    record TEXT NOT NULL,
    regrets BLOB,
    past BLOB
) STRICT;
INSERT INTO learned_next SELECT topic_id, 1, record, regrets, past FROM learned;
DROP TABLE learned;
ALTER TABLE learned_next RENAME TO learned;
CREATE TABLE snapshots (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    record TEXT NOT NULL,
    regrets BLOB,
    past BLOB,
    PRIMARY KEY (topic_id, nonce)
) STRICT;
",
];

/// A connection that waits for its turn and writes through to the disk.
pub(super) fn connect(path: &Path) -> Result<Connection, StoreError> {
    let connection = Connection::open(path).map_err(opening)?;
    let prepare = || {
        connection.busy_timeout(BUSY_WAIT)?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "full")
    };
    prepare().map_err(opening)?;
    Ok(connection)
}

/// Brings the file to this program's version, in one transaction.
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
    write.pragma_update(None, "user_version", known).map_err(opening)?;
    write.commit().map_err(opening)
}
