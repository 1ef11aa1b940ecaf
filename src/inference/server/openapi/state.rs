//! The operations that tell of the service itself.

use web::openapi::{Answer, Caller, Content, Operation, answer, json_of};
use wire::paths;

/// The operations of this group, in the order of the description.
pub(super) const OPERATIONS: [Operation; 3] = [
    tells(
        paths::HEALTH,
        "health",
        "Whether the service answers.",
        &[answer("200", "It does", &[json_of("ServiceHealth")])],
    ),
    tells(
        paths::OPENAPI,
        "openapi",
        "This description.",
        &[answer("200", "An OpenAPI document", &[json_of("Document")])],
    ),
    tells(
        paths::DOCS,
        "docs",
        "This description as a page for people.",
        &[answer("200", "A page", &[Content { kind: "text/html", schema: "Text" }])],
    ),
];

/// An operation that anybody may ask for.
const fn tells(
    path: &'static str,
    id: &'static str,
    summary: &'static str,
    answers: &'static [Answer],
) -> Operation {
    Operation {
        method: "get",
        path,
        id,
        group: "service",
        summary,
        text: "",
        parameters: &[],
        body: &[],
        answers,
        caller: Caller::Anybody,
    }
}
