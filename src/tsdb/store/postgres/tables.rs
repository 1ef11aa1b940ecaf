//! Every table of the shared dataset store, and the number of their format.

use db::postgres::schema::Schema;

/// The tables and the number of their format, which grows with each change of them or of the bytes of
/// chunks.
pub(super) const SCHEMA: Schema =
    Schema { name: "datasets", version: 9, tables: TABLES, views: include_str!("views.sql") };

/// The tables, in a schema of their own.
///
/// Timestamps are microseconds since 1970. A key is a number of the accounts. All texts are compared
/// by their bytes, so that their order is the same on every server.
///
/// - `format`, made with the schema: one row. Row numbers of a store with another `era` mean nothing
///   here.
/// - `datasets`, `metadata`, `columns`, `tags`, `dataset_tags`, `key_tags`: the catalog, as in the
///   embedded store. `searched` is the description in lower case.
/// - `head`: the state of a dataset; a writer locks its row until it commits. `revision` counts its
///   commits, `last_row` its row numbers; `newest` is its newest row; `kept_from` the timestamp
///   before which rows were pruned. `n_fresh` and `n_late` bound from above how many rows of `tail`
///   are after and before the end of the last chunk, `n_loose` how many buckets were written since
///   they were last packed. `place` is the server that has the dataset, null for this one; `generation`
///   counts its moves, so that a number that was read before tells whether there was one since.
///   `renamed_after` is the last commit before a column was renamed or deleted.
/// - `unsettled`: the datasets that have so much to pack that it is worth it: an index of `head` would
///   make each of its updates several.
/// - `chunks`: about 1024 rows each, as `codec` writes them; `resolution` is the length of a bucket in
///   seconds, 0 for rows. Spans of one dataset and resolution do not overlap. `last_row` is the
///   highest row number in it, 0 for buckets. A number is never given twice. What is packed already
///   is stored without another compression.
/// - `segments`: runs of chunks in objects outside of the database, with the columns of a chunk that
///   is all of them. Their spans do not overlap those of `chunks`. `bytes` are those of these chunks,
///   `index` says where in `object` they are, as `codec` writes lists.
/// - `objects`: what is stored outside, under the number of the dataset and the object's id. `bytes`
///   and `sha256` are of all of it. `state` is `staged` until all is written and its segment made,
///   then `live`, and `dead` once no segment refers to it, since the time `at`.
/// - `claims`: numbers of this database's that the object `owner` outside has, had a while ago, or may get
///   next, since the time `at`.
/// - `tail`: single rows, which win over a chunk's row at the same timestamp; `replaces` says whether
///   there is one.
/// - `buckets`: single ones, which win over those of `chunks` at the same timestamps.
/// - `feed`: what each of the last commits appended, or `removed`: the rows of a `span`, or `old` ones. A
///   commit that did neither is one of a copy.
/// - `batches`: appends that their writer, a key, called `batch`, with what it was answered. `digest` is
///   that of the request. The dataset may be deleted; then the batch is as if it were not there.
/// - `withdrawn`: one row, which counts how often a tag was taken from a dataset or a key.
/// - `doomed`: deleted datasets, of which some records are still to be removed.
/// - `stores`: the servers, of which this one, 0, has the catalog. `url` has no password. A server that is
///   `open` takes new datasets; one that is `full` or `drained` does not. Of a dataset on a further
///   server this one has the catalog, and in `head` its place alone is of use.
/// - `moves`: datasets that are being moved from one server to another, and how far that is. An `id` is
///   never given twice.
/// - `member`: one row on a further server, which says to which first one it belongs, by its `era`. There
///   `datasets` has the datasets placed on it, called by their numbers, `columns` copies, and `metadata` the
///   field alone that names the column to fold.
///
/// The views are for people: `overview` has a line for each dataset, `rows` and `bars` the rows and the
/// buckets that are in this database, unpacked. Any opening replaces those of another text.
const TABLES: &str = r#"
CREATE TABLE datasets (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    folded text COLLATE "C" NOT NULL,
    description text COLLATE "C" NOT NULL,
    searched text COLLATE "C" NOT NULL,
    owner bigint,
    created_at bigint NOT NULL
);
CREATE UNIQUE INDEX datasets_name ON datasets (name, coalesce(owner, 0));
CREATE INDEX datasets_owner ON datasets (owner, id);

CREATE TABLE metadata (
    dataset bigint NOT NULL REFERENCES datasets ON DELETE CASCADE,
    field text COLLATE "C" NOT NULL,
    value text COLLATE "C" NOT NULL,
    PRIMARY KEY (dataset, field)
);
CREATE INDEX metadata_value ON metadata (field, md5(value), dataset);
CREATE INDEX metadata_keep ON metadata (dataset) WHERE field IN ('keep_days', 'keep_bytes');

CREATE TABLE columns (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset bigint NOT NULL REFERENCES datasets ON DELETE CASCADE,
    ordinal integer NOT NULL,
    name text COLLATE "C" NOT NULL,
    dtype text NOT NULL,
    created_at bigint NOT NULL,
    UNIQUE (dataset, ordinal),
    UNIQUE (dataset, name)
);

