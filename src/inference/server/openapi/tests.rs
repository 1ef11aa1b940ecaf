use web::openapi::find_faults;

use super::super::emissions::{QueryText, constant_queries};
use super::*;

#[test]
fn every_operation_of_the_api_is_described() {
    let document = document();
    assert_eq!(find_faults(&document), Vec::<String>::new());
    assert!(document["paths"].as_object().is_some_and(|paths| paths.len() > 65));
    for [path, ..] in constant_queries() {
        let path = format!("/emissions/{{version}}{path}");
        assert!(document["paths"][&path]["get"].is_object(), "{path}");
    }
    for QueryText { id, path, .. } in QueryText::all() {
        let path = path.split('?').next().unwrap();
        let operation = &document["paths"][format!("/emissions/{{version}}{path}")]["get"];
        assert_eq!(operation["operationId"], id);
    }
}

#[test]
fn api_description_lists_required_topic_settings() {
    let document = document();
    let required = &document["components"]["schemas"]["TopicSettings"]["required"];
    assert_eq!(*required, json!(["metadata", "dataset", "column", "horizon_seconds"]));
}

#[test]
fn api_description_names_the_headers_with_the_limits() {
    let document = document();
    let text = document["info"]["description"].as_str().unwrap();
    for want in ["`RateLimit-Limit`", "`Retry-After`"] {
        assert!(text.contains(want), "`{want}` is in {text}");
    }
}
