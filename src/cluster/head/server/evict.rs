//! `POST /api/v1/functions/evict`: has workers remove functions from their stores.

use axum::{
    extract::{Request, State},
    response::Response,
};
use model::function::FunctionId;
use wire::{
    functions::{EvictRequest, EvictResponse},
    paths,
};

use super::{super::order::parsed, Rest, answer, error::Refused};

/// Has all workers remove a function, or all functions that no operator added or installed.
///
/// Workers do so for heads that they obey or have as boot nodes. The head keeps what it has.
#[utoipa::path(post, path = paths::FUNCTIONS_EVICT, tag = "functions",
    request_body = EvictRequest,
    responses((status = 200, description = "What each worker removed", body = EvictResponse)))]
pub(super) async fn evict(State(rest): State<Rest>, request: Request) -> Result<Response, Refused> {
    let EvictRequest { cid, all } = rest.bodies.read(request).await?;
    let mut wrong = Vec::new();
    let id = match (cid.as_str(), all) {
        ("", true) => None,
        (_, true) => {
            wrong.push("cid and all exclude each other".to_owned());
            None
        }
        (cid, false) => match FunctionId::parse_any(cid) {
            Ok(id) => Some(id),
            Err(_) => parsed::<FunctionId>(cid, "function CID", &mut wrong),
        },
    };
    if !wrong.is_empty() {
        return Err(Refused::invalid(&wrong));
    }
    Ok(answer(&rest.head.evict(id).await))
}
