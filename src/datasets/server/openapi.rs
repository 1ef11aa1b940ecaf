//! `GET /api/openapi.json`: describes the whole service. Needs no key.
//!
//! Schemas and the docs of their fields come from the shapes that are served; the operations
//! are in the tables below this file.

mod catalog;
mod examples;
mod producing;
mod rows;
mod state;

use std::sync::LazyLock;

use accounts::server::{COOKIE, openapi};
use axum::{
    http::header::CONTENT_TYPE,
    response::{IntoResponse as _, Response},
};
use serde_json::{Map, Value, json};
use web::openapi::{Api, Operation, settings};
use wire::{
    datasets::{
        AccessBody, AccessCheck, AddColumn, BucketBody, BulkInsert, BulkInserted, ColumnBody,
        CreateDataset, DatasetBody, Envelope, FlatRow, HealthBody, HolderBody, MessageBody,
        RawRowBody, RenameColumn, ReplaceDataset, RowsDeleted, TagBody, TagName, UpdateDataset,
    },
    error::{DatasetsError, KeyError},
};

/// The introduction of the description.
const ABOUT: &str = "Time series behind tags: discover datasets, read rows or buckets page by page, \
    download a range in one answer, follow new rows as server-sent events, and insert rows, which are \
    durable and in every bucket before the answer.\n\n\
    Send the API key in the header `X-API-Key`, or as `Authorization: Bearer`. A dataset that a key may not see is to it one that \
    does not exist. Moments are RFC 3339 and UTC. Every list is an envelope whose `next` is the \
    address of the following page, and null at the end of the data; `count` never tells the end.";

/// Groups of operations, in the order of the document.
const GROUPS: [(&str, &str); 7] = [
    ("datasets", "What there is, and who may see it."),
    ("rows", "Reading rows and buckets."),
    ("producing", "Creating datasets, inserting rows, and changing either."),
    openapi::GROUPS[0],
    openapi::GROUPS[1],
    openapi::GROUPS[2],
    ("service", "How the service is."),
];

/// Every operation, by table.
const OPERATIONS: [&[Operation]; 4] =
    [&catalog::OPERATIONS, &rows::OPERATIONS, &producing::OPERATIONS, &state::OPERATIONS];

/// The document. It does not change while the program runs.
static DOCUMENT: LazyLock<String> = LazyLock::new(|| described().to_string());

pub(super) async fn get() -> Response {
    ([(CONTENT_TYPE, "application/json")], DOCUMENT.clone()).into_response()
}

/// The description as a value.
pub(super) fn described() -> Value {
    let mut document = Api {
        title: "Dataset service",
        version: env!("CARGO_PKG_VERSION"),
        text: ABOUT,
        groups: &GROUPS,
        operations: &OPERATIONS,
        schemas: schemas(),
        refusal: "DatasetsError",
        no_key: "KeyError",
        key_header: "X-API-Key",
        session_cookie: COOKIE,
    }
    .describe();
    let accounts = openapi::document();
    for part in ["/paths", "/components/schemas", "/components/securitySchemes"] {
        let to = document.pointer_mut(part).and_then(Value::as_object_mut);
        if let (Some(to), Some(from)) = (to, accounts.pointer(part).and_then(Value::as_object)) {
            to.extend(from.clone());
        }
    }
    document
}

/// The schema of every body.
fn schemas() -> Map<String, Value> {
    let mut read = settings().for_deserialize().into_generator();
    read.subschema_for::<AccessCheck>();
    read.subschema_for::<AddColumn>();
    read.subschema_for::<RenameColumn>();
    read.subschema_for::<BulkInsert>();
    read.subschema_for::<CreateDataset>();
    read.subschema_for::<HolderBody>();
    read.subschema_for::<ReplaceDataset>();
    read.subschema_for::<TagName>();
    read.subschema_for::<UpdateDataset>();
    let mut written = settings().for_serialize().into_generator();
    written.subschema_for::<AccessBody>();
    written.subschema_for::<BulkInserted>();
    written.subschema_for::<DatasetBody>();
    written.subschema_for::<Envelope<BucketBody>>();
    written.subschema_for::<Envelope<ColumnBody>>();
    written.subschema_for::<Envelope<DatasetBody>>();
    written.subschema_for::<Envelope<HolderBody>>();
    written.subschema_for::<Envelope<RawRowBody>>();
    written.subschema_for::<Envelope<TagBody>>();
    written.subschema_for::<FlatRow>();
    written.subschema_for::<HealthBody>();
    written.subschema_for::<MessageBody>();
    written.subschema_for::<RowsDeleted>();
    written.subschema_for::<DatasetsError>();
    written.subschema_for::<KeyError>();
    let mut schemas = read.take_definitions(true);
    schemas.extend(written.take_definitions(true));
    schemas.extend(forms());
    // The query may name the dataset instead.
    if let Some(insert) = schemas.get_mut("BulkInsert") {
        insert["required"] = json!(["rows"]);
        insert["properties"]["dataset"]["type"] = json!(["integer", "null"]);
    }
    for (name, example) in examples::all() {
        if let Some(schema) = schemas.get_mut(name) {
            schema["example"] = example;
        }
    }
    schemas
}

/// The schemas of what is no shape of its own.
fn forms() -> [(String, Value); 7] {
    let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
    let list = |name: &str| json!({"type": "array", "items": reference(name)});
    [
        ("Bytes".to_owned(), json!({"type": "string", "format": "binary"})),
        ("Text".to_owned(), json!({"type": "string"})),
        ("Document".to_owned(), json!({"type": "object"})),
        ("FlatRows".to_owned(), list("FlatRow")),
        (
            "CreateDatasets".to_owned(),
            json!({"anyOf": [reference("CreateDataset"), list("CreateDataset")]}),
        ),
        (
            "CreatedDatasets".to_owned(),
            json!({"anyOf": [reference("DatasetBody"), reference("DatasetBodyPage")]}),
        ),
        (
            "RowsPage".to_owned(),
            json!({
                "anyOf": [reference("RawRowBodyPage"), reference("BucketBodyPage")],
                "description": "Rows where the resolution is `raw`, buckets otherwise.",
            }),
        ),
    ]
}

#[cfg(test)]
mod tests;
