//! The operator's decisions on nodes: which are cordoned, which are approved or refused.
//!
//! Each decision is in a file before its caller is answered, so that a restart forgets none; the file
//! is written whole in the old one's place. A file that cannot be read keeps the head from starting: it
//! would give work to nodes that were to have none. Decisions are one head's own: other heads have
//! theirs. Absent on purpose: what nodes are and run, which is in `peers.rs` and `slots.rs`.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use model::node::{PeerId, Role};
use parking_lot::{Mutex, RwLock};
use serde::{Deserialize, Serialize};
use task::{
    file::{FileMode, read_at_most, write_atomic},
    wait,
};
use tokio::{sync::oneshot, task::spawn_blocking};
use tracing::info;
use wire::{functions::NodeApproval, nodes::NodePatch};

use super::{Head, Inner};
use crate::{identity::is_whole, network::AllowedPeers};

/// The most nodes with a decision: several clusters of ten thousand.
pub(super) const DECISIONS_MAX: usize = 32 * 1024;

/// The file's name in its folder.
const FILE: &str = "nodes.json";

/// Handle to the decisions. Cheap to clone; all clones share one table.
#[derive(Debug, Clone, Default)]
pub struct NodeRegistry {
    table: Arc<RwLock<Table>>,
    /// Held while the file is written.
    writing: Arc<Mutex<()>>,
    /// None where nothing is kept.
    path: Option<Arc<Path>>,
}

#[derive(Debug, Default)]
struct Table {
    decisions: BTreeMap<PeerId, Decision>,
    /// Whether nodes get no work before they are approved.
    requires_approval: bool,
    /// The peers that the operator named when the head was started; none for everyone.
    configured: AllowedPeers,
}

/// What the operator decided of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Decision {
    /// It gets no new work.
    pub(super) is_cordoned: bool,
    /// Whether it may work at all.
    pub(super) approval: NodeApproval,
}

/// Why a node gets no work, or that it may.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Access {
    /// It may be given work.
    Open,
    /// It is cordoned.
    Cordoned,
    /// It waits for the operator to approve it.
    Pending,
    /// The operator refused it.
    Refused,
}

/// What is stored of one node.
#[derive(Debug, Serialize, Deserialize)]
struct Record {
    id: String,
    #[serde(default)]
    cordoned: bool,
    #[serde(default)]
    approval: NodeApproval,
}

/// Why the decisions on nodes could not be read.
#[derive(Debug, thiserror::Error)]
#[error("read the decisions on nodes in {path}; correct the file, or remove it to decide again")]
pub struct RegistryError {
    path: PathBuf,
    source: io::Error,
}

/// Why a decision was not taken.
#[derive(Debug, thiserror::Error)]
pub(super) enum DecideError {
    /// There are as many as are kept.
    #[error("keep decisions on more than {DECISIONS_MAX} nodes: withdraw some first")]
    Full,
    /// The file could not be written. Nothing has changed.
    #[error("write the decisions on nodes to {path}")]
    Write { path: PathBuf, source: io::Error },
}

impl NodeRegistry {
    /// Reads the decisions in the folder `dir`; none for a head that keeps nothing. Blocks on the disk.
    ///
    /// # Errors
    /// [`RegistryError`] if there is a file and it cannot be read.
    pub(crate) fn open(dir: Option<&Path>, requires_approval: bool) -> Result<Self, RegistryError> {
        let path = dir.map(|dir| dir.join(FILE));
        let mut decisions = BTreeMap::new();
        if let Some(path) = &path {
            decisions =
                read(path).map_err(|source| RegistryError { path: path.clone(), source })?;
        }
        let table = Table { decisions, requires_approval, configured: None };
        let path = path.map(Into::into);
        Ok(Self { table: Arc::new(RwLock::new(table)), writing: Arc::default(), path })
    }

    /// Takes the peers that the operator named on the command line, and returns those to hear.
    pub(crate) fn configure(&self, configured: AllowedPeers) -> AllowedPeers {
        self.table.write().configured = configured;
        self.list_heard()
    }

