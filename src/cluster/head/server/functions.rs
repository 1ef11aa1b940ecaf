//! `/api/v1/functions`: lists, uploads, installs and evicts the functions of a head.

use std::time::Duration;

use axum::extract::{Path, Request, State};
use axum::response::Response;
use content::{CAR_BYTES_MAX, Function, NameHints};
use model::function::{FunctionId, Method};
use model::node::Subgroup;
use serde::Deserialize;
use tokio::time::timeout;
use web::extract::{self, BodyError};
use wire::functions::{
    EvictRequest, EvictResponse, FunctionBody, FunctionDetail, FunctionsResponse, InstallRequest,
    InstallResponse,
};
use wire::paths;

use super::super::order::{parsed, subgroup};
use super::auth::is_by_operator;
use super::error::RestError;
use super::execute::client;
use super::{Rest, respond};
use crate::head::Head;
use crate::message::InstallFunction;

/// Media type of a CAR.
const CAR: &str = "application/vnd.ipld.car";

/// Media type of a module.
const WASM: &str = "application/wasm";

/// Query of an upload.
#[derive(Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(super) struct Label {
    /// Name of the function. By default, the name of its method.
    #[serde(default)]
    name: String,
    /// File name of the module. Required for a module.
    #[serde(default)]
    method: String,
}

/// The functions that the head holds, by name.
#[utoipa::path(get, path = paths::FUNCTIONS, tag = "functions",
    responses((status = 200, description = "Functions", body = FunctionsResponse)))]
pub(super) async fn functions(State(head): State<Head>) -> Response {
    respond(&FunctionsResponse { functions: head.0.context.functions.bodies() })
}

/// Uploads a function to the head: its blocks as a CAR, or, with `method`, one module.
#[utoipa::path(post, path = paths::FUNCTIONS, tag = "functions", params(Label),
    request_body(content((Vec<u8> = "application/vnd.ipld.car"),
        (Vec<u8> = "application/wasm"))),
    responses((status = 200, description = "The function", body = FunctionBody)))]
pub(super) async fn upload(
    State(head): State<Head>,
    request: Request,
) -> Result<Response, RestError> {
    let Label { name, method } = extract::query(request.uri())?;
    let name = Some(name).filter(|name| !name.is_empty());
    let method = Some(method).filter(|method| !method.is_empty());
    let method = method.map(|method| method.parse::<Method>()).transpose();
    let method = method.map_err(|error| invalid(format!("method: {error}")))?;
    let kind = extract::media_type(request.headers());
    let _permit = head.upload_permit().ok_or(RestError::TOO_MANY_UPLOADS)?;
    // The time is enough for 260 MiB at 10 Mbit/s.
    let bytes = timeout(Duration::from_mins(4), extract::bytes(request)).await;
    let bytes = match bytes.unwrap_or(Err(BodyError::Broken)) {
        Err(BodyError::TooLarge) => return Err(RestError::too_large(CAR_BYTES_MAX)),
        bytes => bytes?,
    };
    let functions = &head.0.context.functions;
    let added = match (kind.as_str(), method) {
        (CAR, method) => functions.add_car(NameHints { name, method }, bytes).await,
        (WASM, Some(method)) => functions.add_named(name, method, bytes.to_vec()).await,
        (WASM, None) => return Err(invalid("method is required: ?method=<file>.wasm".to_owned())),
        _ => return Err(invalid(format!("content type must be {CAR} or {WASM}"))),
    };
    Ok(respond(&added?.body()))
}

/// One function and its files.
#[utoipa::path(get, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "The function", body = FunctionDetail)))]
pub(super) async fn function(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, RestError> {
    let detail = head.0.context.functions.detail(find(&head, &id)?.id).await?;
    Ok(respond(&detail.ok_or(RestError::UNKNOWN_FUNCTION)?))
}

/// Removes a function from the head. The function remains on workers that hold it.
#[utoipa::path(delete, path = paths::FUNCTION, tag = "functions",
    params(("id" = String, Path, description = "The id of its content.")),
    responses((status = 200, description = "What was removed", body = FunctionBody)))]
pub(super) async fn remove(
    State(head): State<Head>,
    Path(id): Path<String>,
) -> Result<Response, RestError> {
    let function = find(&head, &id)?;
    head.0.context.functions.remove(function.id).await?;
    Ok(respond(&function.body()))
}

/// Has the nodes of a group install a function.
///
/// The status is 200 for any outcome, which is described by `code`.
#[utoipa::path(post, path = paths::FUNCTIONS_INSTALL, tag = "functions",
    request_body = InstallRequest,
    responses((status = 200, description = "The outcome", body = InstallResponse)))]
