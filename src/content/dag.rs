//! Content as a tree of blocks, and the files that the tree contains.

use std::collections::BTreeSet;

use bytes::Bytes;
use model::function::Method;
use model::function::content::{Codec, ContentId};

use super::FUNCTION_BYTES_MAX;
use super::car::{self, BLOCKS_MAX, Blocks};
use super::dag_pb::{self, Link, Node};
use super::error::{ContentError, shorten};

/// Maximum number of files of a function. With file names of usual length, IPFS tools do not shard a
/// directory of this size.
pub(super) const FILES_MAX: usize = 1024;

/// Maximum depth of directories.
pub(super) const DEPTH_MAX: usize = 16;

/// Maximum number of block visits while a tree is read. A small set of blocks can form a huge tree that
/// contains the same block many times.
const VISITS_MAX: usize = 4 * BLOCKS_MAX;

/// Number of bytes other than data whose parsing counts as one more visit. The largest node of a function
/// that a tool writes, a directory of [`FILES_MAX`] files, counts as some hundred visits.
const VISIT_BYTES: usize = 256;

/// Maximum depth of nodes within a file. A node has up to 174 links, so three levels suffice for the
/// largest function.
const FILE_DEPTH_MAX: usize = 8;

/// A tree of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Dag {
    pub(super) root: ContentId,
    pub(super) blocks: Blocks,
}

/// A file or directory of a tree of blocks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Tree {
    File(Bytes),
    /// Files of a directory, sorted by the components of their paths.
    Folder(Vec<File>),
}

/// A file of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct File {
    /// Path with components separated by `/`.
    pub(crate) path: String,
    pub(crate) bytes: Bytes,
}

impl Dag {
    /// Reads a CAR that contains the tree of `root`. Blocks outside the tree are dropped when the tree
    /// is [written](Self::car).
    pub(super) fn read(root: ContentId, car: &Bytes) -> Result<Self, ContentError> {
        let (_, blocks) = car::read(car)?;
        Ok(Self { root, blocks })
    }

    /// Reads a CAR with one root.
    pub(super) fn read_any(car: &Bytes) -> Result<Self, ContentError> {
        let (root, blocks) = car::read(car)?;
        Ok(Self { root, blocks })
    }

    /// Returns the file or directory of the tree, with at most `bytes_max` bytes of files.
    pub(super) fn tree(&self, bytes_max: usize) -> Result<Tree, ContentError> {
        self.walk(bytes_max).map(|(tree, _)| tree)
    }

    /// Writes the tree as a CAR: each block before the blocks it links to, and `extra` last. Equal trees
    /// result in equal bytes.
    pub(super) fn car(&self, extra: Option<ContentId>) -> Result<Bytes, ContentError> {
        let (_, walk) = self.walk(FUNCTION_BYTES_MAX)?;
        let further = extra.filter(|id| !walk.reached.contains(id));
        let ids = walk.order.into_iter().chain(further);
        let blocks = ids.filter_map(|id| self.blocks.get(&id).map(|block| (id, block)));
        Ok(car::write(self.root, blocks))
    }

    fn walk(&self, bytes_max: usize) -> Result<(Tree, Walk<'_>), ContentError> {
        let mut walk = Walk {
            blocks: &self.blocks,
            visits_left: VISITS_MAX,
            bytes_max,
            bytes_left: bytes_max,
            reached: BTreeSet::new(),
            order: Vec::new(),
            files: Vec::new(),
        };
        let tree = match walk.node(self.root)? {
            Node::Directory(links) => {
                walk.folder("", &links, DEPTH_MAX)?;
                Tree::Folder(std::mem::take(&mut walk.files))
            }
            file @ Node::File { .. } => Tree::File(walk.file(file)?),
        };
        Ok((tree, walk))
    }
}

/// State of a walk through a tree, with the remaining numbers of visits and bytes.
struct Walk<'a> {
    blocks: &'a Blocks,
    visits_left: usize,
    bytes_max: usize,
    bytes_left: usize,
    reached: BTreeSet<ContentId>,
    /// Ids of the visited blocks, each once, in the order of the first visit.
    order: Vec<ContentId>,
    files: Vec<File>,
}

impl Walk<'_> {
    fn folder(&mut self, at: &str, links: &[Link], depth: usize) -> Result<(), ContentError> {
        let mut names = BTreeSet::new();
        for link in links {
            let path =
                if at.is_empty() { link.name.clone() } else { format!("{at}/{}", link.name) };
            check_name(&link.name)?;
            if !names.insert(&link.name) {
                return Err(ContentError::Twice { path: shorten(&path) });
            }
            match self.node(link.id)? {
                Node::Directory(links) => {
                    let depth = depth.checked_sub(1);
                    let too_deep =
                        ContentError::TooMuch { what: "levels of folders", max: DEPTH_MAX };
                    self.folder(&path, &links, depth.ok_or(too_deep)?)?;
                }
                file @ Node::File { .. } => {
                    let bytes = self.file(file)?;
                    self.files.push(File { path, bytes });
                    if self.files.len() > FILES_MAX {
                        return Err(ContentError::TooMuch { what: "files", max: FILES_MAX });
                    }
                }
            }
        }
        Ok(())
    }

    fn file(&mut self, file: Node) -> Result<Bytes, ContentError> {
        let mut pieces = Vec::new();
        self.pieces(file, FILE_DEPTH_MAX, &mut pieces)?;
        Ok(match pieces.as_slice() {
            [piece] => piece.clone(),
            pieces => pieces.concat().into(),
        })
    }

    fn pieces(
        &mut self,
        file: Node,
        depth: usize,
        pieces: &mut Vec<Bytes>,
    ) -> Result<(), ContentError> {
        let Node::File { data, links } = file else {
            return Err(ContentError::Unsupported { what: "a directory as a piece of a file" });
        };
        let too_large = ContentError::TooLarge { max: self.bytes_max };
        self.bytes_left = self.bytes_left.checked_sub(data.len()).ok_or(too_large)?;
        if !data.is_empty() {
            pieces.push(data);
        }
        let too_deep =
            ContentError::TooMuch { what: "levels of nodes in a file", max: FILE_DEPTH_MAX };
        let depth = if links.is_empty() { depth } else { depth.checked_sub(1).ok_or(too_deep)? };
        for link in links {
            let node = self.node(link.id)?;
            self.pieces(node, depth, pieces)?;
        }
        Ok(())
    }

    fn node(&mut self, id: ContentId) -> Result<Node, ContentError> {
        let block = self.blocks.get(&id).ok_or(ContentError::Missing { id })?;
        if self.reached.insert(id) {
            self.order.push(id);
        }
        let node = match id.codec() {
            Codec::Raw => Node::File { data: block.clone(), links: Vec::new() },
            Codec::DagPb => dag_pb::read(block)?,
        };
        let n_data = if let Node::File { data, .. } = &node { data.len() } else { 0 };
        let n_visits = 1 + block.len().saturating_sub(n_data) / VISIT_BYTES;
        let what = "links, counting 256 bytes of metadata as one";
        let too_many = ContentError::TooMuch { what, max: VISITS_MAX };
        self.visits_left = self.visits_left.checked_sub(n_visits).ok_or(too_many)?;
        Ok(node)
    }
}

/// Checks that a name is a single path component that does not lead out of its directory.
pub(super) fn check_name(name: &str) -> Result<(), ContentError> {
    let wrong = |_| ContentError::Path { path: shorten(name) };
    name.parse::<Method>().map(drop).map_err(wrong)
}

#[cfg(test)]
mod tests;
