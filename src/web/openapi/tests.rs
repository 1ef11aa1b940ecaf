//! Checks of an API description, for the tests of each API.

use std::collections::BTreeSet;

use serde_json::Value;

/// Returns the faults of `document`. It has no faults if the ids of operations are unique, groups are
/// described, references are valid, schemas are used, fields are described, no description is null, and
/// examples have the fields of their schema.
#[must_use]
pub fn find_faults(document: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let mut ids = BTreeSet::new();
    let paths = document["paths"].as_object().into_iter().flatten();
    for operation in paths.flat_map(|(_, methods)| methods.as_object().into_iter().flatten()) {
        let (id, group) = (&operation.1["operationId"], &operation.1["tags"][0]);
        if !ids.insert(id.to_string()) {
            faults.push(format!("{id} is the id of two operations"));
        }
        let mut groups = document["tags"].as_array().into_iter().flatten();
        if !groups.any(|other| other["name"] == *group) {
            faults.push(format!("{id} is in no group"));
        }
    }
    let text = document.to_string();
    if text.contains(r#""description":null"#) {
        faults.push("a description is null".to_owned());
    }
    let schemas = &document["components"]["schemas"];
    let mut used = BTreeSet::new();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap_or_default();
        if used.insert(name) && schemas.get(name).is_none() {
            faults.push(format!("{name} is no schema"));
        }
    }
    for (name, schema) in schemas.as_object().into_iter().flatten() {
        if !used.contains(name.as_str()) {
            faults.push(format!("{name} is not used"));
        }
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            if !schema["description"].is_string() {
                faults.push(format!("{name}.{field} does not say what it is: {schema}"));
            }
        }
        let example = schema["example"].as_object().into_iter().flatten();
        let unknown = example.filter(|(field, _)| !has_field(schemas, schema, field));
        faults.extend(unknown.map(|(field, _)| format!("{name}.{field} is in an example alone")));
        for field in schema["required"].as_array().into_iter().flatten() {
            let field = field.as_str().unwrap_or_default();
            if schema["example"].is_object() && schema["example"][field].is_null() {
                faults.push(format!("{name}.{field} is missing in an example"));
            }
        }
    }
    faults
}

/// Returns true if a body of `schema` can have a member called `field`.
fn has_field(schemas: &Value, schema: &Value, field: &str) -> bool {
    let name = schema["$ref"].as_str().and_then(|path| path.rsplit('/').next());
    let parts = ["allOf", "anyOf", "oneOf"].iter().filter_map(|word| schema[*word].as_array());
    schema["properties"][field].is_object()
        || schema["additionalProperties"].is_object()
        || name.is_some_and(|name| has_field(schemas, &schemas[name], field))
        || parts.flatten().any(|part| has_field(schemas, part, field))
}

#[cfg(test)]
#[test]
fn omissions_in_an_api_description_are_found() {
    let document = serde_json::json!({
        "tags": [{"name": "rows"}],
        "paths": {
            "/a": {"get": {
                "operationId": "a", "tags": ["rows"],
                "schema": {"$ref": "#/components/schemas/Known"},
            }},
            "/b": {"post": {
                "operationId": "a", "tags": ["tags"],
                "schema": {"$ref": "#/components/schemas/Unknown"},
            }},
        },
        "components": {"schemas": {
            "Known": {
                "properties": {"x": {"description": "a number"}, "y": {}},
                "required": ["x"], "example": {"y": 1, "z": 2},
            },
            "Zero": {"anyOf": [{"description": null}]},
        }},
    });
    let found = find_faults(&document).join("; ");
    let want = [
        r#""a" is the id of two operations"#,
        r#""a" is in no group"#,
        "a description is null",
        "Unknown is no schema",
        "Known.y does not say what it is: {}",
        "Known.z is in an example alone",
        "Known.x is missing in an example",
        "Zero is not used",
    ];
    assert_eq!(found, want.join("; "));
}
