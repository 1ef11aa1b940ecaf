//! `GET /api/v1/openapi.json`: describes the REST API.

use axum::response::Response;
use serde_json::{Value, json};
use web::openapi::{About, describe};
use wire::{error::HeadError, paths};

use super::{answer, api};

/// One example of each body, with every field that may be there, by the name of its schema.
const EXAMPLES: &str = include_str!("../../../../assets/examples/cluster.json");

/// Groups of operations.
const GROUPS: [(&str, &str); 3] = [
    ("functions", "Running functions, installing them, and those that the head holds."),
    ("executions", "Executions under way, and those that ended."),
    ("cluster", "The nodes, what happens, and how the head is."),
];

/// Describes the API, as this document.
#[utoipa::path(get, path = paths::HEAD_OPENAPI, tag = "cluster",
    responses((status = 200, description = "An OpenAPI document", body = Object)))]
pub(super) async fn openapi() -> Response {
    answer(&document())
}

fn document() -> Value {
    let about = About {
        title: "Function execution cluster: a head",
        text: "",
        groups: &GROUPS,
        security: json!([{"token": []}, {}]),
        session_cookie: "",
        refusals: &[],
        examples: EXAMPLES,
    };
    let mut document = describe::<HeadError, HeadError>(api().into_openapi(), &about);
    // One of them does.
    document["components"]["schemas"]["InstallRequest"]["anyOf"] =
        json!([{"required": ["cid"]}, {"required": ["uri"]}]);
    document
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_is_described() {
        let document = document();
        assert_eq!(web::openapi::find_faults(&document), Vec::<String>::new());
        let required = &document["components"]["schemas"]["ExecuteRequest"]["required"];
        assert_eq!(required, &json!(["function_id", "method"]));
    }
}
