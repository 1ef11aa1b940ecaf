//! `GET /api/v1/functions`: lists the functions a head holds; `POST` gives it one more.
//!
//! The body is the blocks of the function as a CAR (`application/vnd.ipld.car`) or one module
//! (`application/wasm`). `?name=` says what to call it, `?method=` the module's file name.

use axum::{
    extract::{Path, Request, State},
    response::Response,
};
use content::{CAR_BYTES_MAX, Function, NameHints};
use model::function::{FunctionId, Method};
use serde::Deserialize;
use tokio::time::{Duration, timeout};
use web::extract::{self, BodyError};
use wire::{
    functions::{FunctionBody, FunctionDetail, FunctionsResponse},
    paths,
};

use super::{answer, bodies::media_type, error::Refused};
use crate::head::Head;

/// The media type of a CAR.
const CAR: &str = "application/vnd.ipld.car";

/// The media type of a module.
const WASM: &str = "application/wasm";

/// What the query says of a function.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Label {
    /// What to call it; the name of its method where it is left out.
    #[serde(default)]
    name: String,
    /// The file name of the module, without which a module is refused.
    #[serde(default)]
    method: String,
}

/// The functions the head holds, by name.
#[utoipa::path(get, path = paths::FUNCTIONS, tag = "functions",
    responses((status = 200, description = "Functions", body = FunctionsResponse)))]
pub(super) async fn functions(State(head): State<Head>) -> Response {
    answer(&FunctionsResponse { functions: head.0.context.functions.bodies() })
}

/// Gives the head a function: its blocks as a CAR, or, with `method`, one module.
#[utoipa::path(post, path = paths::FUNCTIONS, tag = "functions", params(Label),
    request_body(content((Vec<u8> = "application/vnd.ipld.car"),
        (Vec<u8> = "application/wasm"))),
    responses((status = 200, description = "The function", body = FunctionBody)))]
pub(super) async fn upload(
    State(head): State<Head>,
    request: Request,
) -> Result<Response, Refused> {
    let Label { name, method } = extract::query(request.uri())?;
    let method = Some(method).filter(|method| !method.is_empty());
    let method = method.map(|method| method.parse::<Method>()).transpose();
    let method = method.map_err(|error| invalid(format!("method: {error}")))?;
    let kind = media_type(request.headers());
    let _permit = head.upload_permit().ok_or(Refused::TOO_MANY_UPLOADS)?;
    // 260 MiB at 10 Mbit/s.
    let bytes = timeout(Duration::from_mins(4), extract::bytes(request)).await;
    let bytes = match bytes.unwrap_or(Err(BodyError::Broken)) {
        Err(BodyError::TooLarge) => return Err(Refused::too_large(CAR_BYTES_MAX)),
        bytes => bytes?,
    };
    let added = match (kind.as_str(), method) {
        (CAR, method) => {
            let names = NameHints { name: Some(name), method };
            head.0.context.functions.add_car(names, bytes).await
        }
        (WASM, Some(method)) => head.0.context.functions.add(method, bytes.to_vec()).await,
        (WASM, None) => return Err(invalid("method is required: ?method=<file>.wasm".to_owned())),
        _ => return Err(invalid(format!("content type must be {CAR} or {WASM}"))),
    };
    Ok(answer(&added?.body()))
}

fn invalid(reason: String) -> Refused {
    Refused::invalid(&[reason])
}

/// One function and its files.
#[utoipa::path(get, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "The function", body = FunctionDetail)))]
pub(super) async fn function(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let detail = head.0.context.functions.detail(find(&head, &id)?.id).await?;
    Ok(answer(&detail.ok_or(Refused::UNKNOWN_FUNCTION)?))
}

/// Has the head forget a function. Workers that hold it keep it.
#[utoipa::path(delete, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "What was removed", body = FunctionBody)))]
pub(super) async fn remove(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, Refused> {
    let function = find(&head, &id)?;
    head.0.context.functions.remove(function.id).await?;
    Ok(answer(&function.body()))
}

/// The function by the id that the path names.
fn find(head: &Head, id: &str) -> Result<Function, Refused> {
    let id = FunctionId::parse_any(id).map_err(|_| Refused::UNKNOWN_FUNCTION)?;
    head.0.context.functions.get(id).ok_or(Refused::UNKNOWN_FUNCTION)
}
