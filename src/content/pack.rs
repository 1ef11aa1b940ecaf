//! Packs files into the tree of blocks that `ipfs add --cid-version=1 --raw-leaves` creates.

use std::collections::BTreeMap;

use bytes::Bytes;
use model::function::content::{Codec, ContentId};

use super::car::Blocks;
use super::dag::{DEPTH_MAX, Dag, FILES_MAX, check_name};
use super::dag_pb::{self, Link};
use super::error::{ContentError, shorten};

/// Default parameters of IPFS tools for splitting files.
pub(super) const CUT: Cut = Cut { piece_bytes: 256 * 1024, links_max: 174 };

/// Total size of names and ids above which IPFS tools shard a directory.
const DIRECTORY_BYTES_MAX: usize = 256 * 1024;

/// Parameters for splitting a file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    /// Size of each part except the last.
    pub(super) piece_bytes: usize,
    /// Maximum number of links of a node.
    pub(super) links_max: usize,
}

/// A file or directory to be packed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Entry {
    File(Bytes),
    /// Entries by name.
    Folder(BTreeMap<String, Entry>),
}

/// A packed subtree.
#[derive(Debug, Clone, Copy)]
struct Subtree {
    id: ContentId,
    /// Size of all blocks of the subtree.
    tree_bytes: u64,
    /// Size of the file content in the subtree; 0 for a directory.
    file_bytes: u64,
}

impl Entry {
    /// Creates an empty directory.
    pub(super) const fn folder() -> Self {
        Self::Folder(BTreeMap::new())
    }

    /// Inserts `entry` at `path` and creates its parent directories. Checks the names in `path`.
    pub(super) fn place(&mut self, path: &[&str], entry: Self) -> Result<(), ContentError> {
        let twice = || ContentError::Twice { path: shorten(&path.join("/")) };
        if path.len() > DEPTH_MAX {
            return Err(ContentError::TooMuch { what: "levels of folders", max: DEPTH_MAX });
        }
        let (Some((last, folders)), mut at) = (path.split_last(), self) else { return Ok(()) };
        for name in path {
            check_name(name)?;
        }
        for name in folders {
            let Self::Folder(entries) = at else { return Err(twice()) };
            at = entries.entry((*name).to_owned()).or_insert_with(Self::folder);
        }
        let Self::Folder(entries) = at else { return Err(twice()) };
        match (entries.get(*last), &entry) {
            (None, _) => {
                entries.insert((*last).to_owned(), entry);
                Ok(())
            }
            (Some(Self::Folder(_)), Self::Folder(_)) => Ok(()),
            _ => Err(twice()),
        }
    }

    /// Splits the files into blocks and links them as a tree.
    pub(super) fn to_dag(&self) -> Result<Dag, ContentError> {
        let mut blocks = Blocks::new();
        let mut files_left = FILES_MAX;
        let root = pack(self, &mut files_left, &mut blocks)?.id;
        Ok(Dag { root, blocks })
    }
}

/// Packs a single file.
pub(super) fn file(bytes: &Bytes, cut: Cut) -> Dag {
    let mut blocks = Blocks::new();
    let root = pack_file(bytes, cut, &mut blocks).id;
    Dag { root, blocks }
}

fn pack(
    entry: &Entry,
    files_left: &mut usize,
    blocks: &mut Blocks,
) -> Result<Subtree, ContentError> {
    // Directories count, too, since they are entries of their parents.
    let too_many = ContentError::TooMuch { what: "files and folders", max: FILES_MAX };
    *files_left = files_left.checked_sub(1).ok_or(too_many)?;
    let entries = match entry {
        Entry::File(bytes) => return Ok(pack_file(bytes, CUT, blocks)),
        Entry::Folder(entries) => entries,
    };
    let mut links = Vec::with_capacity(entries.len());
    let mut directory_bytes = 0;
    for (name, entry) in entries {
        let Subtree { id, tree_bytes, .. } = pack(entry, files_left, blocks)?;
        directory_bytes += name.len() + id.bytes().len();
        links.push(Link { id, name: name.clone(), tree_bytes });
    }
    if directory_bytes > DIRECTORY_BYTES_MAX {
        let max = DIRECTORY_BYTES_MAX;
        return Err(ContentError::TooMuch { what: "bytes of names in a directory", max });
    }
    let linked_bytes = links.iter().map(|link| link.tree_bytes).sum();
    Ok(put_node(dag_pb::write_directory(&links), linked_bytes, 0, blocks))
}

fn pack_file(bytes: &Bytes, cut: Cut, blocks: &mut Blocks) -> Subtree {
    let mut level: Vec<Subtree> = bytes
        .chunks(cut.piece_bytes)
        .map(|piece| {
            let id = ContentId::from_block(Codec::Raw, piece);
            blocks.insert(id, bytes.slice_ref(piece));
            let n_bytes = piece.len() as u64;
            Subtree { id, tree_bytes: n_bytes, file_bytes: n_bytes }
        })
        .collect();
    while level.len() > 1 {
        level = level.chunks(cut.links_max).map(|pieces| join(pieces, blocks)).collect();
    }
    level.pop().unwrap_or_else(|| {
        let id = ContentId::from_block(Codec::Raw, b"");
        blocks.insert(id, Bytes::new());
        Subtree { id, tree_bytes: 0, file_bytes: 0 }
    })
}

fn join(pieces: &[Subtree], blocks: &mut Blocks) -> Subtree {
    let link =
        |piece: &Subtree| Link { id: piece.id, name: String::new(), tree_bytes: piece.tree_bytes };
    let links: Vec<Link> = pieces.iter().map(link).collect();
    let sizes: Vec<u64> = pieces.iter().map(|piece| piece.file_bytes).collect();
    let tree_bytes = pieces.iter().map(|piece| piece.tree_bytes).sum();
    put_node(dag_pb::write_file(&links, &sizes), tree_bytes, sizes.iter().sum(), blocks)
}

/// Adds a node, given the total size of the nodes that it links to.
fn put_node(block: Vec<u8>, linked_bytes: u64, file_bytes: u64, blocks: &mut Blocks) -> Subtree {
    let id = ContentId::from_block(Codec::DagPb, &block);
    let tree_bytes = linked_bytes + block.len() as u64;
    blocks.insert(id, block.into());
    Subtree { id, tree_bytes, file_bytes }
}

#[cfg(test)]
pub(super) mod tests;