CREATE TABLE tags (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL,
    is_public boolean NOT NULL,
    owner bigint
);
CREATE UNIQUE INDEX tags_name ON tags (name, coalesce(owner, 0));
CREATE TABLE dataset_tags (
    dataset bigint NOT NULL REFERENCES datasets ON DELETE CASCADE,
    tag bigint NOT NULL REFERENCES tags,
    PRIMARY KEY (dataset, tag)
);
CREATE INDEX dataset_tags_tag ON dataset_tags (tag, dataset);
CREATE TABLE key_tags (
    key bigint NOT NULL,
    tag bigint NOT NULL REFERENCES tags,
    PRIMARY KEY (key, tag)
);
CREATE INDEX key_tags_tag ON key_tags (tag, key);

CREATE TABLE head (
    dataset bigint PRIMARY KEY REFERENCES datasets ON DELETE CASCADE,
    revision bigint NOT NULL DEFAULT 0,
    last_row bigint NOT NULL DEFAULT 0,
    newest bigint,
    kept_from bigint,
    n_fresh bigint NOT NULL DEFAULT 0,
    n_late bigint NOT NULL DEFAULT 0,
    n_loose bigint NOT NULL DEFAULT 0,
    place bigint,
    generation bigint NOT NULL DEFAULT 1,
    renamed_after bigint NOT NULL DEFAULT 0,
    updated_at bigint NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE unsettled (dataset bigint PRIMARY KEY REFERENCES datasets ON DELETE CASCADE);

CREATE TABLE chunks (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset bigint NOT NULL,
    resolution bigint NOT NULL,
    t_first bigint NOT NULL,
    t_last bigint NOT NULL,
    n bigint NOT NULL,
    last_row bigint NOT NULL,
    times bytea NOT NULL,
    body bytea NOT NULL
);
ALTER TABLE chunks ALTER times SET STORAGE EXTERNAL, ALTER body SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX chunks_span ON chunks (dataset, resolution, t_last) INCLUDE (t_first, n, id);
CREATE INDEX chunks_last_row ON chunks (dataset, last_row);

CREATE TABLE segments (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    dataset bigint NOT NULL,
    resolution bigint NOT NULL,
    t_first bigint NOT NULL,
    t_last bigint NOT NULL,
    n bigint NOT NULL,
    last_row bigint NOT NULL,
    bytes bigint NOT NULL,
    object uuid NOT NULL,
    index bytea NOT NULL
);
ALTER TABLE segments ALTER index SET STORAGE EXTERNAL;
CREATE UNIQUE INDEX segments_span ON segments (dataset, resolution, t_last) INCLUDE (t_first, n, id);
CREATE INDEX segments_last_row ON segments (dataset, last_row);
CREATE INDEX segments_object ON segments (object);

CREATE TABLE objects (
    id uuid PRIMARY KEY,
    dataset bigint NOT NULL,
    bytes bigint NOT NULL,
    sha256 bytea NOT NULL,
    state text NOT NULL,
    at bigint NOT NULL
);
CREATE INDEX objects_state ON objects (state, at) WHERE state <> 'live';
CREATE INDEX objects_dataset ON objects (dataset);

CREATE TABLE claims (id uuid PRIMARY KEY, at bigint NOT NULL);

CREATE TABLE tail (
    dataset bigint NOT NULL,
    t bigint NOT NULL,
    id bigint NOT NULL,
    replaces boolean NOT NULL,
    body bytea NOT NULL,
    PRIMARY KEY (dataset, t)
);

CREATE TABLE buckets (
    dataset bigint NOT NULL,
    resolution bigint NOT NULL,
    t bigint NOT NULL,
    open double precision NOT NULL,
    high double precision NOT NULL,
    low double precision NOT NULL,
    close double precision NOT NULL,
    volume double precision NOT NULL,
    count bigint NOT NULL,
    PRIMARY KEY (dataset, resolution, t)
) WITH (fillfactor = 80);

CREATE TABLE feed (
    dataset bigint NOT NULL,
    revision bigint NOT NULL,
    first_row_id bigint NOT NULL,
    rows bigint NOT NULL,
    removed text CHECK (removed IN ('span', 'old')),
    removed_first bigint,
    removed_last bigint,
    at bigint NOT NULL,
    PRIMARY KEY (dataset, revision)
);
CREATE INDEX feed_at ON feed USING brin (at);

CREATE TABLE batches (
    writer bigint NOT NULL,
    batch text COLLATE "C" NOT NULL,
    dataset bigint NOT NULL,
    revision bigint NOT NULL,
    rows bigint NOT NULL,
    digest bytea NOT NULL,
    at bigint NOT NULL,
    PRIMARY KEY (writer, batch)
);
CREATE INDEX batches_at ON batches (writer, at);

CREATE TABLE withdrawn (n bigint NOT NULL);
INSERT INTO withdrawn (n) VALUES (0);
CREATE TABLE doomed (dataset bigint PRIMARY KEY);

CREATE TABLE stores (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name text COLLATE "C" NOT NULL UNIQUE,
    url text COLLATE "C" NOT NULL,
    state text NOT NULL CHECK (state IN ('open', 'full', 'drained')),
    era bigint NOT NULL
);
INSERT INTO stores (id, name, url, state, era) OVERRIDING SYSTEM VALUE
    VALUES (0, 'first', '', 'open', 0);
CREATE TABLE moves (
    id bigint GENERATED ALWAYS AS IDENTITY,
    dataset bigint PRIMARY KEY REFERENCES datasets ON DELETE CASCADE,
    source bigint NOT NULL,
    target bigint NOT NULL,
    step text NOT NULL,
    touched_at bigint NOT NULL
);
CREATE TABLE member (first_era bigint NOT NULL, place bigint NOT NULL);

INSERT INTO tags (name, is_public) VALUES ('public', true);
"#;
