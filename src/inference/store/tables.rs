//! Every table of the inference file and of the inference schema of a database, and their versions.

use std::sync::LazyLock;

use db::{
    connection::{RETRIED_OPEN_WAIT, Schema},
    postgres::schema::Schema as SharedSchema,
};

/// The schema of a database.
pub(super) const SHARED_NAME: &str = "inference";

/// The tables that a database has beside those of a file:
///
/// - `versions`: a number for each topic, and one for the list of topics under 0 (see `versions`).
const SHARED_TABLES: &str = "
CREATE TABLE versions (topic_id bigint PRIMARY KEY, version bigint NOT NULL);
INSERT INTO versions (topic_id, version) VALUES (0, 0);
";

/// Every table and index.
///
/// Timestamps are microseconds since 1970, records are JSON (see `record`), nonces are block heights.
///
/// - `chain`: one row: when the chain began, how long its blocks take, and the highest number of a
///   deleted topic, which no other topic gets.
/// - `topics`: each topic's settings.
/// - `epochs`: one row for each epoch that ever opened. `state` is 0 open, 1 closed with a bundle, 2
///   closed without one, 3 learned from, 4 given up on, and only ever grows. `input_at` and
///   `input_value` are the newest row there was when it opened; `truth` and the losses are set when it
///   is learned from. `summary` is what a list of epochs shows of its bundle; `n_bytes` its size,
///   counted once it is closed (see `retention`); `is_thin` is 1 where an old epoch keeps no values of
///   pairs and no forecasts.
/// - `submissions`: one payload for each worker and nonce. `trusted` is 1 for one of the operator or
///   of a whitelisted worker; `forecast` are the losses it expects, null where it expects none.
/// - `labels`: the labels of an epoch whose topic names none, in the order in which they came.
/// - `counters`: how many of something an epoch has, by name (see `worker_quota`).
/// - `bundles`: what was inferred, each actor's share in it, where the values lie, and what was
///   inferred without outliers where there were some. `pairs` are values of pairs of actors (see
///   `pairs`). `signed` is the value offered for signing and `signed_intervals` where it lies, null
///   where they are those of the bundle.
/// - `losses`: the losses of an epoch.
/// - `baselines`: where a topic's values were.
/// - `learned`: what a topic has learned so far; `regrets` are those of pairs, `past` is what built-in
///   forecasters remember. `stamp` changes with every write.
/// - `snapshots`: what a topic had learned before some of its epochs.
/// - `holdings`: the sums of a topic's epochs.
///
/// The cache holds the pages of an epoch of a thousand inferers and fifty forecasters, which are read
/// when it closes soon after they were written.
pub(super) const SCHEMA: Schema = Schema {
    name: "inference file",
    version: 1,
    steps: &[],
    pragmas: "PRAGMA cache_size = -16384",
    open_wait: RETRIED_OPEN_WAIT,
    tables: "
CREATE TABLE chain (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    genesis_at INTEGER NOT NULL,
    block_micros INTEGER NOT NULL,
    newest_deleted INTEGER NOT NULL DEFAULT 0
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
    summary TEXT,
    n_bytes INTEGER NOT NULL DEFAULT 0,
    is_thin INTEGER NOT NULL DEFAULT 0,
    PRIMARY KEY (topic_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE INDEX epochs_to_do ON epochs (topic_id, nonce) WHERE state IN (0, 1);
CREATE INDEX epochs_to_thin ON epochs (topic_id, nonce) WHERE is_thin = 0 AND state > 1;
CREATE TABLE submissions (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    worker TEXT NOT NULL,
    received_at INTEGER NOT NULL,
    record TEXT NOT NULL,
    trusted INTEGER NOT NULL,
    forecast TEXT,
    PRIMARY KEY (topic_id, nonce, worker)
) STRICT, WITHOUT ROWID;
CREATE TABLE labels (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    label TEXT NOT NULL,
    label_id INTEGER NOT NULL,
    PRIMARY KEY (topic_id, nonce, label)
) STRICT, WITHOUT ROWID;
CREATE TABLE counters (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    name TEXT NOT NULL,
    n INTEGER NOT NULL,
    PRIMARY KEY (topic_id, nonce, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE bundles (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    record TEXT NOT NULL,
    shares TEXT NOT NULL,
    intervals TEXT NOT NULL,
    resistant TEXT,
    signed TEXT,
    signed_intervals TEXT,
    pairs BLOB,
    resistant_pairs BLOB,
    PRIMARY KEY (topic_id, nonce)
) STRICT, WITHOUT ROWID;
CREATE TABLE losses (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    record TEXT NOT NULL,
    pairs BLOB,
    PRIMARY KEY (topic_id, nonce)
) STRICT;
CREATE TABLE baselines (
    topic_id INTEGER PRIMARY KEY,
    median REAL NOT NULL,
    spread REAL NOT NULL
) STRICT;
CREATE TABLE learned (
    topic_id INTEGER PRIMARY KEY,
    stamp INTEGER NOT NULL,
    record TEXT NOT NULL,
    regrets BLOB NOT NULL,
    past BLOB NOT NULL
) STRICT;
CREATE TABLE snapshots (
    topic_id INTEGER NOT NULL,
    nonce INTEGER NOT NULL,
    record TEXT NOT NULL,
    regrets BLOB NOT NULL,
    past BLOB NOT NULL,
    PRIMARY KEY (topic_id, nonce)
) STRICT;
CREATE TABLE holdings (
    topic_id INTEGER PRIMARY KEY,
    n_epochs INTEGER NOT NULL,
    n_bytes INTEGER NOT NULL,
    n_full_bytes INTEGER NOT NULL
) STRICT;
",
};

/// All tables of a database: those of a file, in its words, and its own.
static ALL_SHARED_TABLES: LazyLock<String> = LazyLock::new(|| {
    let own_words = [
        (" INTEGER", " bigint"),
        (" TEXT", " text COLLATE \"C\""),
        (" REAL", " double precision"),
        (" BLOB", " bytea"),
        (" STRICT", ""),
        (", WITHOUT ROWID", ""),
    ];
    let tables = own_words
        .iter()
        .fold(SCHEMA.tables.to_owned(), |tables, (file, database)| tables.replace(file, database));
    tables + SHARED_TABLES
});

/// The schema of a database, in which several services keep what a file keeps.
pub(super) fn shared() -> SharedSchema {
    SharedSchema { name: SHARED_NAME, version: 2, steps: &[], tables: &ALL_SHARED_TABLES }
}
