//! Decisions of the operator about nodes: cordoned, approved, refused.
//!
//! Each decision is stored before its caller gets a response. The file is replaced atomically. A head
//! does not start with an unreadable file, since it would give work to excluded nodes. Each head has its
//! own decisions.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::node::{PeerId, Role};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use task::file::{FileMode, read_at_most, write_atomic};
use task::wait;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tracing::info;
use wire::functions::NodeApproval;
use wire::nodes::NodePatch;

use super::{Head, HeadParts};
use crate::identity::is_whole;
use crate::network::AllowedPeers;

/// Maximum number of nodes with a decision: enough for several clusters of ten thousand nodes.
pub(super) const DECISIONS_MAX: usize = 32 * 1024;

/// Name of the file in its directory.
const FILE: &str = "nodes.json";

/// Decisions about nodes. Clones share one table.
#[derive(Debug, Clone, Default)]
pub struct NodeRegistry {
    table: Arc<RwLock<Decisions>>,
    /// Held while the file is written.
    writing: Arc<Mutex<()>>,
    /// `None` if decisions are not stored.
    path: Option<Arc<Path>>,
}

#[derive(Debug, Default)]
struct Decisions {
    by_peer: BTreeMap<PeerId, Decision>,
    /// True if nodes get no work before they are approved.
    requires_approval: bool,
    /// Peers that the operator named; `None` for all peers.
    configured: AllowedPeers,
}

/// Decision about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Decision {
    /// True if the node gets no new work.
    pub(super) is_cordoned: bool,
    /// Approval to work at all.
    pub(super) approval: NodeApproval,
}

/// Permission of a node to get work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// The node may be given work.
    Open,
    /// The node is cordoned.
    Cordoned,
    /// The node waits for approval.
    Pending,
    /// The operator named other nodes, but not this node.
    Unnamed,
    /// The operator refused the node.
    Refused,
}

impl Access {
    /// Returns why the node gets no work, in words that follow "is". `None` if it may be given work.
    pub(super) const fn reason(self) -> Option<&'static str> {
        match self {
            Self::Open => None,
            Self::Cordoned => Some("cordoned"),
            Self::Pending => Some("waiting for approval"),
            Self::Unnamed => Some("not listed in --accept"),
            Self::Refused => Some("refused by the operator"),
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct StoredDecision {
    id: String,
    #[serde(default)]
    cordoned: bool,
    #[serde(default)]
    approval: NodeApproval,
}

/// The stored decisions could not be read.
#[derive(Debug, thiserror::Error)]
#[error("cannot read the approved and refused nodes in {path}; correct or remove the file")]
pub struct RegistryError {
    path: PathBuf,
    source: io::Error,
}

/// Reason why a decision was not changed.
#[derive(Debug, thiserror::Error)]
pub(super) enum ChangeError {
    /// The node is unknown. It can be approved or refused in advance only by its full id.
    #[error("unknown node; a node that never connected must be named by its full peer id")]
    Unknown,
    /// The node is the head itself.
    #[error("the node is the head itself")]
    Own,
    /// The maximum number of decisions is stored.
    #[error(
        "limit of {DECISIONS_MAX} nodes with a decision is reached; withdraw some decisions first"
    )]
    Full,
    /// The file could not be written.
    #[error("cannot write decisions on nodes to {path}")]
    Write { path: PathBuf, source: io::Error },
    /// The head is stopping.
    #[error("the node is stopping")]
    Stopping,
}

impl NodeRegistry {
    /// Reads the decisions in the directory `dir`; `None` to keep them in memory. Blocks on the disk.
    ///
    /// # Errors
    /// Returns [`RegistryError`] if the file exists and cannot be read.
    pub(crate) fn open(dir: Option<&Path>, requires_approval: bool) -> Result<Self, RegistryError> {
        let path = dir.map(|dir| dir.join(FILE));
        let by_peer = match &path {
            Some(path) => {
                read(path).map_err(|source| RegistryError { path: path.clone(), source })?
            }
            None => BTreeMap::new(),
        };
        let table = Decisions { by_peer, requires_approval, configured: None };
        let (table, path) = (Arc::new(RwLock::new(table)), path.map(Into::into));
        Ok(Self { table, writing: Arc::default(), path })
    }

    /// Sets the peers that the operator named on the command line and returns the allowed peers.
    pub(crate) fn configure(&self, configured: AllowedPeers) -> AllowedPeers {
        self.table.write().configured = configured;
        self.allowed_peers()
    }

    /// Returns the allowed peers. These are the named peers. If approval is required, approved peers are
    /// added and refused peers are removed.
    pub(super) fn allowed_peers(&self) -> AllowedPeers {
        let table = self.table.read();
        if !table.requires_approval {
            return table.configured.clone();
        }
        let known = table.configured.iter().flatten().chain(table.by_peer.keys());
        Some(known.filter(|peer| table.may_work(peer)).cloned().collect())
    }

    /// Returns true if nodes get no work before they are approved.
    pub(super) fn requires_approval(&self) -> bool {
        self.table.read().requires_approval
    }

    /// Returns the decision about `peer`.
    pub(super) fn decision(&self, peer: &PeerId) -> Decision {
        self.table.read().by_peer.get(peer).copied().unwrap_or_default()
    }

    /// Returns the nodes with a decision, ordered by id.
    pub(super) fn decided(&self) -> Vec<PeerId> {
        self.table.read().by_peer.keys().cloned().collect()
    }

    /// Returns the access of `peer` to work.
    pub(super) fn access(&self, peer: &PeerId) -> Access {
        self.table.read().access(peer)
    }

