//! Finds faults of an API description, for tests.

use std::collections::BTreeSet;

use serde_json::Value;

/// What `document` leaves out, makes up or does not explain, where `served` are the paths and methods
/// that there are. A reader can rely on one without faults: each route is described, each reference
/// leads to a schema, each schema is used, and each field says what it is.
#[must_use]
pub fn find_faults(document: &Value, served: &BTreeSet<(String, String)>) -> Vec<String> {
    let mut told = BTreeSet::new();
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, _) in methods.as_object().into_iter().flatten() {
            told.insert((path.clone(), method.clone()));
        }
    }
    let missing = served.difference(&told).map(|route| format!("{route:?} is not described"));
    let invented = told.difference(served).map(|route| format!("{route:?} is not served"));
    let mut faults: Vec<String> = missing.chain(invented).collect();

    let text = document.to_string();
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
    }
    faults
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_is_left_out_made_up_or_not_explained_is_a_fault() {
        let document = json!({
            "paths": {
                "/a": {"get": {"schema": {"$ref": "#/components/schemas/Known"}}},
                "/b": {"post": {"schema": {"$ref": "#/components/schemas/Unknown"}}},
            },
            "components": {"schemas": {
                "Known": {"properties": {"x": {"description": "a number"}, "y": {}}},
                "Zero": {},
            }},
        });
        let served = ["/a", "/c"].map(|path| (path.to_owned(), "get".to_owned()));
        let found = find_faults(&document, &BTreeSet::from(served)).join("; ");
        let want = [
            r#"("/c", "get") is not described"#,
            r#"("/b", "post") is not served"#,
            "Unknown is no schema",
            "Known.y does not say what it is: {}",
            "Zero is not used",
        ];
        assert_eq!(found, want.join("; "));
    }
}