pub(super) async fn install(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, RestError> {
    let (pinned, client) = (is_by_operator(&request), client(&request));
    let request: InstallRequest = rest.bodies.read(request).await?;
    let (function, subgroup) = checked(&request).map_err(|errors| RestError::invalid(&errors))?;
    let function = InstallFunction { pinned, ..function };
    Ok(respond(&rest.head.install(&client, function, subgroup.as_ref()).await?))
}

/// Removes a function from all workers, or all functions that no operator added or installed.
///
/// Only workers that obey this head, or have it as a boot node, remove functions. The functions of the
/// head itself remain.
#[utoipa::path(post, path = paths::FUNCTIONS_EVICT, tag = "functions",
    request_body = EvictRequest,
    responses((status = 200, description = "What each worker removed", body = EvictResponse)))]
pub(super) async fn evict(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, RestError> {
    let EvictRequest { cid, all } = rest.bodies.read(request).await?;
    let mut errors = Vec::new();
    let id = match (cid.as_str(), all) {
        ("", true) => None,
        (_, true) => return Err(invalid("cid and all exclude each other".to_owned())),
        (cid, false) => FunctionId::parse_any(cid)
            .ok()
            .or_else(|| parsed::<FunctionId>(cid, "function CID", &mut errors)),
    };
    if !errors.is_empty() {
        return Err(RestError::invalid(&errors));
    }
    Ok(respond(&rest.head.evict(id).await))
}

fn invalid(reason: String) -> RestError {
    RestError::invalid(&[reason])
}

/// Returns the function with the id in the path.
fn find(head: &Head, id: &str) -> Result<Function, RestError> {
    let id = FunctionId::parse_any(id).map_err(|_| RestError::UNKNOWN_FUNCTION)?;
    head.0.context.functions.get(id).ok_or(RestError::UNKNOWN_FUNCTION)
}

/// Validates a request to install a function by content id or by the address of a manifest. As in b7s,
/// the SHA-256 of that address is the function's id.
fn checked(request: &InstallRequest) -> Result<(InstallFunction, Option<Subgroup>), Vec<String>> {
    let InstallRequest { cid, uri, .. } = request;
    let mut errors = Vec::new();
    if !uri.is_empty() && !uri.starts_with("https://") && !uri.starts_with("http://") {
        errors.push("URI must begin with https:// or http://".to_owned());
    }
    let id = if uri.is_empty() {
        if cid.is_empty() {
            // As in b7s version 1, which also installs by address.
            return Err(vec!["URI or CID are required".to_owned()]);
        }
        parsed(cid, "function CID", &mut errors)
    } else {
        Some(FunctionId::from_address(uri))
    };
    let cid = id.map(|id| id.to_string()).unwrap_or_default();
    let subgroup = subgroup(request.group(), &mut errors);
    // b7s workers download the function from the usual address for its CID. Workers of this program
    // also fetch it from peers and gateways.
    let manifest_url = if uri.is_empty() { content::usual_address(&cid) } else { uri.clone() };
    let function = InstallFunction { manifest_url, cid, pinned: false };
    if errors.is_empty() { Ok((function, subgroup)) } else { Err(errors) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn function_can_be_installed_by_content_id_or_address() {
        let cid = FunctionId::from_module(b"module").to_string();
        let request = InstallRequest { cid: cid.clone(), ..InstallRequest::default() };
        let manifest_url = format!("https://{cid}.ipfs.w3s.link/manifest.json");
        let want = InstallFunction { manifest_url, cid: cid.clone(), pinned: false };
        assert_eq!(checked(&request), Ok((want, None)));
        let uri = "https://example.com/manifest.json".to_owned();
        let id = FunctionId::from_address(&uri).to_string();
        let topic = Some("gpu".to_owned());
        let request = InstallRequest { cid, uri: uri.clone(), topic, ..InstallRequest::default() };
        let want = InstallFunction { manifest_url: uri, cid: id, pinned: false };
        assert_eq!(checked(&request), Ok((want, Some("gpu".parse().unwrap()))));
        let missing = checked(&InstallRequest::default());
        assert_eq!(missing, Err(vec!["URI or CID are required".to_owned()]));
        for uri in ["nonsense", "file:///etc/passwd"] {
            let request = InstallRequest { uri: uri.to_owned(), ..InstallRequest::default() };
            let want = "URI must begin with https:// or http://".to_owned();
            assert_eq!(checked(&request), Err(vec![want]), "{uri}");
        }
    }
}
