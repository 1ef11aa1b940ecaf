//! What the operator does to nodes: cordon, drain, approve and refuse them.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use model::node::{PeerId, Role};
use task::wait;
use tokio::{sync::oneshot, task::spawn_blocking};
use tracing::info;
use wire::{functions::NodeApproval, nodes::NodePatch};

use super::{
    Head, Inner,
    node_registry::{Access, DecideError, Decision},
    order::Order,
};
use crate::{identity::is_whole, network::AllowedPeers};

/// Why a node was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChangeError {
    /// No such node is known, and it is not approved or refused in advance, by its whole id.
    #[error("find the node")]
    Unknown,
    /// It is the head itself.
    #[error("change the head itself")]
    Own,
    /// The decision could not be kept.
    #[error("decide on the node")]
    Decide(#[from] DecideError),
    /// The head is stopping.
    #[error("decide on a node while the head stops")]
    Stopping,
}

impl Head {
    /// Replaces the peers that were named on the command line.
    pub(crate) async fn configure(&self, configured: AllowedPeers) {
        self.0.registry.configure(configured);
        self.0.heed().await;
    }

    /// Whether `peer` waits to be approved.
    pub(super) fn is_pending(&self, peer: &PeerId) -> bool {
        self.0.registry.access(peer) == Access::Pending
    }

    /// Whether `peer` is one that this head knows, or decided of.
    pub(super) fn knows_node(&self, peer: &PeerId) -> bool {
        self.0.registry.decision(peer) != Decision::default()
            || self.0.context.peers.list().iter().any(|(known, _)| known == peer)
    }

    /// Changes what is decided of `peer`. It goes on where the caller leaves.
    ///
    /// # Errors
    /// [`ChangeError`], and nothing has changed.
    pub(super) async fn change_node(
        &self,
        peer: PeerId,
        change: NodePatch,
    ) -> Result<(), ChangeError> {
        if peer == *self.0.context.network.peer_id() {
            return Err(ChangeError::Own);
        }
        let is_approval = change.approval.is_some_and(|it| it != NodeApproval::Pending);
        let is_in_advance = is_approval && is_whole(&peer);
        if !is_in_advance && !self.knows_node(&peer) {
            return Err(ChangeError::Unknown);
        }
        let (done, outcome) = oneshot::channel();
        let head = Arc::clone(&self.0);
        self.0.context.group.spawn("node change", async move {
            // The caller may have left.
            drop(done.send(head.decide(peer, change).await));
        });
        outcome.await.unwrap_or(Err(ChangeError::Stopping))
    }

    /// Waits until `peer` runs no order of this head, at most for `within`. Cancel-safe.
    pub(super) async fn wait_idle(&self, peer: &PeerId, within: Duration) {
        let look = async || match self.0.slots.n_running(peer) {
            0 => Ok(()),
            n_running => Err(n_running),
        };
        // What still runs is in the answer.
        drop(wait::until(within, look).await);
    }
}

impl Inner {
    async fn decide(&self, peer: PeerId, change: NodePatch) -> Result<(), ChangeError> {
        let (registry, id) = (self.registry.clone(), peer.clone());
        let decided = spawn_blocking(move || {
            registry.decide(&id, |decision| {
                decision.is_cordoned = change.cordoned.unwrap_or(decision.is_cordoned);
                decision.approval = change.approval.unwrap_or(decision.approval);
            })
        });
        let Decision { is_cordoned, approval } =
            decided.await.map_err(|_| ChangeError::Stopping)??;
        let approval = match approval {
            NodeApproval::Approved => "approved",
            NodeApproval::Refused => "refused",
            NodeApproval::Pending => "pending",
        };
        info!(%peer, is_cordoned, approval, "the operator decided on a node");
        self.heed().await;
        self.slots.look_again();
        Ok(())
    }

    /// Hears those that may work. One at a time, or an older set could replace a newer one.
    async fn heed(&self) {
        let _heeding = self.heeding.lock().await;
        self.context.network.heed(self.registry.list_heard()).await;
    }

    /// Counts the connected nodes of the order's group that are meant and get no work, by why.
    pub(super) fn withheld(&self, order: &Order) -> BTreeMap<Access, usize> {
        let mut withheld = BTreeMap::new();
        for peer in self.group_of(order).iter().filter(|peer| self.is_selected(peer, order)) {
            *withheld.entry(self.registry.access(peer)).or_default() += 1;
        }
        withheld.remove(&Access::Open);
        withheld
    }

    /// Whether `peer` may work, as it is served; none for heads, and where nobody has to decide.
    pub(super) fn approval_of(&self, peer: &PeerId, role: Option<Role>) -> Option<NodeApproval> {
        let has_to_wait = self.registry.requires_approval() && role != Some(Role::Head);
        match self.registry.decision(peer).approval {
            NodeApproval::Refused => Some(NodeApproval::Refused),
            NodeApproval::Pending if !has_to_wait => None,
            _ if self.registry.access(peer) == Access::Pending => Some(NodeApproval::Pending),
            _ => Some(NodeApproval::Approved),
        }
    }
}
