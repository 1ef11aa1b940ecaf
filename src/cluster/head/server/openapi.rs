//! `GET /api/v1/openapi.json`: describes the REST API.
//!
//! Schemas, with the docs of each field, come from the shapes that are served.

mod examples;

use axum::response::Response;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};
use wire::{
    error::HeadError,
    executions::{ClusterEvent, ExecutionsResponse},
    functions::{
        ExecuteRequest, ExecuteResponse, FunctionDetail, FunctionsResponse, InstallRequest,
        InstallResponse, NodesResponse, ResultRequest,
    },
    paths,
};

use super::answer;

/// Answers the description.
pub(super) async fn openapi() -> Response {
    answer(&described())
}

/// One operation: its method, path, what it does, its body by media type and schema, if any, and its
/// answers but for refusals.
struct Operation {
    method: &'static str,
    path: &'static str,
    summary: &'static str,
    body: Option<(&'static str, &'static str)>,
    answers: &'static [(&'static str, &'static str, &'static str)],
    parameters: &'static [(&'static str, &'static str, &'static str)],
}

/// The media type of all but functions, events and counts.
const JSON: &str = "application/json";

/// All operations: answers by status, media type and schema, or text where there is no body; parameters by place, name and type.
const OPERATIONS: [Operation; 15] = [
    Operation {
        method: "post",
        path: paths::FUNCTIONS_EXECUTE,
        summary: "Runs a function on nodes of the cluster. 200 whatever came of it: see `code`. 202 \
                  at once with `Prefer: respond-async` or `config.async`.",
        body: Some((JSON, "ExecuteRequest")),
        answers: &[("200", JSON, "ExecuteResponse"), ("202", JSON, "ExecuteResponse")],
        parameters: &[("header", "Prefer", "string")],
    },
    Operation {
        method: "post",
        path: paths::FUNCTIONS_INSTALL,
        summary: "Has the nodes of a group install a function. 200 whatever came of it: see `code`.",
        body: Some((JSON, "InstallRequest")),
        answers: &[("200", JSON, "InstallResponse")],
        parameters: &[],
    },
    Operation {
        method: "post",
        path: paths::FUNCTIONS_RESULT,
        summary: "The answer to an earlier execution; code 202 while it is under way, status 404 \
                  where it is not remembered.",
        body: Some((JSON, "ResultRequest")),
        answers: &[("200", JSON, "ExecuteResponse"), ("404", "", "It is not remembered")],
        parameters: &[],
    },
    Operation {
        method: "get",
        path: paths::EXECUTIONS,
        summary: "The newest executions, the newest first, without their results.",
        body: None,
        answers: &[("200", JSON, "ExecutionsResponse")],
        parameters: &[("query", "limit", "integer")],
    },
    Operation {
        method: "get",
        path: paths::EXECUTION,
        summary: "One execution, with its results.",
        body: None,
        answers: &[("200", JSON, "ExecutionBody")],
        parameters: &[("path", "id", "string")],
    },
    Operation {
        method: "delete",
        path: paths::EXECUTION,
        summary: "Cancels an execution, also on its workers.",
        body: None,
        answers: &[("200", JSON, "ExecutionBody")],
        parameters: &[("path", "id", "string")],
    },
    Operation {
        method: "get",
        path: paths::EVENTS,
        summary: "Follows what happens in the cluster. A reader that is too far behind is cut off.",
        body: None,
        answers: &[("200", "text/event-stream", "ClusterEvent")],
        parameters: &[],
    },
    Operation {
        method: "get",
        path: paths::NODES,
        summary: "The nodes the head knows: itself first, then its peers by id.",
        body: None,
        answers: &[("200", JSON, "NodesResponse")],
        parameters: &[],
    },
    Operation {
        method: "get",
        path: paths::FUNCTIONS,
        summary: "The functions the head holds, by name.",
        body: None,
        answers: &[("200", JSON, "FunctionsResponse")],
        parameters: &[],
    },
    Operation {
        method: "post",
        path: paths::FUNCTIONS,
        summary: "Gives the head a function: its blocks as a CAR, or, as application/wasm with \
                  `method`, one module.",
        body: Some(("application/vnd.ipld.car", "Bytes")),
        answers: &[("200", JSON, "FunctionBody")],
        parameters: &[("query", "name", "string"), ("query", "method", "string")],
    },
    Operation {
        method: "get",
        path: paths::FUNCTION,
        summary: "One function and its files.",
        body: None,
        answers: &[("200", JSON, "FunctionDetail")],
        parameters: &[("path", "id", "string")],
    },
    Operation {
        method: "delete",
        path: paths::FUNCTION,
        summary: "Has the head forget a function. Workers that hold it keep it.",
        body: None,
        answers: &[("200", JSON, "FunctionBody")],
        parameters: &[("path", "id", "string")],
    },
    Operation {
        method: "get",
        path: paths::HEAD_HEALTH,
        summary: "Says that the head serves.",
        body: None,
        answers: &[("200", JSON, "Health")],
        parameters: &[],
    },
    Operation {
        method: "get",
        path: paths::METRICS,
        summary: "Counts, as Prometheus text.",
        body: None,
        answers: &[("200", "text/plain", "Text")],
        parameters: &[],
    },
    Operation {
        method: "get",
        path: paths::HEAD_OPENAPI,
        summary: "This description.",
        body: None,
        answers: &[("200", JSON, "Any")],
        parameters: &[],
    },
];

