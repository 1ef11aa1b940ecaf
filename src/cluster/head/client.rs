//! Clients: whose requests wait in turn, and how many of them one may have under way.
//!
//! A client may have as many as it leaves free for others, so that each new client finds room: it
//! takes nine addresses, and not two, to fill a head.

use model::node::PeerId;
use task::tally::{Counted, Tally};
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

/// One execution of a client, until this is dropped.
pub(super) type ClientShare = Counted<Client>;

/// Counts an execution of `client` in `under_way`, of which there are `n_max` at most. A client may have
/// half of what others leave.
///
/// # Errors
/// [`Unavailable`] says whether the client itself has as many as it may.
pub(super) fn admit(
    under_way: &Tally<Client>,
    client: &Client,
    n_max: usize,
) -> Result<ClientShare, Unavailable> {
    let has_room = |n_own, n_others| n_own < n_max.saturating_sub(n_others) / 2;
    let is_known = under_way.count(client) > 0;
    let unavailable = if is_known { Unavailable::ClientBusy } else { Unavailable::Busy };
    under_way.add(client, has_room).ok_or(unavailable)
}
