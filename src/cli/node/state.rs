//! Where a node keeps what it keeps: a folder named by its identity, so that nodes on one machine
//! never share one by accident.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use model::node::PeerId;
use stack::data_dir::{lock_folder, project_dirs};
use task::lock::Lock;

use super::flags::StateFlags;

/// The folders of a node, its own until this is dropped.
#[derive(Debug)]
pub(super) struct State {
    /// What it knows of its peers.
    pub(super) peers: PathBuf,
    /// The store of its functions.
    pub(super) functions: PathBuf,
    /// Its executions, while they run.
    pub(super) workspace: PathBuf,
    /// Removed in the end: nobody can have its identity again.
    passing: Option<PathBuf>,
    /// Locked. The system unlocks them when the process ends, however it ends.
    _locks: (Option<Lock>, Lock),
}

impl State {
    /// The folders that `flags` name; the others in one named by `peer_id`, which is kept if the
    /// identity is.
    ///
    /// # Errors
    /// If there is no place for them, or another node has it.
    pub(super) fn choose(
        flags: StateFlags,
        is_identity_kept: bool,
        peer_id: &PeerId,
    ) -> anyhow::Result<Self> {
        let StateFlags { db, peer_db, function_db, workspace } = flags;
        let (base, passing) = match db {
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
        let lock = if is_base_used { Some(locked(&base, "--db")?) } else { None };
        let functions = function_db.unwrap_or_else(|| base.join("functions"));
        // Commands that handle functions lock their folder, too.
        let functions_lock = locked(&functions, "--function-db")?;
        Ok(Self {
            peers: peer_db.unwrap_or_else(|| base.join("peers")),
            functions,
            workspace: workspace.unwrap_or_else(|| base.join("workspace")),
            passing,
            _locks: (lock, functions_lock),
        })
    }
}

/// Makes the folder that `flag` names and locks it.
fn locked(folder: &Path, flag: &str) -> anyhow::Result<Lock> {
    fs::create_dir_all(folder).with_context(|| format!("make {}", folder.display()))?;
    let Some(lock) = lock_folder(folder)? else {
        bail!("use {}: another node or command uses it; give it another {flag}", folder.display());
    };
    Ok(lock)
}

impl Drop for State {
    fn drop(&mut self) {
        if let Some(path) = &self.passing {
            // What cannot be removed is left to the system, which owns the folder above.
            drop(fs::remove_dir_all(path));
        }
    }
}