fn described() -> Value {
    let mut paths = Map::new();
    for operation in OPERATIONS {
        let methods = paths.entry(operation.path).or_insert_with(|| json!({}));
        if let Some(methods) = methods.as_object_mut() {
            methods.insert(operation.method.to_owned(), operation.described());
        }
    }
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Function execution cluster: a head", "version": env!("CARGO_PKG_VERSION")},
        "paths": paths,
        "components": {
            "schemas": schemas(),
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}, {}],
    })
}

impl Operation {
    fn described(&self) -> Value {
        let reference = |name: &str| json!({"$ref": format!("#/components/schemas/{name}")});
        let mut responses = Map::new();
        for (status, kind, schema) in self.answers {
            let mut answer = json!({"description": schema});
            if !kind.is_empty() {
                answer["content"] = json!({*kind: {"schema": reference(schema)}});
            }
            responses.insert((*status).to_owned(), answer);
        }
        let refusal = json!({JSON: {"schema": reference("HeadError")}});
        responses
            .insert("default".to_owned(), json!({"description": "Refused", "content": refusal}));
        let parameters = self.parameters.iter().map(|(place, name, kind)| {
            let required = *place == "path";
            let schema = match *kind {
                "integer" => json!({"type": kind, "minimum": 0}),
                kind => json!({"type": kind}),
            };
            json!({"in": place, "name": name, "required": required, "schema": schema})
        });
        let mut operation = json!({
            "summary": self.summary,
            "parameters": parameters.collect::<Vec<Value>>(),
            "responses": responses,
        });
        if let Some((kind, body)) = self.body {
            operation["requestBody"] =
                json!({"required": true, "content": {kind: {"schema": reference(body)}}});
        }
        operation
    }
}

