//! The operations that read datasets, columns, tags and access.

use web::openapi::{Answer, Caller, Operation, Parameter, answer, json_of, part, query};
use wire::paths;

use super::rows::{BY_ID, BY_NAME};

/// The number of a dataset.
pub(super) const ID: Parameter =
    part("id", r#"{"type":"integer","format":"int64","minimum":1}"#, "The dataset's number.");

/// The name of a tag.
pub(super) const TAG: Parameter =
    part("tag_name", r#"{"type":"string","minLength":1}"#, "The tag's name.");

/// How many results to skip.
const OFFSET: Parameter = query(
    "offset",
    r#"{"type":"integer","minimum":0,"default":0}"#,
    "How many to pass over first.",
);

/// How many results to return.
const LIMIT: Parameter = query(
    "limit",
    r#"{"type":"integer","minimum":0,"default":250}"#,
    "How many at most: held between 1 and 10 000.",
);

/// The schema of a dataset.
pub(super) const DATASET: Answer = answer("200", "The dataset", &[json_of("DatasetBody")]);

/// All of them, in the order of the document.
pub(super) const OPERATIONS: [Operation; 9] = [
    Operation {
        method: "get",
        path: paths::DATASETS,
        id: "list_datasets",
        group: "datasets",
        summary: "Lists the datasets that the key sees.",
        text: "With `search`, a dataset of exactly that name comes first, then those whose names \
               begin with it, then those whose names or descriptions hold it.",
        parameters: &[
            query(
                "search",
                r#"{"type":"string"}"#,
                "Text to be found in names and descriptions, whatever its case.",
            ),
            LIMIT,
            OFFSET,
        ],
        body: &[],
        answers: &[answer("200", "A page of datasets", &[json_of("DatasetBodyPage")])],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::DATASETS_SEARCH,
        id: "search_datasets",
        group: "datasets",
        summary: "Filters the datasets that the key sees by one field of their metadata.",
        text: "The parameter is named after the field, and its value is the field's whole value: \
               `?ticker=btcusd`. Exactly one field per request, unless the operator allows more.",
        parameters: &[
            query(
                "ticker",
                r#"{"type":"string","x-required":true}"#,
                "For example; any field will do in its place.",
            ),
            LIMIT,
            OFFSET,
        ],
        body: &[],
        answers: &[answer("200", "A page of datasets", &[json_of("DatasetBodyPage")])],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::DATASET,
        id: "get_dataset",
        group: "datasets",
        summary: "One dataset.",
        text: "",
        parameters: &[ID],
        body: &[],
        answers: &[DATASET],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::COLUMNS,
        id: "list_columns",
        group: "datasets",
        summary: "The columns of a dataset, in their order.",
        text: "",
        parameters: &[BY_ID, BY_NAME],
        body: &[],
        answers: &[answer("200", "All columns", &[json_of("ColumnBodyPage")])],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::TAGS,
        id: "list_tags",
        group: "datasets",
        summary: "The tags that the key knows of: public ones, which any key may acquire, its own, and those it holds.",
        text: "",
        parameters: &[],
        body: &[],
        answers: &[answer("200", "These tags", &[json_of("TagBodyPage")])],
        caller: Caller::Key,
    },
    Operation {
        method: "post",
        path: paths::TAGS_ACQUIRE,
        id: "acquire_tag",
        group: "datasets",
        summary: "Takes a public tag, whose datasets the key sees from then on.",
        text: "409 where the key holds it already, which may be ignored.",
        parameters: &[],
        body: &[json_of("TagName")],
        answers: &[answer("200", "The key holds the tag", &[json_of("MessageBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::DATASET_TAGS,
        id: "list_dataset_tags",
        group: "datasets",
        summary: "The tags of a dataset: all to its owner, to others those they know of.",
        text: "",
        parameters: &[ID],
        body: &[],
        answers: &[answer("200", "These tags", &[json_of("TagBodyPage")])],
        caller: Caller::Key,
    },
    Operation {
        method: "post",
        path: paths::ACCESS_CHECK,
        id: "check_access",
        group: "datasets",
        summary: "Tells what the key may do with a dataset, and which tags grant it.",
        text: "",
        parameters: &[],
        body: &[json_of("AccessCheck")],
        answers: &[answer("200", "What the key may do", &[json_of("AccessBody")])],
        caller: Caller::Key,
    },
    Operation {
        method: "get",
        path: paths::TAG_HOLDERS,
        id: "list_tag_holders",
        group: "datasets",
        summary: "The keys that hold a tag, which the key owns.",
        text: "",
        parameters: &[TAG],
        body: &[],
        answers: &[answer("200", "All holders", &[json_of("HolderBodyPage")])],
        caller: Caller::Key,
    },
];
