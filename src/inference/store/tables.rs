//! Tables of the inference file and of the inference schema in a database, with their versions.

use std::sync::LazyLock;

use db::connection::Schema;
use db::postgres::schema::Schema as SharedSchema;

/// Name of the schema in a PostgreSQL database.
pub(super) const SHARED_NAME: &str = "inference";

/// Tables that exist only in a PostgreSQL database. `versions` has a number for each topic and, with
/// the id 0, for the list of topics (see the module `versions`).
const SHARED_TABLES: &str = "
CREATE TABLE versions (topic_id bigint PRIMARY KEY, version bigint NOT NULL);
INSERT INTO versions (topic_id, version) VALUES (0, 0);
";

/// Tables and indexes of the inference file.
///
/// Timestamps are in microseconds since 1970. Records are JSON (see the module `record`). Nonces are
/// block heights.
///
/// - `chain`: one row with the start of the chain, the duration of a block, and the highest id of a
///   deleted topic, since ids are not reused.
/// - `topics`: settings of each topic.
/// - `epochs`: one row for each epoch. `state` is 0 open, 1 closed with a bundle, 2 closed without one,
///   3 learned from, 4 given up, and only increases. `input_at` and `input_value` are from the row of
///   the dataset that was the latest at the opening. `truth` and the losses are set when the network
///   learns from the epoch. `summary` is read for lists of epochs. `n_bytes` is the size of the epoch,
///   set when it closes (see the module `retention`). `is_thin` is 1 if the values of pairs and the
///   forecasts were removed.
/// - `submissions`: one payload for each worker and nonce. `trusted` is 1 for workers of the operator
///   and whitelisted workers. `forecast` contains the predicted losses, or is null.
/// - `labels`: labels of an epoch with ids in order of arrival, for topics with several labels.
/// - `counters`: counters of an epoch by name (see `worker_quota`).
/// - `bundles`: combined values, weights and confidence intervals. `resistant` contains the values
///   without outliers, or is null if the epoch has none. `pairs` contains the values of pairs of actors.
///   `signed` is the value to sign and `signed_intervals` its intervals. Both are null if the bundle's
///   own value and intervals are signed.
/// - `losses`: losses of an epoch.
/// - `baselines`: median and spread of a topic's values.
/// - `learned`: learned state of a topic. `regrets` are the pairwise regrets. `past` contains the past
///   epochs for the built-in forecasters. `stamp` increases with every write.
/// - `snapshots`: learned state of a topic before some of its epochs.
/// - `holdings`: number and size of a topic's closed epochs.
///
/// The page cache is large enough for an epoch with a thousand inferers and fifty forecasters. The pages
/// of an epoch are read when it closes, soon after they were written.
pub(super) const SCHEMA: Schema = Schema {
    name: "inference file",
    version: 1,
    steps: &[],
    pragmas: "PRAGMA cache_size = -16384",
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

/// All tables of a PostgreSQL database: the tables of a file with PostgreSQL's types, and the
/// additional tables.
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

/// Returns the schema of a PostgreSQL database.
pub(super) fn shared() -> SharedSchema {
    SharedSchema { name: SHARED_NAME, version: 2, steps: &[], tables: &ALL_SHARED_TABLES }
}
