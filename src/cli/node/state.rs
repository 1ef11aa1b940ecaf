//! Directories of a node's state, named by its identity, so that nodes on one machine never share
//! one by accident.

use std::path::{Path, PathBuf};
use std::{env, fs};

use anyhow::Context as _;
use model::node::PeerId;
use stack::data_dir::{lock_folder, project_dirs};
use task::lock::Lock;

use super::flags::StateFlags;

/// Directories of a node, which no other process uses until this is dropped.
#[derive(Debug)]
pub(super) struct NodeState {
    /// Records of known peers.
    pub(super) peers: PathBuf,
    /// Store of functions.
    pub(super) functions: PathBuf,
    /// Working directories of executions.
    pub(super) workspace: PathBuf,
    /// Directory to be removed on drop, since no other node can have its identity.
    temporary: Option<PathBuf>,
    /// Released by the system when the process exits, however it exits.
    _locks: (Option<Lock>, Lock),
}

impl NodeState {
    /// Locks the directories that `flags` name. The others are in one named by `peer_id`, which is
    /// temporary if the identity is.
    ///
    /// # Errors
    /// If they cannot be created, or another node uses them.
    pub(super) fn choose(
        flags: StateFlags,
        is_identity_kept: bool,
        peer_id: &PeerId,
    ) -> anyhow::Result<Self> {
        let StateFlags { db, peer_db, function_db, workspace } = flags;
        let (base, temporary) = match db {
            Some(folder) => (folder, None),
            None if is_identity_kept => {
                (project_dirs()?.data_local_dir().join("nodes").join(peer_id.as_str()), None)
            }
            None => {
                let folder = env::temp_dir().join(format!("triptych-{peer_id}"));
                (folder.clone(), Some(folder))
            }
        };
        let is_base_used = peer_db.is_none() || function_db.is_none() || workspace.is_none();
        let lock = if is_base_used { Some(lock(&base, "--db")?) } else { None };
        let functions = function_db.unwrap_or_else(|| base.join("functions"));
        // Commands that use functions lock their directory, too.
        let functions_lock = self::lock(&functions, "--function-db")?;
        Ok(Self {
            peers: peer_db.unwrap_or_else(|| base.join("peers")),
            functions,
            workspace: workspace.unwrap_or_else(|| base.join("workspace")),
            temporary,
            _locks: (lock, functions_lock),
        })
    }
}

/// Creates and locks the directory that `flag` names.
fn lock(folder: &Path, flag: &str) -> anyhow::Result<Lock> {
    let shown = folder.display();
    fs::create_dir_all(folder).with_context(|| format!("cannot create {shown}"))?;
    let lock = lock_folder(folder)?;
    lock.with_context(|| {
        format!("{shown} is in use by another node or command\nhint: pass another {flag}")
    })
}

impl Drop for NodeState {
    fn drop(&mut self) {
        if let Some(path) = &self.temporary {
            // On failure it is left to the system, which owns the parent.
            drop(fs::remove_dir_all(path));
        }
    }
}
