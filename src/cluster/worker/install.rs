//! Installing functions before their first call, and evicting functions.

use model::{function::FunctionId, node::PeerId};
use task::causes::chain;
use tracing::{info, warn};

use super::{WorkRefusal, Worker};
use crate::{
    message::{
        Code, EvictFunctions, EvictFunctionsResponse, InstallFunction, InstallFunctionResponse,
        Message,
    },
    peers::FunctionPeers,
};
use content::{FUNCTION_PROTOCOL, FunctionsError, Requester, Usage};

/// Response to a peer that may not evict functions, as a sentence about the worker.
const NOT_OBEYED: &str = "does not obey this head: see --obey and --boot-nodes";

/// Response of b7s workers after success.
const INSTALLED: &str = "installed";

impl Worker {
    /// Installs a function for `author`, and sends the outcome. A b7s worker sends nothing after a
    /// failure. Cancel-safe.
    pub async fn install(&self, author: PeerId, install: InstallFunction) {
        let mut peers = self.0.context.peers.speaking(FUNCTION_PROTOCOL);
        // The author most likely has the function.
        peers.sort_by_key(|peer| *peer != author);
        let peers = FunctionPeers { network: &self.0.context.network, peers: &peers };
        let (cid, address) = (&install.cid, &install.manifest_url);
        let requester = match self.requester(&author) {
            Requester::Named(_) if install.pinned => Requester::Operator,
            requester => requester,
        };
        let got = self.0.context.functions.install(cid, address, &requester, &peers).await;
        self.count_installed(got.as_ref().ok());
        let (code, message) = match got.map_err(WorkRefusal::from) {
            Ok(function) => {
                self.compile_soon(&author, function.id);
                info!(function = install.cid, peer = %author, "installed a function");
                (Code::ACCEPTED, INSTALLED.to_owned())
            }
            Err(refusal) => {
                let reason = refusal.public_text();
                warn!(function = install.cid, peer = %author, reason, "cannot install a function");
                (refusal.code(), reason)
            }
        };
        let response = InstallFunctionResponse { code, message, cid: install.cid };
        self.tell(&author, &Message::InstallFunctionResponse(response)).await;
    }

    /// Removes functions for a named head, and sends their number.
    pub async fn evict(&self, head: PeerId, request: EvictFunctions) {
        let request_id = request.request_id.clone();
        let is_named = matches!(self.requester(&head), Requester::Named(_));
        let left = self.0.context.functions.usage().functions;
        let report =
            EvictFunctionsResponse { request_id, left, ..EvictFunctionsResponse::default() };
        let report = if is_named {
            match self.evicted(&request).await {
                Ok(Usage { functions, bytes }) => {
                    info!(peer = %head, functions, bytes, "evicted functions");
                    let left = self.0.context.functions.usage().functions;
                    EvictFunctionsResponse { code: Code::OK, functions, bytes, left, ..report }
                }
                Err(error) => {
                    warn!(peer = %head, reason = chain(&error), "cannot evict functions");
                    let message = "failed to evict: see its log".to_owned();
                    EvictFunctionsResponse { code: Code::ERROR, message, ..report }
                }
            }
        } else {
            let message = NOT_OBEYED.to_owned();
            EvictFunctionsResponse { code: Code::FORBIDDEN, message, ..report }
        };
        self.tell(&head, &Message::EvictFunctionsResponse(report)).await;
    }

    async fn evicted(&self, request: &EvictFunctions) -> Result<Usage, FunctionsError> {
        let functions = &self.0.context.functions;
        if request.cid.is_empty() {
            return functions.remove_unpinned().await;
        }
        let function = FunctionId::parse_any(&request.cid).ok().and_then(|id| functions.get(id));
        let Some(function) = function else { return Ok(Usage::default()) };
        let is_removed = functions.remove(function.id).await?;
        let bytes = if is_removed { function.kept_bytes } else { 0 };
        Ok(Usage { functions: usize::from(is_removed), bytes })
    }
}
