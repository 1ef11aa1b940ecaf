//! The operations on the service itself.

use web::openapi::{Caller, Content, Operation, answer, json_of};
use wire::paths;

/// All of them, in the order of the document.
pub(super) const OPERATIONS: [Operation; 5] = [
    Operation {
        method: "get",
        path: paths::HEALTH,
        id: "health",
        group: "service",
        summary: "Whether the service and its store answer.",
        text: "",
        parameters: &[],
        body: &[],
        answers: &[
            answer("200", "They do", &[json_of("HealthBody")]),
            answer("503", "A file does not answer, or was removed", &[json_of("HealthBody")]),
            answer("507", "The disk is full: reads go on", &[json_of("HealthBody")]),
        ],
        caller: Caller::Anybody,
    },
    Operation {
        method: "get",
        path: paths::METRICS,
        id: "metrics",
        group: "service",
        summary: "Counts, as Prometheus text.",
        text: "",
        parameters: &[],
        body: &[],
        answers: &[answer("200", "Counts", &[Content { kind: "text/plain", schema: "Text" }])],
        caller: Caller::Anybody,
    },
    Operation {
        method: "get",
        path: paths::OPENAPI,
        id: "openapi",
        group: "service",
        summary: "This description.",
        text: "",
        parameters: &[],
        body: &[],
        answers: &[answer("200", "An OpenAPI document", &[json_of("Document")])],
        caller: Caller::Anybody,
    },
    Operation {
        method: "get",
        path: paths::DOCS,
        id: "docs",
        group: "service",
        summary: "This description as a page for people.",
        text: "",
        parameters: &[],
        body: &[],
        answers: &[answer("200", "A page", &[Content { kind: "text/html", schema: "Text" }])],
        caller: Caller::Anybody,
    },
    Operation {
        method: "get",
        path: paths::ROOT,
        id: "root",
        group: "service",
        summary: "Links to the pages for people: the portal and this description.",
        text: "",
        parameters: &[],
        body: &[],
        answers: &[answer("200", "A page", &[Content { kind: "text/html", schema: "Text" }])],
        caller: Caller::Anybody,
    },
];
