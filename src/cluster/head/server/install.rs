//! `POST /api/v1/functions/install`: has the nodes of a group install a function.
//!
//! As with executions, the answer to a request that was accepted is HTTP 200, and the outcome is the
//! `code` in the body.

use axum::{
    extract::{Request, State},
    response::Response,
};
use model::{function::FunctionId, node::Subgroup};
use wire::{
    functions::{InstallRequest, InstallResponse},
    paths,
};

use super::{
    super::order::{parsed, subgroup},
    Rest, answer,
    auth::is_by_operator,
    error::Refused,
};
use crate::message::InstallFunction;

/// Has the nodes of a group install a function.
///
/// The answer is 200 whatever came of it: see `code`.
#[utoipa::path(post, path = paths::FUNCTIONS_INSTALL, tag = "functions",
    request_body = InstallRequest,
    responses((status = 200, description = "The outcome", body = InstallResponse)))]
pub(super) async fn install(
    State(rest): State<Rest>,
    request: Request,
) -> Result<Response, Refused> {
    let pinned = is_by_operator(&request);
    let request: InstallRequest = rest.bodies.read(request).await?;
    let (function, subgroup) = checked(&request).map_err(|wrong| Refused::invalid(&wrong))?;
    let function = InstallFunction { pinned, ..function };
    Ok(answer(&rest.head.install(function, subgroup.as_ref()).await?))
}

/// Reads what is to be installed: by a content id, or by the address of its manifest, whose SHA-256
/// is then the function's id, as in b7s.
fn checked(request: &InstallRequest) -> Result<(InstallFunction, Option<Subgroup>), Vec<String>> {
    let mut wrong = Vec::new();
    let is_of_web = |uri: &str| uri.starts_with("https://") || uri.starts_with("http://");
    if !request.uri.is_empty() && !is_of_web(&request.uri) {
        wrong.push("URI must begin with https:// or http://".to_owned());
    }
    let id = if request.uri.is_empty() {
        parsed(&request.cid, "function CID", &mut wrong)
    } else {
        Some(FunctionId::from_address(&request.uri))
    };
    let cid = id.map(|id| id.to_string()).unwrap_or_default();
    let subgroup = subgroup(request.group(), &mut wrong);
    let manifest_url = if request.uri.is_empty() {
        // Where b7s workers look for it; those of ours take the content from wherever it is.
        content::usual_address(&cid)
    } else {
        request.uri.clone()
    };
    let function = InstallFunction { manifest_url, cid, pinned: false };
    if wrong.is_empty() { Ok((function, subgroup)) } else { Err(wrong) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_named_by_its_content_or_by_an_address() {
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
        let nothing = checked(&InstallRequest::default());
        assert_eq!(nothing, Err(vec!["function CID is required".to_owned()]));
        for uri in ["nonsense", "file:///etc/passwd"] {
            let elsewhere =
                checked(&InstallRequest { uri: uri.to_owned(), ..InstallRequest::default() });
            let want = "URI must begin with https:// or http://".to_owned();
            assert_eq!(elsewhere, Err(vec![want]), "{uri}");
        }
    }
}
