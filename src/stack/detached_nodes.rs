//! Records of nodes that keep running after the screen is closed, so that the program can find
//! them when it is started again.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};
use task::file::{FileMode, write_atomic};

use crate::data_dir::{is_locked, numbered, stack_folders};
use crate::local::LocalNode;
use crate::process::{Command, Facts, Running};

/// Name of the directory for added nodes in the directory of a stack.
pub(crate) const ADDED_FOLDER: &str = "added";

/// Name of the file in a node's directory with the record of a detached node.
const RECORD: &str = "kept.json";

/// Name of the file in a node's directory with the node's log.
pub(crate) const LOG: &str = "log";

/// A node that the program left running when it exited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DetachedNode {
    /// Description of the node for the screen.
    #[serde(flatten)]
    pub(crate) node: LocalNode,
    /// Directory of the node, which the node has locked.
    #[serde(skip)]
    pub(crate) folder: PathBuf,
    /// Arguments with which the node was started.
    pub(crate) arguments: Vec<String>,
    /// Facts that were learned from the node's log.
    #[serde(flatten)]
    pub(crate) facts: Facts,
}

impl DetachedNode {
    /// Describes the node `node`, which runs as `running` in the directory `folder`.
    pub(crate) fn new(running: &Running, node: &LocalNode, folder: &Path) -> Self {
        Self {
            node: node.clone(),
            folder: folder.to_owned(),
            arguments: running.restart_command().arguments,
            facts: running.facts(),
        }
    }

    /// Writes the record to the node's directory.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(crate) fn record(&self) -> anyhow::Result<()> {
        let record = serde_json::to_string_pretty(self)? + "\n";
        let path = self.folder.join(RECORD);
        write_atomic(&path, record.as_bytes(), FileMode::Private)
            .with_context(|| format!("cannot write {}", path.display()))
    }

    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(RECORD)).ok()?;
        let mut detached: Self = serde_json::from_str(&text).ok()?;
        folder.clone_into(&mut detached.folder);
        detached.facts.peer_id = Some(detached.node.peer_id.clone());
        (detached.node.is_detached, detached.node.is_added) = (true, true);
        Some(detached)
    }

    /// Returns a command that starts the node again.
    ///
    /// # Errors
    /// If the path of this program is unknown.
    pub(crate) fn command(&self) -> anyhow::Result<Command> {
        Ok(Command {
            process: self.node.name.clone().into(),
            program: std::env::current_exe().context("path of this program is unknown")?,
            arguments: self.arguments.clone(),
            environment: Vec::new(),
            log: Some(self.folder.join(LOG)),
            is_detached: true,
        })
    }
}

/// Writes the record of a node, if the node is detached.
pub(crate) fn record(running: &Running, node: &LocalNode) {
    let Some(folder) = running.folder() else { return };
    if running.is_detached()
        && !running.has_exited()
        && let Err(error) = DetachedNode::new(running, node, folder).record()
    {
        tracing::warn!("cannot find {} again later: {error:#}", node.name);
    }
}

/// Finds detached nodes that are still running, in the stack directory `data_dir` or in all stack
/// directories of the user. Removes the records of nodes that have exited.
pub(crate) fn find_all(data_dir: Option<&Path>) -> Vec<DetachedNode> {
    let mut found = Vec::new();
    for stack in stack_folders(data_dir) {
        let Ok(folders) = fs::read_dir(stack.join(ADDED_FOLDER)) else { continue };
        let mut folders: Vec<PathBuf> = folders.filter_map(|it| Some(it.ok()?.path())).collect();
        folders.sort();
        for folder in folders {
            if !folder.join(RECORD).exists() {
                continue;
            }
            if is_locked(&folder) {
                found.extend(DetachedNode::read(&folder));
            } else {
                fs::remove_file(folder.join(RECORD)).ok();
            }
        }
    }
    found
}

/// Returns a directory for an added node called `name` in the stack directory `stack`. No running
/// node uses the directory.
pub(crate) fn free_folder(stack: &Path, name: &str) -> PathBuf {
    let mut folders = numbered(name).map(|name| stack.join(ADDED_FOLDER).join(name));
    folders.find(|folder| !is_locked(folder)).unwrap_or_else(|| stack.join(ADDED_FOLDER).join(name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::data_dir::lock_folder;

    #[test]
    fn running_detached_node_is_found_and_the_record_of_an_exited_node_is_removed() {
        let stack = tempfile::tempdir().unwrap();
        let folder = free_folder(stack.path(), "worker-4");
        fs::create_dir_all(&folder).unwrap();
        let detached = DetachedNode {
            node: LocalNode {
                name: "worker-4".to_owned(),
                peer_id: "12D3".to_owned(),
                role: "worker".to_owned(),
                subgroup: Some("gpu".to_owned()),
                pid: 7,
                rest_api: None,
                is_detached: true,
                is_added: true,
            },
            folder: folder.clone(),
            arguments: vec!["node".to_owned(), "--port".to_owned(), "39517".to_owned()],
            facts: Facts {
                peer_id: Some("12D3".to_owned()),
                multiaddresses: vec!["/ip4/127.0.0.1/tcp/39517".to_owned()],
                ..Facts::default()
            },
        };
        detached.record().unwrap();
        let lock = lock_folder(&folder).unwrap();
        assert_eq!(find_all(Some(stack.path())), [detached]);
        assert_eq!(free_folder(stack.path(), "worker-4"), folder.with_file_name("worker-4-2"));
        drop(lock);
        assert_eq!(find_all(Some(stack.path())), []);
        assert!(!folder.join(RECORD).exists());
    }

    #[test]
    fn record_of_a_detached_node_round_trips() {
        let folder = tempfile::tempdir().unwrap();
        let record = json!({
            "name": "head-2", "pid": 7, "peer_id": "12D3", "role": "head", "subgroup": null,
            "rest_api": "http://127.0.0.1:8080", "arguments": ["node"],
            "address": "127.0.0.1:8080", "multiaddresses": ["/ip4/127.0.0.1/tcp/39517"],
        });
        fs::write(folder.path().join(RECORD), record.to_string()).unwrap();
        let read = DetachedNode::read(folder.path()).unwrap();
        assert_eq!(
            (read.node.name.as_str(), read.node.pid, read.node.is_detached),
            ("head-2", 7, true)
        );
        assert_eq!(read.facts.address.as_deref(), Some("127.0.0.1:8080"));
        assert_eq!(read.facts.peer_id.as_deref(), Some("12D3"));
        assert_eq!(serde_json::to_value(&read).unwrap(), record);
    }
}
