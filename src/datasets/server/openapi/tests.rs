use std::collections::BTreeSet;

use super::*;

/// The constants of `paths` that this service's router names, with their methods, as written there.
fn routes() -> Vec<(String, String)> {
    let routers = [include_str!("../../server.rs"), include_str!("../../../accounts/server.rs")];
    let mut routes = Vec::new();
    for route in routers.iter().flat_map(|router| router.split(".route(").skip(1)) {
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
fn every_route_is_described_and_nothing_else() {
    let document = described();
    let served: BTreeSet<(String, String)> =
        routes().into_iter().map(|(constant, method)| (path_of(&constant), method)).collect();
    assert!(served.len() > 15, "the routes are found: {served:?}");
    let mut told = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            told.insert((path.clone(), method.clone()));
        }
    }
    let missing: Vec<_> = served.difference(&told).collect();
    let invented: Vec<_> = told.difference(&served).collect();
    assert!(
        missing.is_empty() && invented.is_empty(),
        "missing {missing:?}, invented {invented:?}"
    );
}

#[test]
fn every_reference_leads_to_a_schema_and_every_schema_is_used() {
    let document = described();
    let text = document.to_string();
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let mut used = BTreeSet::new();
    for reference in text.split("#/components/schemas/").skip(1) {
        let name = reference.split('"').next().unwrap();
        assert!(schemas.contains_key(name), "{name}");
        used.insert(name);
    }
    for (name, schema) in schemas {
        assert!(used.contains(name.as_str()), "{name} is used");
        for (field, schema) in schema["properties"].as_object().into_iter().flatten() {
            let is_told = schema["description"].is_string();
            assert!(is_told, "{name}.{field} says what it is: {schema}");
        }
    }
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
