//! Why the network did not start, or did not carry a message.

use std::{io, time::Duration};

use model::node::PeerId;

use super::ExchangeError;
use crate::peer_db::PeerDbError;

/// Why the network did not start.
#[derive(Debug, thiserror::Error)]
pub enum NetworkError {
    /// The transport or a protocol could not be set up.
    #[error("set up the network")]
    Setup(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The address could not be listened on.
    #[error("listen on {address}")]
    Listen {
        /// The address to listen on.
        address: String,
        /// The cause of the failure.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The boot nodes were to be reached, and some were not.
    #[error("reach the boot nodes {} within {within:?}", texts(.peers))]
    Unreached {
        /// The boot nodes without a connection.
        peers: Vec<PeerId>,
        /// How long it was tried.
        within: Duration,
    },
    /// One port was given for TCP and for websockets.
    #[error("listen on port {port} for TCP and for websockets at once")]
    SamePort {
        /// The port given twice.
        port: u16,
    },
    /// The peer store could not be opened.
    #[error("open the peer store")]
    PeerDb(#[from] PeerDbError),
}

/// Why a message was not published.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// No connected peer listens to the topic.
    #[error("find a peer that listens to the topic")]
    Unheard,
    /// It is longer than [`GOSSIP_BYTES_MAX`](super::GOSSIP_BYTES_MAX), or the gossip protocol
    /// refused it.
    #[error("publish a message: {reason}")]
    Refused {
        /// The reason that gossip gives.
        reason: String,
    },
    /// The network has stopped.
    #[error("publish on a network that has stopped")]
    Stopped,
}

/// Why a message did not reach a peer.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    /// No stream could be opened.
    #[error("open a stream to {peer}")]
    Open {
        /// The peer that was called.
        peer: PeerId,
        /// The cause of the failure.
        source: io::Error,
    },
    /// The stream broke, it took too long, or more came back than was agreed.
    #[error("exchange a message with {peer}")]
    Exchange {
        /// The peer at the other end.
        peer: PeerId,
        /// What went wrong.
        source: ExchangeError,
    },
    /// The network has stopped.
    #[error("send on a network that has stopped")]
    Stopped,
}

fn texts(peers: &[PeerId]) -> String {
    peers.iter().map(PeerId::as_str).collect::<Vec<_>>().join(", ")
}
