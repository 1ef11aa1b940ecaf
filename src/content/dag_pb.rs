//! Nodes of content trees: the part of dag-pb with `UnixFS` that functions need.
//!
//! A node is either a directory with links to its entries, or a file that consists of the node's own
//! bytes and the bytes behind its links. Sizes are written as IPFS tools write them, but not trusted
//! when read. Symbolic links and sharded directories are rejected.

use bytes::Bytes;
use model::function::content::ContentId;

use super::error::ContentError;
use super::varint;

/// Name of the format in errors.
const WHAT: &str = "dag-pb node of UnixFS";

/// `UnixFS` type of a part of a file.
const TYPE_RAW: u64 = 0;

/// `UnixFS` type of a directory.
const TYPE_DIRECTORY: u64 = 1;

/// `UnixFS` type of a file.
const TYPE_FILE: u64 = 2;

/// `UnixFS` type of a symbolic link.
const TYPE_SYMLINK: u64 = 4;

/// `UnixFS` type of a sharded directory.
const TYPE_SHARD: u64 = 5;

/// Protobuf wire type of a number.
const WIRE_NUMBER: u64 = 0;

/// Protobuf wire type of length-prefixed bytes.
const WIRE_BYTES: u64 = 2;

/// A parsed node.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Node {
    /// Entries in the order in which the block lists them.
    Directory(Vec<Link>),
    /// A file or part of a file.
    File {
        /// Bytes of the file that the node itself contains. They precede the linked parts.
        data: Bytes,
        /// Links to the further parts of the file.
        links: Vec<Link>,
    },
}

/// A link of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Link {
    /// The linked block.
    pub(super) id: ContentId,
    /// Name of the directory entry; empty in links of files.
    pub(super) name: String,
    /// Total size of the linked block and all blocks below it, as counted by IPFS tools.
    pub(super) tree_bytes: u64,
}

/// Parses a node.
pub(super) fn read(block: &Bytes) -> Result<Node, ContentError> {
    let mut links = Vec::new();
    let mut unixfs = None;
    let mut fields = Fields(block);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => unixfs = Some(bytes),
            (2, Value::Bytes(bytes)) => links.push(link(bytes)?),
            _ => return Err(malformed()),
        }
    }
    let (mut kind, mut data) = (None, Bytes::new());
    let mut fields = Fields(unixfs.ok_or_else(malformed)?);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Number(number)) => kind = Some(number),
            (2, Value::Bytes(bytes)) => data = block.slice_ref(bytes),
            _ => {}
        }
    }
    match kind.ok_or_else(malformed)? {
        TYPE_DIRECTORY => Ok(Node::Directory(links)),
        TYPE_RAW | TYPE_FILE => Ok(Node::File { data, links }),
        TYPE_SYMLINK => Err(ContentError::Unsupported { what: "a symbolic link" }),
        TYPE_SHARD => Err(ContentError::Unsupported { what: "a sharded directory" }),
        _ => Err(malformed()),
    }
}

/// Serializes a directory with `links` sorted by name.
pub(super) fn write_directory(links: &[Link]) -> Vec<u8> {
    let mut unixfs = Vec::new();
    put_number(1, TYPE_DIRECTORY, &mut unixfs);
    write(links, &unixfs)
}

/// Serializes a file that consists of the parts behind `links`. `piece_bytes` are the sizes of these
/// parts.
pub(super) fn write_file(links: &[Link], piece_bytes: &[u64]) -> Vec<u8> {
    let mut unixfs = Vec::new();
    put_number(1, TYPE_FILE, &mut unixfs);
    put_number(3, piece_bytes.iter().sum(), &mut unixfs);
    for bytes in piece_bytes {
        put_number(4, *bytes, &mut unixfs);
    }
    write(links, &unixfs)
}

/// Serializes links and data in the field order that IPFS tools use, so that the content id is the same.
fn write(links: &[Link], unixfs: &[u8]) -> Vec<u8> {
    let mut node = Vec::new();
    for link in links {
        let mut inner = Vec::new();
        put_bytes(1, &link.id.bytes(), &mut inner);
        put_bytes(2, link.name.as_bytes(), &mut inner);
        put_number(3, link.tree_bytes, &mut inner);
        put_bytes(2, &inner, &mut node);
    }
    put_bytes(1, unixfs, &mut node);
    node
}

