use web::openapi::find_faults;

use super::super::emissions::{QueryText, constant_queries};
use super::*;

const LIMITS: Limits = Limits { rate: 50, burst: 0, requests_per_day: 0, bytes_per_day: 0 };

#[test]
fn every_operation_of_the_api_is_described() {
    let document = document(LIMITS, WorkerQuota::USUAL);
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
    let document = document(LIMITS, WorkerQuota::USUAL);
    let required = &document["components"]["schemas"]["TopicSettings"]["required"];
    assert_eq!(*required, json!(["metadata", "dataset", "column", "horizon_seconds"]));
}

#[test]
fn api_description_contains_the_limits() {
    let document = document(LIMITS, WorkerQuota::USUAL);
    let text = document["info"]["description"].as_str().unwrap();
    for want in [
        "50 requests per second together, with bursts of 50",
        "16 workers per epoch",
        "`Retry-After`",
    ] {
        assert!(text.contains(want), "`{want}` is in {text}");
    }
    let none = Limits { rate: 0, requests_per_day: 9, bytes_per_day: 7, ..LIMITS };
    let text = describe_limits(none, WorkerQuota(0));
    for want in ["is not limited", "9 requests per UTC day", "7 bytes of bodies"] {
        assert!(text.contains(want), "`{want}` is in {text}");
    }
    assert!(!text.contains("workers"));
}
