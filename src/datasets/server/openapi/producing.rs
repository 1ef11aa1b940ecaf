//! The operations that change something.

use web::openapi::{Caller, Content, Operation, Parameter, answer, header, json_of, part, query};
use wire::paths;

use super::{
    catalog::{DATASET, ID, TAG},
    rows::{BY_ID, BY_NAME},
};

/// The forms of rows to be inserted.
const INSERT: [Content; 4] = [
    json_of("BulkInsert"),
    Content { kind: "application/x-ndjson", schema: "Text" },
    Content { kind: "text/csv", schema: "Text" },
    Content { kind: "application/vnd.apache.parquet", schema: "Bytes" },
];

/// How a body is compressed.
const CODING: Parameter = header(
    "Content-Encoding",
    r#"{"type":"string","enum":["identity","gzip","zstd"]}"#,
    "How the body is compressed, if it is.",
);

/// What a row does to one that is stored.
const MODE: Parameter = query(
    "mode",
    r#"{"type":"string","enum":["replace","merge"]}"#,
    "What a row does to the one at its timestamp: replaces it, or, for at most 10 000 rows, changes the \
     columns that it names and no others.",
);

/// The number of a key.
const KEY: Parameter =
    part("key", r#"{"type":"integer","format":"int64"}"#, "The key's number, which is no secret.");

/// The column to be deleted.
const COLUMN: Parameter =
    query("name", r#"{"type":"string","x-required":true}"#, "The column's name.");

/// The bounds of rows to be deleted.
const SPAN: [Parameter; 2] = [
    query(
        "start",
        r#"{"type":"string","format":"date-time","x-required":true}"#,
        "The first timestamp, inclusive.",
    ),
    query(
        "end",
        r#"{"type":"string","format":"date-time","x-required":true}"#,
        "The last timestamp, inclusive.",
    ),
];

/// All of them, in the order of the document.
pub(super) const OPERATIONS: [Operation; 13] = [
    Operation {
        method: "post",
        path: paths::DATASETS,
        id: "create_dataset",
        group: "producing",
        summary: "Creates a dataset, which the key owns; or several, all or none.",
        text: "A name is taken once among those of its owner. Tags that do not exist yet are \
               created, private, and belong to the key.\n\nOf the metadata, `keep_days` and \
               `keep_bytes` say how much of the rows is kept: older ones are deleted, about a \
               thousand at a time, while their buckets stay.",
        parameters: &[],
        body: &[json_of("CreateDatasets")],
        answers: &[answer("201", "What is new", &[json_of("CreatedDatasets")])],
        caller: Caller::Key,
    },
    Operation {
        method: "patch",
        path: paths::DATASET,
        id: "update_dataset",
        group: "producing",
        summary: "Changes what is named of a dataset that the key owns.",
        text: "",
        parameters: &[ID],
        body: &[json_of("UpdateDataset")],
        answers: &[DATASET],
        caller: Caller::Key,
    },
    Operation {
        method: "put",
        path: paths::DATASET,
        id: "replace_dataset",
        group: "producing",
        summary: "Replaces name, description and metadata of a dataset that the key owns.",
        text: "",
        parameters: &[ID],
        body: &[json_of("ReplaceDataset")],
        answers: &[DATASET],
        caller: Caller::Key,
    },
    Operation {
        method: "delete",
        path: paths::DATASET,
        id: "delete_dataset",
        group: "producing",
        summary: "Deletes a dataset that the key owns, with all its rows.",
        text: "",
        parameters: &[ID],
        body: &[],
        answers: &[answer("200", "It is gone", &[json_of("MessageBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "post",
        path: paths::COLUMNS,
        id: "add_column",
        group: "producing",
        summary: "Adds a column to a dataset that the key owns. Rows before have no value in it.",
        text: "",
        parameters: &[],
        body: &[json_of("AddColumn")],
        answers: &[answer("201", "The new column", &[json_of("ColumnBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "patch",
        path: paths::COLUMNS,
        id: "rename_column",
        group: "producing",
        summary: "Renames a column of a dataset that the key owns, with the values it has.",
        text: "",
        parameters: &[],
        body: &[json_of("RenameColumn")],
        answers: &[answer("200", "The column", &[json_of("ColumnBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "delete",
        path: paths::COLUMNS,
        id: "delete_column",
        group: "producing",
        summary: "Deletes a column of a dataset that the key owns, with its values.",
        text: "A new column may have its name, and is empty. A column that the buckets of stored \
               rows are made of is not deleted: 409.",
        parameters: &[BY_ID, BY_NAME, COLUMN],
        body: &[],
        answers: &[answer("200", "It is deleted", &[json_of("MessageBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "post",
        path: paths::DATASET_TAGS,
        id: "add_dataset_tag",
        group: "producing",
        summary: "Lets the holders of a tag read a dataset that the key owns. A name that is not public means a private tag of the key itself, whatever others call theirs.",
        text: "",
        parameters: &[ID],
        body: &[json_of("TagName")],
        answers: &[
            answer("201", "They may now", &[json_of("MessageBody")]),
            answer("200", "They could before", &[json_of("MessageBody")]),
        ],
        caller: Caller::Key,
    },
    Operation {
        method: "delete",
        path: paths::DATASET_TAG,
        id: "remove_dataset_tag",
        group: "producing",
        summary: "Takes a tag from a dataset that the key owns.",
        text: "",
        parameters: &[ID, TAG],
        body: &[],
        answers: &[answer("200", "It is taken", &[json_of("MessageBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "post",
        path: paths::TAG_HOLDERS,
        id: "give_tag",
        group: "producing",
        summary: "Gives a tag that the key owns to another key.",
        text: "Keys are named by their numbers, which only the machine knows that keeps them: where \
               keys are checked on another machine (`--accounts`), nothing is given, and the answer \
               is 503.",
        parameters: &[TAG],
        body: &[json_of("HolderBody")],
        answers: &[
            answer("201", "It holds the tag now", &[json_of("MessageBody")]),
            answer("200", "It held the tag before", &[json_of("MessageBody")]),
        ],
        caller: Caller::Key,
    },
    Operation {
        method: "delete",
        path: paths::TAG_HOLDER,
        id: "take_tag",
        group: "producing",
        summary: "Takes a tag that the key owns back from another key.",
        text: "",
        parameters: &[TAG, KEY],
        body: &[],
        answers: &[answer("200", "It is taken", &[json_of("MessageBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "post",
        path: paths::ROWS_BULK_INSERT,
        id: "insert_rows",
        group: "producing",
        summary: "Inserts rows into a dataset that the key owns: all of them, or none.",
        text: "A row at an existing timestamp replaces it, so that a batch may be sent again; with \
               `mode=merge` the values that it leaves out stay as they are. When the \
               answer comes the rows and their buckets are durable, and those who follow have \
               them.\n\nNDJSON has a row in each line, flat or as in JSON; CSV has a header line \
               that names `timestamp` and columns; Parquet has them as columns, its timestamps in UTC \
               where they name no zone, compressed with snappy, zstd, lz4_raw or not at all. All \
               three have their dataset in the query. Refused rows are told in `details`: how many, and what is wrong with the first of them.\n\nA \
               row has a timestamp of the years 0 to 9999, up to 9999-12-29. A text has at most \
               10 000 bytes, all texts of a row have at most 16 384.",
        parameters: &[BY_ID, BY_NAME, MODE, CODING],
        body: &INSERT,
        answers: &[answer("201", "How many rows are stored", &[json_of("BulkInserted")])],
        caller: Caller::Key,
    },
    Operation {
        method: "delete",
        path: paths::ROWS,
        id: "delete_rows",
        group: "producing",
        summary: "Deletes the rows of a range from a dataset that the key owns.",
        text: "Their buckets follow in the same commit.",
        parameters: &[BY_ID, BY_NAME, SPAN[0], SPAN[1]],
        body: &[],
        answers: &[answer("200", "How many rows are gone", &[json_of("RowsDeleted")])],
        caller: Caller::Key,
    },
];