fn link(bytes: &[u8]) -> Result<Link, ContentError> {
    let (mut id, mut name, mut tree_bytes) = (None, "", 0);
    let mut fields = Fields(bytes);
    while let Some((number, value)) = fields.next()? {
        match (number, value) {
            (1, Value::Bytes(bytes)) => {
                let what = "a link to a block that is not raw or dag-pb by SHA-256";
                let unsupported = || ContentError::Unsupported { what };
                let (read, length) = ContentId::read(bytes).ok_or_else(unsupported)?;
                if length != bytes.len() {
                    return Err(malformed());
                }
                id = Some(read);
            }
            (2, Value::Bytes(bytes)) => name = str::from_utf8(bytes).map_err(|_| malformed())?,
            (3, Value::Number(number)) => tree_bytes = number,
            _ => return Err(malformed()),
        }
    }
    Ok(Link { id: id.ok_or_else(malformed)?, name: name.to_owned(), tree_bytes })
}

fn put_number(field: u64, number: u64, out: &mut Vec<u8>) {
    varint::write(field << 3 | WIRE_NUMBER, out);
    varint::write(number, out);
}

fn put_bytes(field: u64, bytes: &[u8], out: &mut Vec<u8>) {
    varint::write(field << 3 | WIRE_BYTES, out);
    varint::write_prefixed(bytes, out);
}

fn malformed() -> ContentError {
    ContentError::Malformed { what: WHAT }
}

/// Remaining fields of a protobuf message.
struct Fields<'a>(&'a [u8]);

enum Value<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Fields<'a> {
    fn next(&mut self) -> Result<Option<(u64, Value<'a>)>, ContentError> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let (key, rest) = varint::read(self.0).ok_or_else(malformed)?;
        let (value, rest) = match key & 7 {
            WIRE_NUMBER => {
                let (number, rest) = varint::read(rest).ok_or_else(malformed)?;
                (Value::Number(number), rest)
            }
            WIRE_BYTES => {
                let (bytes, rest) = varint::read_prefixed(rest).ok_or_else(malformed)?;
                (Value::Bytes(bytes), rest)
            }
            _ => return Err(malformed()),
        };
        self.0 = rest;
        Ok(Some((key >> 3, value)))
    }
}

#[cfg(test)]
mod tests {
    use model::function::content::Codec;
    use proptest::collection;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn decoding_arbitrary_bytes_as_a_node_does_not_panic(bytes: Vec<u8>) {
            drop(read(&bytes.into()));
        }

        #[test]
        fn decoding_a_damaged_node_does_not_panic(at in 0..200_usize, byte: u8) {
            let id = ContentId::from_block(Codec::Raw, b"x");
            let links = ["a.wasm", "b"].map(|name| Link { id, name: name.into(), tree_bytes: 1 });
            let mut block = write_directory(&links);
            let at = at % block.len();
            block[at] = byte;
            drop(read(&block.into()));
        }

        #[test]
        fn dag_node_round_trips(
            names in collection::vec(".{0,20}", 0..8),
            sizes in collection::vec(any::<u32>(), 0..8),
        ) {
            let id = ContentId::from_block(Codec::DagPb, b"x");
            let link = |name: &String| Link { id, name: name.clone(), tree_bytes: 7 };
            let links: Vec<Link> = names.iter().map(link).collect();
            let block = write_directory(&links).into();
            prop_assert_eq!(read(&block).unwrap(), Node::Directory(links.clone()));
            let sizes: Vec<u64> = sizes.into_iter().map(u64::from).collect();
            let block = write_file(&links, &sizes).into();
            prop_assert_eq!(read(&block).unwrap(), Node::File { data: Bytes::new(), links });
        }
    }

    #[track_caller]
    fn refused(unixfs: &[u8], want: &str) {
        let error = read(&write(&[], unixfs).into()).unwrap_err();
        assert!(error.to_string().contains(want), "{error}");
    }

    #[test]
    fn symbolic_links_shards_and_unknown_types_are_rejected() {
        refused(&[8, 4], "a symbolic link");
        refused(&[8, 5], "a sharded directory");
        refused(&[8, 3], WHAT);
        refused(&[], WHAT);
    }
}
