//! Functions fetched from peers over this network, and given to them.

use content::{AnswerLimits, AskError, Peers};
use model::node::PeerId;

use crate::network::{ExchangeError, Network, SendError};

/// Peers that may have a function, and the network to ask them over.
pub(crate) struct FunctionPeers<'a> {
    pub(crate) network: &'a Network,
    pub(crate) peers: &'a [PeerId],
}

impl Peers for FunctionPeers<'_> {
    fn peers(&self) -> &[PeerId] {
        self.peers
    }

    async fn ask(
        &self,
        peer: &PeerId,
        question: &[u8],
        limits: AnswerLimits,
    ) -> Result<Vec<u8>, AskError> {
        let AnswerLimits { bytes_max, within } = limits;
        let answer =
            self.network.ask(peer, content::FUNCTION_PROTOCOL, question, bytes_max, within).await;
        answer.map_err(|error| match error {
            SendError::Exchange { source: ExchangeError::TooLong { bytes_max, .. }, .. } => {
                AskError::TooLong { bytes_max }
            }
            error => AskError::Failed(error.into()),
        })
    }
}
