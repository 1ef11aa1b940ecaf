//! Installing a function before it is first called.

use model::node::PeerId;
use tracing::{info, warn};

use super::{Refusal, Worker};
use crate::{
    function_peers::FunctionPeers,
    message::{Code, InstallFunction, InstallFunctionResponse, Message},
};
use content::FUNCTION_PROTOCOL;

/// What b7s workers answer where all went well.
const INSTALLED: &str = "installed";

impl Worker {
    /// Gets the function that `author` wants installed, and tells it how that went. A worker of b7s
    /// says nothing where it failed. Cancel-safe.
    pub async fn install(&self, author: PeerId, install: InstallFunction) {
        let mut peers = self.0.context.peers.speaking(FUNCTION_PROTOCOL);
        // The peer that wants it installed most likely has it.
        peers.sort_by_key(|peer| *peer != author);
        let peers = FunctionPeers { network: &self.0.context.network, peers: &peers };
        let (cid, address) = (&install.cid, &install.manifest_url);
        let got = self.0.context.functions.install(cid, address, &peers).await;
        self.count_installed(got.as_ref().ok());
        let (code, message) = match got.map_err(Refusal::from) {
            Ok(function) => {
                self.compile_soon(&author, function.id);
                info!(function = install.cid, peer = %author, "installed a function");
                (Code::ACCEPTED, INSTALLED.to_owned())
            }
            Err(refusal) => {
                let reason = refusal.public_text();
                warn!(function = install.cid, peer = %author, reason, "could not install a function");
                (refusal.code(), reason)
            }
        };
        let response = InstallFunctionResponse { code, message, cid: install.cid };
        self.tell(&author, &Message::InstallFunctionResponse(response)).await;
    }
}
