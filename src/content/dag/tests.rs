use super::*;
use crate::dag_pb::{write_directory, write_file};

fn put(blocks: &mut Blocks, codec: Codec, block: impl Into<Bytes>) -> ContentId {
    let block = block.into();
    let id = ContentId::from_block(codec, &block);
    blocks.insert(id, block);
    id
}

fn link(id: ContentId, name: &str) -> Link {
    Link { id, name: name.to_owned(), tree_bytes: 0 }
}

fn folder(blocks: &mut Blocks, links: &[Link]) -> ContentId {
    put(blocks, Codec::DagPb, write_directory(links))
}

#[track_caller]
fn refused(root: ContentId, blocks: Blocks, want: &str) {
    let error = Dag { root, blocks }.tree(FUNCTION_BYTES_MAX).unwrap_err().to_string();
    assert!(error.contains(want), "{error}");
}

#[test]
fn file_names_with_separators_and_duplicate_names_are_rejected() {
    for name in ["..", "a/b", "", "c:d", "a\\b"] {
        let mut blocks = Blocks::new();
        let file = put(&mut blocks, Codec::Raw, "x");
        let root = folder(&mut blocks, &[link(file, name)]);
        refused(root, blocks, "invalid path");
    }
    let mut blocks = Blocks::new();
    let file = put(&mut blocks, Codec::Raw, "x");
    let root = folder(&mut blocks, &[link(file, "a"), link(file, "a")]);
    refused(root, blocks, "duplicate path `a`");
}

#[test]
fn error_names_the_missing_block() {
    let mut blocks = Blocks::new();
    let file = put(&mut blocks, Codec::Raw, "x");
    let root = folder(&mut blocks, &[link(file, "a")]);
    blocks.remove(&file);
    refused(root, blocks, &format!("block {file} is missing"));
}

/// A tree of few blocks can have a huge size, or very many links or files, if it contains the same
/// block many times.
#[test]
fn small_tree_with_too_many_files_is_rejected() {
    let mut blocks = Blocks::new();
    let mut file = put(&mut blocks, Codec::Raw, vec![0; 1024 * 1024]);
    for _ in 0..2 {
        let links: Vec<Link> = (0..20).map(|_| link(file, "")).collect();
        file = put(&mut blocks, Codec::DagPb, write_file(&links, &[]));
    }
    refused(file, blocks, "content exceeds 268435456 bytes");

    let mut blocks = Blocks::new();
    let mut file = put(&mut blocks, Codec::Raw, "");
    for _ in 0..3 {
        let links: Vec<Link> = (0..200).map(|_| link(file, "")).collect();
        file = put(&mut blocks, Codec::DagPb, write_file(&links, &[]));
    }
    refused(file, blocks, "links");

    let mut blocks = Blocks::new();
    let mut root = put(&mut blocks, Codec::Raw, "");
    for _ in 0..3 {
        let links: Vec<Link> = (0..20).map(|n| link(root, &format!("{n}"))).collect();
        root = folder(&mut blocks, &links);
    }
    refused(root, blocks, "more than 1024 files");
}

/// Each visit of a block parses it, which can take long if it has little data.
#[test]
fn small_tree_that_takes_long_to_parse_is_rejected() {
    let mut blocks = Blocks::new();
    // A file, of type 2, without data. Field 4 is ignored.
    let mut unixfs = vec![8, 2, 34];
    crate::varint::write_prefixed(&vec![0; 1_000_000], &mut unixfs);
    let mut block = vec![10];
    crate::varint::write_prefixed(&unixfs, &mut block);
    let part = put(&mut blocks, Codec::DagPb, block);
    let links: Vec<Link> = (0..300).map(|_| link(part, "")).collect();
    let root = put(&mut blocks, Codec::DagPb, write_file(&links, &[]));
    refused(root, blocks, "more than 65536 links");
}

#[test]
fn too_deep_tree_of_directories_is_rejected() {
    let mut blocks = Blocks::new();
    let mut root = put(&mut blocks, Codec::Raw, "");
    for _ in 0..DEPTH_MAX + 2 {
        root = folder(&mut blocks, &[link(root, "a")]);
    }
    refused(root, blocks, "levels of folders");

    let mut blocks = Blocks::new();
    let mut file = put(&mut blocks, Codec::Raw, "x");
    for _ in 0..=FILE_DEPTH_MAX {
        file = put(&mut blocks, Codec::DagPb, write_file(&[link(file, "")], &[1]));
    }
    refused(file, blocks, "levels of nodes in a file");
}

#[test]
fn directory_as_a_part_of_a_file_is_rejected() {
    let mut blocks = Blocks::new();
    let inner = folder(&mut blocks, &[]);
    let file = put(&mut blocks, Codec::DagPb, write_file(&[link(inner, "")], &[0]));
    refused(file, blocks, "a directory as a piece of a file");
}
