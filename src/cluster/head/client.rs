//! Clients: whose requests wait in turn, and how many of them one may have under way.
//!
//! A client may have as many as it leaves free for others, so that each new client finds room: it
//! takes nine addresses, and not two, to fill a head.

use std::{collections::HashMap, sync::Arc};

use model::node::PeerId;
use parking_lot::Mutex;
use web::address::Network;

use super::Unavailable;

/// Who asks for an execution. A head has one token, so that bearing it tells nobody apart.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Client {
    /// Any client over HTTP from this network.
    Network(Network),
    /// A peer that sends `MsgExecute`.
    Peer(PeerId),
    /// The program that the head is part of.
    Program,
}

/// How many executions each client has under way. Cheap to clone; all clones share one table.
#[derive(Debug, Clone)]
pub(super) struct ClientShares {
    counts: Arc<Mutex<HashMap<Client, usize>>>,
    /// Executions of all clients at once.
    n_max: usize,
}

/// One execution of a client, until this is dropped.
#[derive(Debug)]
pub(super) struct ClientShare {
    client: Client,
    shares: ClientShares,
}

impl ClientShares {
    /// Makes a table for at most `n_max` executions at once.
    pub(super) fn new(n_max: usize) -> Self {
        Self { counts: Arc::default(), n_max }
    }

    /// Counts an execution of `client`, which may have half of what others leave.
    ///
    /// # Errors
    /// [`Unavailable`] says whether the client itself has as many as it may.
    pub(super) fn take(&self, client: &Client) -> Result<ClientShare, Unavailable> {
        let mut counts = self.counts.lock();
        let n_own = counts.get(client).copied().unwrap_or_default();
        let n_others = counts.values().sum::<usize>() - n_own;
        if n_own >= self.n_max.saturating_sub(n_others) / 2 {
            return Err(if n_own > 0 { Unavailable::ClientBusy } else { Unavailable::Busy });
        }
        counts.insert(client.clone(), n_own + 1);
        Ok(ClientShare { client: client.clone(), shares: self.clone() })
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
        let mut counts = self.shares.counts.lock();
        if let Some(n_taken) = counts.get_mut(&self.client) {
            *n_taken = n_taken.saturating_sub(1);
            if *n_taken == 0 {
                counts.remove(&self.client);
            }
        }
    }
}
