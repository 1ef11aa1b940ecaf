//! Members of a local stack. The workers of a stack only execute work orders of its heads, and its heads
//! only use its workers. The peer ids of heads and of workers are in two files. Running nodes watch
//! these files, so that nodes can join later.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::{fs, io};

use anyhow::Context as _;
use model::node::{PeerId, Role};
use task::file::{FileMode, write_atomic};
use task::lock;

/// The files of peer ids in the directory of a stack.
#[derive(Debug)]
pub(crate) struct Members {
    folder: PathBuf,
}

impl Members {
    /// Returns the members of the stack in the directory `folder`.
    pub(crate) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// Makes `peer` a member with the role `role`. Creates the files of both roles if they are
    /// missing.
    ///
    /// # Errors
    /// If a file cannot be read or written.
    pub(crate) fn add(&self, role: Role, peer: &PeerId) -> anyhow::Result<()> {
        let lock = self.folder.join("members.lock");
        let _lock = lock::wait_for(&lock)
            .with_context(|| format!("cannot lock {}", lock.display()))?
            .context("another process changes the members of the stack")?;
        for file in [Role::Head, Role::Worker] {
            let path = self.path(file);
            let known = read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let mut ids = known.clone().unwrap_or_default();
            if file == role {
                ids.insert(peer.to_string());
            }
            if Some(&ids) == known.as_ref() {
                continue;
            }
            let mut text = ids.iter().cloned().collect::<Vec<String>>().join("\n");
            text.push('\n');
            let written = write_atomic(&path, text.as_bytes(), FileMode::Private);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
        Ok(())
    }

    /// Returns arguments that make a node of `role` trust all members of the other role, and also the
    /// peers in `others`.
    pub(crate) fn arguments(&self, role: Role, others: &[&str]) -> Vec<String> {
        let (flag, trusted) = match role {
            Role::Head => ("--accept", Role::Worker),
            Role::Worker => ("--obey", Role::Head),
        };
        let file = format!("@{}", self.path(trusted).display());
        let others = others.iter().map(|&peer| peer.to_owned());
        [file].into_iter().chain(others).flat_map(|value| [flag.to_owned(), value]).collect()
    }

    fn path(&self, role: Role) -> PathBuf {
        self.folder.join(match role {
            Role::Head => "heads.txt",
            Role::Worker => "workers.txt",
        })
    }
}

/// Reads the peer ids in the file at `path`. Returns `None` if the file does not exist.
fn read(path: &Path) -> io::Result<Option<BTreeSet<String>>> {
    match fs::read_to_string(path) {
        Ok(text) => {
            let ids = text.lines().filter(|line| !line.is_empty());
            Ok(Some(ids.map(str::to_owned).collect()))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn member_is_not_added_while_another_process_changes_the_members() {
        let folder = tempfile::tempdir().unwrap();
        let members = Members::new(folder.path());
        let peer: PeerId = "12D3KooW1".parse().unwrap();
        let held = lock::try_lock(&folder.path().join("members.lock")).unwrap();
        let refused = members.add(Role::Worker, &peer).unwrap_err();
        assert_eq!(refused.to_string(), "another process changes the members of the stack");
        assert_eq!(read(&members.path(Role::Worker)).unwrap(), None);
        drop(held);
        members.add(Role::Worker, &peer).unwrap();
        assert_eq!(read(&members.path(Role::Worker)).unwrap().unwrap().len(), 1);
    }
}