    /// Returns a predicate that is true for peers that can get work. It holds a read lock on the
    /// decisions until it is dropped.
    pub(super) fn check_work(&self) -> impl Fn(&PeerId) -> bool + use<'_> {
        let table = self.table.read();
        move |peer| table.access(peer) == Access::Open
    }

    /// Changes the decision about `peer` and returns it once it is stored. Blocks on the disk.
    ///
    /// # Errors
    /// Returns [`ChangeError::Full`] or [`ChangeError::Write`]. The decision is then unchanged.
    pub(super) fn decide(
        &self,
        peer: &PeerId,
        change: impl FnOnce(&mut Decision),
    ) -> Result<Decision, ChangeError> {
        let _writing = self.writing.lock();
        let mut by_peer = self.table.read().by_peer.clone();
        let mut decision = by_peer.get(peer).copied().unwrap_or_default();
        change(&mut decision);
        let former = if decision == Decision::default() {
            by_peer.remove(peer)
        } else {
            by_peer.insert(peer.clone(), decision)
        };
        if former.unwrap_or_default() == decision {
            return Ok(decision);
        }
        if by_peer.len() > DECISIONS_MAX {
            return Err(ChangeError::Full);
        }
        if let Some(path) = &self.path {
            write(path, &by_peer)
                .map_err(|source| ChangeError::Write { path: path.to_path_buf(), source })?;
        }
        self.table.write().by_peer = by_peer;
        Ok(decision)
    }
}

impl Decisions {
    fn access(&self, peer: &PeerId) -> Access {
        let decision = self.by_peer.get(peer).copied().unwrap_or_default();
        if decision.approval == NodeApproval::Refused {
            Access::Refused
        } else if !self.may_work(peer) {
            if self.requires_approval { Access::Pending } else { Access::Unnamed }
        } else if decision.is_cordoned {
            Access::Cordoned
        } else {
            Access::Open
        }
    }

    /// Returns true if `peer` could get work if it was not cordoned.
    fn may_work(&self, peer: &PeerId) -> bool {
        match self.by_peer.get(peer).map(|decision| decision.approval).unwrap_or_default() {
            NodeApproval::Approved if self.requires_approval => true,
            NodeApproval::Refused => false,
            _ => {
                let named = self.configured.as_ref();
                named.map_or(!self.requires_approval, |named| named.contains(peer))
            }
        }
    }
}

/// Reads the file. A missing file contains no decisions.
fn read(path: &Path) -> io::Result<BTreeMap<PeerId, Decision>> {
    // `DECISIONS_MAX` records need a fraction of this limit.
    let bytes = match read_at_most(path, 32 * 1024 * 1024) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let decisions: Vec<StoredDecision> = serde_json::from_slice(&bytes)?;
    let decision = |StoredDecision { id, cordoned, approval }: StoredDecision| {
        let peer = id.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok((peer, Decision { is_cordoned: cordoned, approval }))
    };
    decisions.into_iter().map(decision).collect()
}

fn write(path: &Path, decisions: &BTreeMap<PeerId, Decision>) -> io::Result<()> {
    let stored = decisions.iter().map(|(peer, decision)| StoredDecision {
        id: peer.to_string(),
        cordoned: decision.is_cordoned,
        approval: decision.approval,
    });
    let encoded = serde_json::to_vec_pretty(&stored.collect::<Vec<_>>())?;
    write_atomic(path, &encoded, FileMode::Public)
}

impl Head {
    /// Replaces the peers that were named on the command line.
    pub(crate) fn configure(&self, configured: AllowedPeers) {
        self.0.registry.configure(configured);
        self.0.apply_allowed();
    }

    /// Returns true if `peer` waits for approval.
    pub(super) fn is_pending(&self, peer: &PeerId) -> bool {
        self.0.registry.access(peer) == Access::Pending
    }

    /// Returns true if `peer` is known to this head, or has a decision.
    pub(super) fn knows_node(&self, peer: &PeerId) -> bool {
        self.0.registry.decision(peer) != Decision::default()
            || self.0.context.peers.list().iter().any(|(known, _)| known == peer)
    }

    /// Changes the decision about `peer`. The change completes even if the future is dropped.
    ///
    /// # Errors
    /// Returns [`ChangeError`]. The decision is then unchanged.
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
            // Fails if the caller no longer waits.
            drop(done.send(head.decide(peer, change).await));
        });
        outcome.await.unwrap_or(Err(ChangeError::Stopping))
    }

    /// Waits up to `within` until `peer` runs no order of this head. Cancel-safe.
    pub(super) async fn wait_idle(&self, peer: &PeerId, within: Duration) {
        let look = async || match self.0.slots.n_running(peer) {
            0 => Ok(()),
            n_running => Err(n_running),
        };
        // If this times out, the response lists the orders that still run.
        drop(wait::until(within, look).await);
    }
}

impl HeadParts {
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
        self.apply_allowed();
        self.slots.look_again();
        Ok(())
    }

    /// Passes the allowed peers to the network. Calls are serialized so that an older set never replaces
    /// a newer one.
    fn apply_allowed(&self) {
        let _allowing = self.allowing.lock();
        self.context.network.set_allowed(self.registry.allowed_peers());
    }

    /// Returns the approval of `peer` that the API shows. It is `None` if `peer` needs no approval, as
    /// heads never do, and the operator has not decided about it.
    pub(super) fn approval_of(&self, peer: &PeerId, role: Option<Role>) -> Option<NodeApproval> {
        let needs_approval = self.registry.requires_approval() && role != Some(Role::Head);
        match self.registry.decision(peer).approval {
            NodeApproval::Refused => Some(NodeApproval::Refused),
            NodeApproval::Pending if !needs_approval => None,
            _ if self.registry.access(peer) == Access::Pending => Some(NodeApproval::Pending),
            _ => Some(NodeApproval::Approved),
        }
    }
}

#[cfg(test)]
mod tests;