    /// The peers to hear: where approval is required, those that were named or approved and not
    /// refused; else those that were named.
    pub(super) fn list_heard(&self) -> AllowedPeers {
        let table = self.table.read();
        if !table.requires_approval {
            return table.configured.clone();
        }
        let named = table.configured.iter().flatten();
        let approved = table.decisions.keys();
        let both = named.chain(approved).filter(|peer| table.may_work(peer));
        Some(both.cloned().collect())
    }

    /// Whether nodes get no work before they are approved.
    pub(super) fn requires_approval(&self) -> bool {
        self.table.read().requires_approval
    }

    /// What was decided of `peer`.
    pub(super) fn decision(&self, peer: &PeerId) -> Decision {
        self.table.read().decisions.get(peer).copied().unwrap_or_default()
    }

    /// The nodes that something was decided of, by id.
    pub(super) fn decided(&self) -> Vec<PeerId> {
        self.table.read().decisions.keys().cloned().collect()
    }

    /// Whether `peer` may be given work.
    pub(super) fn access(&self, peer: &PeerId) -> Access {
        self.table.read().access(peer)
    }

    /// Whether each of several peers may be given work, at one time.
    pub(super) fn check_work(&self) -> impl Fn(&PeerId) -> bool + use<'_> {
        let table = self.table.read();
        move |peer| table.access(peer) == Access::Open
    }

    /// Changes what is decided of `peer`, and returns it once it is kept. Blocks on the disk.
    ///
    /// # Errors
    /// [`DecideError`], and nothing has changed.
    pub(super) fn decide(
        &self,
        peer: &PeerId,
        change: impl FnOnce(&mut Decision),
    ) -> Result<Decision, DecideError> {
        let _writing = self.writing.lock();
        let mut decisions = self.table.read().decisions.clone();
        let mut decision = decisions.get(peer).copied().unwrap_or_default();
        change(&mut decision);
        let former = if decision == Decision::default() {
            decisions.remove(peer)
        } else {
            decisions.insert(peer.clone(), decision)
        };
        if former.unwrap_or_default() == decision {
            return Ok(decision);
        }
        if decisions.len() > DECISIONS_MAX {
            return Err(DecideError::Full);
        }
        if let Some(path) = &self.path {
            write(path, &decisions)
                .map_err(|source| DecideError::Write { path: path.to_path_buf(), source })?;
        }
        self.table.write().decisions = decisions;
        Ok(decision)
    }
}

impl Table {
    fn access(&self, peer: &PeerId) -> Access {
        let decision = self.decisions.get(peer).copied().unwrap_or_default();
        if decision.approval == NodeApproval::Refused {
            Access::Refused
        } else if !self.may_work(peer) {
            Access::Pending
        } else if decision.is_cordoned {
            Access::Cordoned
        } else {
            Access::Open
        }
    }

    /// Whether `peer` may work here, now or once it is not cordoned any more.
    fn may_work(&self, peer: &PeerId) -> bool {
        match self.decisions.get(peer).map(|decision| decision.approval).unwrap_or_default() {
            NodeApproval::Approved => true,
            NodeApproval::Refused => false,
            NodeApproval::Pending if !self.requires_approval => true,
            NodeApproval::Pending => {
                self.configured.as_ref().is_some_and(|named| named.contains(peer))
            }
        }
    }
}

/// Reads the file; nothing where there is none.
fn read(path: &Path) -> io::Result<BTreeMap<PeerId, Decision>> {
    // Several times the size of `DECISIONS_MAX` records.
    let bytes = match read_at_most(path, 32 * 1024 * 1024) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(error) => return Err(error),
    };
    let records: Vec<Record> = serde_json::from_slice(&bytes)?;
    let decision = |Record { id, cordoned, approval }: Record| {
        let peer = id.parse().map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok((peer, Decision { is_cordoned: cordoned, approval }))
    };
    records.into_iter().map(decision).collect()
}

fn write(path: &Path, decisions: &BTreeMap<PeerId, Decision>) -> io::Result<()> {
    let records = decisions.iter().map(|(peer, decision)| Record {
        id: peer.to_string(),
        cordoned: decision.is_cordoned,
        approval: decision.approval,
    });
    let encoded = serde_json::to_vec_pretty(&records.collect::<Vec<_>>())?;
    write_atomic(path, &encoded, FileMode::Public)
}

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

#[cfg(test)]
mod tests;
