use std::collections::BTreeSet;

use web::openapi::find_table_faults;

use super::*;

const LIMITS: Limits = Limits { rate: 50, burst: 0, requests_per_day: 0, bytes_per_day: 0 };

fn document() -> Value {
    described(LIMITS, WorkerQuota::USUAL)
}

/// The paths that the routers name, with their methods, as written there.
fn routes() -> BTreeSet<(String, String)> {
    let routers = [include_str!("../../server.rs"), include_str!("../emissions.rs")];
    let mut routes = BTreeSet::new();
    for route in routers.iter().flat_map(|router| router.split(".route(").skip(1)) {
        let (constant, rest) = route.trim_start().split_once(',').unwrap();
        let constant = constant.rsplit("::").next().unwrap();
        let rest = rest.split([';', '}']).next().unwrap();
        for method in ["get", "post", "put", "patch", "delete"] {
            if rest.contains(&format!("{method}(")) {
                routes.insert((path_of(constant), method.to_owned()));
            }
        }
    }
    routes
}

/// The path that a constant of `wire::paths` or its emissions holds.
fn path_of(constant: &str) -> String {
    let texts =
        [include_str!("../../../wire/paths.rs"), include_str!("../../../wire/paths/emissions.rs")];
    let name = format!("pub const {constant}: &str =");
    let found: Vec<&str> = texts.iter().flat_map(|text| text.split(&name).skip(1)).collect();
    assert_eq!(found.len(), 1, "{constant} is one path");
    found[0].split('"').nth(1).unwrap().to_owned()
}

#[test]
fn every_route_is_described_and_everything_is_explained() {
    let document = document();
    let served = routes();
    assert!(served.len() > 65, "the routes are found: {served:?}");
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
        let mut in_path = 0;
        for parameter in operation.parameters {
            let schema: Value = serde_json::from_str(parameter.schema).unwrap();
            assert!(schema["type"].is_string(), "{id}.{}", parameter.name);
            let is_path = operation.path.contains(&format!("{{{}}}", parameter.name));
            assert_eq!(is_path, parameter.place == "path", "{id}.{}", parameter.name);
            in_path += usize::from(is_path);
        }
        assert_eq!(operation.path.matches('{').count(), in_path, "{id} tells its whole path");
    }
}

#[test]
fn limits_are_told_as_they_are() {
    let text = document()["info"]["description"].as_str().unwrap().to_owned();
    for want in
        ["50 requests a second together, 50 at once", "16 workers in an epoch", "`Retry-After`"]
    {
        assert!(text.contains(want), "`{want}` is in {text}");
    }
    let none = Limits { rate: 0, requests_per_day: 9, bytes_per_day: 7, ..LIMITS };
    let text = describe_limits(none, WorkerQuota(0));
    for want in ["as often as they like", "9 requests a day", "7 bytes of bodies"] {
        assert!(text.contains(want), "`{want}` is in {text}");
    }
    assert!(!text.contains("workers"));
}
