//! Clients: whose requests wait in turn, and how many of them one may have under way.

use std::{collections::HashMap, sync::Arc};

use model::node::PeerId;
use parking_lot::Mutex;
use web::address::Network;

/// Executions of one client at once: the rest of `EXECUTIONS_MAX` is for others.
pub(super) const CLIENT_EXECUTIONS_MAX: usize = 224;

/// Who asks for an execution. A head has one token, so that bearing it tells nobody apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// Whoever asks over HTTP from this network.
    Network(Network),
    /// A peer that sends `MsgExecute`.
    Peer(PeerId),
    /// The program that the head is part of.
    Program,
}

/// How many executions each client has under way. Cheap to clone; all clones share one table.
#[derive(Debug, Clone, Default)]
pub(super) struct ClientShares(Arc<Mutex<HashMap<Client, usize>>>);

/// One execution of a client, until this is dropped.
#[derive(Debug)]
pub(super) struct ClientShare {
    client: Client,
    shares: ClientShares,
}

impl ClientShares {
    /// Counts an execution of `client`; none if it has as many as it may.
    pub(super) fn take(&self, client: &Client) -> Option<ClientShare> {
        let mut counts = self.0.lock();
        let n_taken = counts.entry(client.clone()).or_default();
        if *n_taken >= CLIENT_EXECUTIONS_MAX {
            return None;
        }
        *n_taken += 1;
        Some(ClientShare { client: client.clone(), shares: self.clone() })
    }
}

impl ClientShare {
    /// Whose it is.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }
}

impl Drop for ClientShare {
    fn drop(&mut self) {
        let mut counts = self.shares.0.lock();
        if let Some(n_taken) = counts.get_mut(&self.client) {
            *n_taken = n_taken.saturating_sub(1);
            if *n_taken == 0 {
                counts.remove(&self.client);
            }
        }
    }
}
