//! The operations that read rows.

use web::openapi::{Caller, Content, Operation, Parameter, answer, json_of, query};
use wire::paths;

/// A dataset by its number.
pub(super) const BY_ID: Parameter = query(
    "dataset",
    r#"{"type":"integer","format":"int64","minimum":1}"#,
    "The dataset's number. This or `dataset_name` is required.",
);

/// A dataset by its name.
pub(super) const BY_NAME: Parameter =
    query("dataset_name", r#"{"type":"string","minLength":1}"#, "The dataset's name.");

/// The key of a caller without headers.
const KEY: Parameter = query(
    "api_key",
    r#"{"type":"string","pattern":"^UP-[0-9a-f]{24}$"}"#,
    "The key, for callers that send no headers: a browser's `EventSource`, or polars.",
);

/// The lower bound.
const START: Parameter = query(
    "start",
    r#"{"type":"string","format":"date-time"}"#,
    "The earliest timestamp, inclusive.",
);

/// The upper bound.
const END: Parameter = query(
    "end",
    r#"{"type":"string","format":"date-time"}"#,
    "The last timestamp: inclusive for raw rows, exclusive for buckets.",
);

/// The resolution parameter.
const RESOLUTION: Parameter = query(
    "resolution",
    r#"{"type":"string","enum":["raw","5m","15m","1h","4h","1d"],"default":"raw"}"#,
    "Rows as inserted, or buckets of that length, which are exact after every insert.",
);

/// The forms of a download.
const DOWNLOAD: [Content; 5] = [
    json_of("FlatRows"),
    Content { kind: "text/csv", schema: "Text" },
    Content { kind: "application/x-ndjson", schema: "Text" },
    Content { kind: "application/vnd.apache.parquet", schema: "Bytes" },
    Content { kind: "application/vnd.apache.arrow.stream", schema: "Bytes" },
];

/// All of them, in the order of the document.
pub(super) const OPERATIONS: [Operation; 4] = [
    Operation {
        method: "get",
        path: paths::ROWS,
        id: "list_rows",
        group: "rows",
        summary: "Reads rows or buckets, page by page.",
        text: "Without `start` and `end` it covers the widest span that the resolution allows, up \
               to the newest row. With both the span is limited: a day of raw rows, 7 days of `5m`, \
               90 days of `1h`, no limit for `1d`.\n\nWith `after` a page costs the same however deep \
               it is, and `count` is 0. Follow `next` until it is null.\n\nA page of very long rows, or of \
               very many columns, has fewer rows than asked for: at most about 16 MB. Its `next` goes \
               on behind its last row.",
        parameters: &[
            BY_ID,
            BY_NAME,
            START,
            END,
            RESOLUTION,
            query(
                "limit",
                r#"{"type":"integer","minimum":0,"default":250}"#,
                "Rows of a page at most: held between 1 and 10 000.",
            ),
            query(
                "offset",
                r#"{"type":"integer","minimum":0,"default":0}"#,
                "How many rows to pass over first.",
            ),
            query(
                "after",
                r#"{"type":"string","format":"date-time"}"#,
                "The page starts after the row with this timestamp, in the order of the query.",
            ),
            query(
                "ordering",
                r#"{"type":"string","enum":["timestamp","-timestamp"],"default":"timestamp"}"#,
                "Oldest first, or newest first.",
            ),
        ],
        body: &[],
        answers: &[answer("200", "A page of rows or buckets", &[json_of("RowsPage")])],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::ROWS_BULK_DOWNLOAD,
        id: "download_rows",
        group: "rows",
        summary: "Reads a snapshot of a whole range in one response.",
        text: "The range has no limit, and the answer is sent as it is read. An answer that breaks \
               off before its end says so by the connection: it is never shorter than it claims. \
               Of Parquet, `Range` reads a part of the file and `HEAD` its length, so that tools that scan \
               files over HTTP read what they need; name `end` where rows still come, for a file \
               that stays the same. Of text there are no ranges of bytes: ask for a part by `start` \
               and `end`. A key has four downloads at a time.",
        parameters: &[
            BY_ID,
            BY_NAME,
            START,
            END,
            RESOLUTION,
            query(
                "output",
                r#"{"type":"string","enum":["json","csv","ndjson","parquet","arrow"],"default":"json"}"#,
                "The form of the answer.",
            ),
            KEY,
        ],
        body: &[],
        answers: &[
            answer("200", "All rows, oldest first", &DOWNLOAD),
            answer("206", "The bytes of Parquet that `Range` asks for", &DOWNLOAD),
        ],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::ROWS_LIVE,
        id: "newest_rows",
        group: "rows",
        summary: "Reads the newest rows, newest first, a line each.",
        text: "There are fewer than asked for where they are very long: about 16 MB at most.",
        parameters: &[
            BY_ID,
            BY_NAME,
            START,
            END,
            query(
                "limit",
                r#"{"type":"integer","minimum":0,"default":100}"#,
                "Rows at most: held between 1 and 10 000.",
            ),
        ],
        body: &[],
        answers: &[answer(
            "200",
            "Rows, one JSON object in each line",
            &[Content { kind: "application/x-ndjson", schema: "Text" }],
        )],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::ROWS_STREAM,
        id: "follow_rows",
        group: "rows",
        summary: "Follows a dataset as server-sent events, on a connection held open.",
        text: "First `connected`, then the newest 100 rows as `data`, oldest first, then each new row \
               as it is inserted, and a `heartbeat` every 30 seconds. Where heartbeats stop, the \
               connection is gone.",
        parameters: &[BY_ID, BY_NAME, KEY],
        body: &[],
        answers: &[answer(
            "200",
            "Events",
            &[Content { kind: "text/event-stream", schema: "Text" }],
        )],
        caller: Caller::Key,
    },
];