/// The schema of every body: what is read need not hold what has a default, what is written does.
fn schemas() -> Map<String, Value> {
    let settings = || {
        SchemaSettings::draft2020_12().with(|settings| {
            "/components/schemas".clone_into(settings.definitions_path.to_mut());
        })
    };
    let mut read = settings().for_deserialize().into_generator();
    let mut written = settings().for_serialize().into_generator();
    read.subschema_for::<ExecuteRequest>();
    read.subschema_for::<InstallRequest>();
    read.subschema_for::<ResultRequest>();
    written.subschema_for::<ExecuteResponse>();
    written.subschema_for::<InstallResponse>();
    written.subschema_for::<ExecutionsResponse>();
    written.subschema_for::<ClusterEvent>();
    written.subschema_for::<NodesResponse>();
    written.subschema_for::<FunctionsResponse>();
    written.subschema_for::<FunctionDetail>();
    written.subschema_for::<HeadError>();
    let mut schemas = read.take_definitions(true);
    schemas.extend(written.take_definitions(true));
    schemas.extend([
        ("Bytes".to_owned(), json!({"type": "string", "format": "binary"})),
        ("Text".to_owned(), json!({"type": "string"})),
        ("Any".to_owned(), json!({"type": "object"})),
        (
            "Health".to_owned(),
            json!({"type": "object", "required": ["code", "type"], "properties": {
                "code": {"type": "integer", "const": 200}, "type": {"type": "string"},
            }}),
        ),
    ]);
    // They may be missing as far as reading goes, and are then refused with a reason.
    let wanted: [(&str, &[&str]); 3] = [
        ("ExecuteRequest", &["function_id", "method"]),
        ("ResultRequest", &["id"]),
        ("InstallRequest", &["cid", "uri"]),
    ];
    for (name, fields) in wanted {
        let Some(schema) = schemas.get_mut(name) else { continue };
        for field in fields {
            if let Some(field) = schema["properties"][field].as_object_mut() {
                field.remove("default");
                field.insert("minLength".to_owned(), json!(1));
            }
        }
        if name == "InstallRequest" {
            // One of them does.
            schema["anyOf"] = fields.iter().map(|field| json!({"required": [field]})).collect();
        } else {
            schema["required"] = json!(fields);
        }
    }
    for (name, example) in examples::all() {
        if let Some(schema) = schemas.get_mut(name) {
            schema["example"] = example;
        }
    }
    schemas
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_path_of_the_api_is_described() {
        let described = described();
        for (path, methods) in [
            (paths::FUNCTIONS_EXECUTE, &["post"][..]),
            (paths::FUNCTIONS_INSTALL, &["post"]),
            (paths::FUNCTIONS_RESULT, &["post"]),
            (paths::EXECUTIONS, &["get"]),
            (paths::EXECUTION, &["get", "delete"]),
            (paths::EVENTS, &["get"]),
            (paths::NODES, &["get"]),
            (paths::FUNCTIONS, &["get", "post"]),
            (paths::FUNCTION, &["get", "delete"]),
            (paths::HEAD_HEALTH, &["get"]),
            (paths::METRICS, &["get"]),
            (paths::HEAD_OPENAPI, &["get"]),
        ] {
            for method in methods {
                let operation = &described["paths"][path][method];
                assert!(operation["responses"]["default"].is_object(), "{method} {path}");
            }
        }
    }

    #[test]
    fn every_reference_leads_to_a_schema_and_fields_have_the_names_that_are_served() {
        let described = described();
        let text = described.to_string();
        for reference in text.split("#/components/schemas/").skip(1) {
            let name = reference.split('"').next().unwrap();
            assert!(described["components"]["schemas"][name].is_object(), "{name}");
        }
        let fields = |name: &str| &described["components"]["schemas"][name]["properties"];
        for name in ["number_of_nodes", "quorum", "async", "runtime", "permissions"] {
            let field = &fields("ExecuteConfig")[name];
            assert!(field["description"].is_string(), "{name}: {field}");
        }
        let usage = &fields("ExecutionPeerBody")["usage"];
        assert!(usage.to_string().contains("#/components/schemas/Usage"), "{usage}");
        let required = &described["components"]["schemas"]["ExecuteRequest"]["required"];
        assert_eq!(required, &json!(["function_id", "method"]));
    }

    #[test]
    fn every_example_has_a_schema_that_names_all_its_fields() {
        let schemas = schemas();
        for (name, example) in examples::all() {
            let schema = schemas.get(name).unwrap();
            let text = schema.to_string();
            for field in example.as_object().unwrap().keys() {
                assert!(text.contains(&format!("\"{field}\":")), "{name}.{field}: {text}");
            }
        }
    }
}
