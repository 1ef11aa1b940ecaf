//! Nodes that outlive the screen: what is written of each into its folder, to find it again.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ::tui::local::LocalNode;
use anyhow::Context as _;
use serde_json::{Value, json};
use task::file::{FileMode, write_atomic};

use crate::cli::{
    place::Claim,
    stack::child::{Facts, Running, Start, is_held},
};

/// The folder of added nodes, in that of a stack.
pub(super) const ADDED_FOLDER: &str = "added";

/// The file of a node that is kept, in its folder.
const RECORD: &str = "kept.json";

/// The file of a node's log, in its folder.
pub(super) const LOG: &str = "log";

/// A node that was left running.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// What is known of it.
    pub(super) node: LocalNode,
    /// Its folder, whose lock it holds.
    pub(super) folder: PathBuf,
    /// What started it.
    pub(super) arguments: Vec<String>,
    /// What it told of itself.
    pub(super) facts: Facts,
}

impl Kept {
    /// A node that runs in `folder`.
    pub(super) fn of(running: &Running, node: &LocalNode, folder: &Path) -> Self {
        Self {
            node: node.clone(),
            folder: folder.to_owned(),
            arguments: running.again().arguments,
            facts: running.facts(),
        }
    }

    /// Writes it down, for a later run of the program.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub(super) fn record(&self) -> anyhow::Result<()> {
        let LocalNode { name, peer_id, role, subgroup, pid, rest_api, .. } = &self.node;
        let record = json!({
            "name": name,
            "pid": pid,
            "peer_id": peer_id,
            "role": role,
            "subgroup": subgroup,
            "rest_api": rest_api,
            "arguments": self.arguments,
            "address": self.facts.address,
            "multiaddresses": self.facts.multiaddresses,
        });
        let path = self.folder.join(RECORD);
        write_atomic(&path, format!("{record:#}\n").as_bytes(), FileMode::Private)
            .with_context(|| format!("write {}", path.display()))
    }

    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(RECORD)).ok()?;
        let record: Value = serde_json::from_str(&text).ok()?;
        let text = |name: &str| record[name].as_str().map(str::to_owned);
        let texts = |name: &str| -> Vec<String> {
            let list = record[name].as_array().map_or(&[][..], Vec::as_slice);
            list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let peer_id = text("peer_id")?;
        Some(Self {
            node: LocalNode {
                name: text("name")?,
                peer_id: peer_id.clone(),
                role: text("role")?,
                subgroup: text("subgroup"),
                pid: u32::try_from(record["pid"].as_u64()?).ok()?,
                rest_api: text("rest_api"),
                is_kept: true,
                is_added: true,
            },
            folder: folder.to_owned(),
            arguments: texts("arguments"),
            facts: Facts {
                peer_id: Some(peer_id),
                multiaddresses: texts("multiaddresses"),
                address: text("address"),
                ..Facts::default()
            },
        })
    }

    /// What would start it again.
    ///
    /// # Errors
    /// If this program's own file is not known.
    pub(super) fn start(&self) -> anyhow::Result<Start> {
        Ok(Start {
            process: self.node.name.clone().into(),
            program: std::env::current_exe().context("find this program's own file")?,
            arguments: self.arguments.clone(),
            environment: Vec::new(),
            log: Some(self.folder.join(LOG)),
            is_kept: true,
        })
    }
}

/// The nodes that earlier runs of the program left running, in the folders of `data_dir`'s stack or
/// of all the user's; records of those that ended are removed.
pub(super) fn found(data_dir: Option<&Path>) -> Vec<Kept> {
    let mut found = Vec::new();
    for stack in Claim::folders(data_dir) {
        let Ok(folders) = fs::read_dir(stack.join(ADDED_FOLDER)) else { continue };
        let mut folders: Vec<PathBuf> = folders.filter_map(|it| Some(it.ok()?.path())).collect();
        folders.sort();
        for folder in folders {
            if !folder.join(RECORD).exists() {
                continue;
            }
            if is_held(&folder) {
                found.extend(Kept::read(&folder));
            } else {
                fs::remove_file(folder.join(RECORD)).ok();
            }
        }
    }
    found
}

/// The folder of an added node called `name` in `stack`: one that no running node has.
pub(super) fn free_folder(stack: &Path, name: &str) -> PathBuf {
    let folder = |number: u32| {
        let name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
        stack.join(ADDED_FOLDER).join(name)
    };
    (1..u32::MAX).map(folder).find(|folder| !is_held(folder)).unwrap_or_else(|| folder(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::place;

    #[test]
    fn a_node_that_runs_is_found_and_one_that_ended_is_forgotten() {
        let stack = tempfile::tempdir().unwrap();
        let folder = free_folder(stack.path(), "worker-4");
        fs::create_dir_all(&folder).unwrap();
        let kept = Kept {
            node: LocalNode {
                name: "worker-4".to_owned(),
                peer_id: "12D3".to_owned(),
                role: "worker".to_owned(),
                subgroup: Some("gpu".to_owned()),
                pid: 7,
                rest_api: None,
                is_kept: true,
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
        kept.record().unwrap();
        let lock = place::locked(&folder).unwrap();
        assert_eq!(found(Some(stack.path())), [kept]);
        assert_eq!(free_folder(stack.path(), "worker-4"), folder.with_file_name("worker-4-2"));
        drop(lock);
        assert_eq!(found(Some(stack.path())), []);
        assert!(!folder.join(RECORD).exists());
    }
}
