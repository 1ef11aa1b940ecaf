use std::collections::BTreeSet;

use web::openapi::find_table_faults;

use super::*;

/// The constants of `paths` that this service's router names, with their methods, as written there.
fn routes() -> Vec<(String, String)> {
    let mut routes = Vec::new();
    for route in include_str!("../../server.rs").split(".route(").skip(1) {
        let Some((constant, rest)) = route.trim_start().split_once(',') else { continue };
        let Some(constant) = constant.strip_prefix("paths::") else { continue };
        // A page for people is no API.
        if constant.starts_with("PORTAL") {
            continue;
        }
        let methods = rest.split("\n        .").next().unwrap();
        for method in ["get", "post", "put", "patch", "delete"] {
            if methods.contains(&format!("{method}(")) {
                routes.push((constant.to_owned(), method.to_owned()));
            }
        }
    }
    routes
}

/// The path that a constant of `wire::paths` holds.
fn path_of(constant: &str) -> String {
    let text = include_str!("../../../wire/paths.rs");
    let (_, rest) = text.split_once(&format!("pub const {constant}: &str =")).unwrap();
    rest.split('"').nth(1).unwrap().to_owned()
}

#[test]
fn every_route_is_described_and_everything_is_explained() {
    let document = described();
    let mut served: BTreeSet<(String, String)> =
        routes().into_iter().map(|(constant, method)| (path_of(&constant), method)).collect();
    // Those of accounts are made from the routes.
    for (path, methods) in openapi::document()["paths"].as_object().unwrap() {
        let methods = methods.as_object().unwrap().keys();
        served.extend(methods.map(|method| (path.clone(), method.clone())));
    }
    assert!(served.len() > 15, "the routes are found: {served:?}");
    let faults = find_table_faults(&document, &served);
    assert!(faults.is_empty(), "{faults:#?}");
}

#[test]
fn operations_have_names_of_their_own_groups_that_are_told_and_schemas_that_are_json() {
    let mut ids = BTreeSet::new();
    for operation in OPERATIONS.iter().copied().flatten() {
        let id = operation.id;
        assert!(ids.insert(id), "{id} is one operation's name");
        assert!(GROUPS.iter().any(|(group, _)| *group == operation.group), "{id}'s group");
        for parameter in operation.parameters {
            let schema: Value = serde_json::from_str(parameter.schema).unwrap();
            assert!(schema["type"].is_string(), "{id}.{}", parameter.name);
            let is_path = operation.path.contains(&format!("{{{}}}", parameter.name));
            assert_eq!(is_path, parameter.place == "path", "{id}.{}", parameter.name);
        }
    }
}

#[test]
fn every_example_names_fields_of_its_schema() {
    let schemas = schemas();
    for (name, example) in examples::all() {
        let schema = schemas.get(name).unwrap();
        let open = schema.get("additionalProperties").is_some();
        for field in example.as_object().unwrap().keys() {
            let is_field = schema["properties"][field].is_object();
            assert!(open || is_field, "{name}.{field}");
        }
        for required in schema["required"].as_array().into_iter().flatten() {
            assert!(example.get(required.as_str().unwrap()).is_some(), "{name}.{required}");
        }
    }
}
