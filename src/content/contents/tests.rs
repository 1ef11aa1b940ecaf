use model::function::content::Codec;
use serde_json::json;
use tar::EntryType;

use super::super::FUNCTION_BYTES_MAX;
use super::super::archive::tests::{archive, sum};
use super::*;

fn method(name: &str) -> Method {
    name.parse().unwrap()
}

/// Creates a directory with `files` and a manifest that names `archive`.
fn package(archive: &[u8], address: &str, files: &[(&str, &[u8])]) -> Dag {
    let sum = sum(archive);
    let manifest = json!({"name": "greeter", "runtime": {"url": address, "checksum": sum}});
    let mut folder = Entry::folder();
    let manifest = manifest.to_string().into_bytes();
    folder.place(&["manifest.json"], Entry::File(manifest.into())).unwrap();
    for (path, bytes) in files {
        folder
            .place(&path.split('/').collect::<Vec<_>>(), Entry::File(bytes.to_vec().into()))
            .unwrap();
    }
    folder.to_dag().unwrap()
}

fn greeter() -> Vec<u8> {
    archive(&[
        ("greet.wasm", EntryType::Regular, b"\0asm greet"),
        ("data/x", EntryType::Regular, b"x"),
    ])
}

#[test]
fn package_contains_the_files_of_its_archive() {
    let archive = greeter();
    let contents = Contents::of_dag(
        &package(&archive, "/a.tar.gz", &[("a.tar.gz", &archive)]),
        FUNCTION_BYTES_MAX,
    )
    .unwrap();
    assert_eq!(contents.module(&method("greet.wasm")).unwrap(), "\0asm greet");
    assert_eq!(contents.module(&method("a.tar.gz")), None);
    assert_eq!((contents.name.as_deref(), contents.archive), (Some("greeter"), None));
    let paths: Vec<&str> =
        contents.folder().unwrap().iter().map(|file| file.path.as_str()).collect();
    assert_eq!(paths, ["a.tar.gz", "manifest.json", "data/x", "greet.wasm"]);
}

#[test]
fn package_with_a_file_and_a_directory_of_the_same_path_is_rejected() {
    let archive = greeter();
    for path in ["data", "greet.wasm/y"] {
        let files = [("a.tar.gz", archive.as_slice()), (path, b"z")];
        let error = Contents::of_dag(&package(&archive, "/a.tar.gz", &files), FUNCTION_BYTES_MAX);
        assert!(matches!(error, Err(ContentError::Twice { .. })), "{path}: {error:?}");
    }
}

#[test]
fn archive_outside_the_package_is_identified_by_its_checksum() {
    let archive = greeter();
    let mut dag = package(&archive, "https://example.com/a.tar.gz", &[]);
    let block = ContentId::from_block(Codec::Raw, &archive);
    match Contents::of_dag(&dag, FUNCTION_BYTES_MAX) {
        Err(ContentError::ArchiveElsewhere { address, block: wanted }) => {
            assert_eq!((address.as_str(), wanted), ("https://example.com/a.tar.gz", block));
        }
        other => panic!("{other:?}"),
    }
    dag.blocks.insert(block, archive.into());
    let contents = Contents::of_dag(&dag, FUNCTION_BYTES_MAX).unwrap();
    assert_eq!(contents.archive, Some(block));
    assert!(contents.module(&method("greet.wasm")).is_some());
}

#[test]
fn packaged_archive_with_another_checksum_is_rejected() {
    let dag = package(&greeter(), "a.tar.gz", &[("a.tar.gz", b"another")]);
    assert!(matches!(Contents::of_dag(&dag, FUNCTION_BYTES_MAX), Err(ContentError::Checksum)));
}

#[test]
fn directory_without_a_module_at_its_top_is_rejected() {
    let mut folder = Entry::folder();
    folder.place(&["a.txt"], Entry::File(b"a".as_slice().into())).unwrap();
    folder.place(&["in", "b.wasm"], Entry::File(b"\0asm".as_slice().into())).unwrap();
    let error = Contents::of_dag(&folder.to_dag().unwrap(), FUNCTION_BYTES_MAX).unwrap_err();
    assert_eq!(error.to_string(), "no WebAssembly module among 2 files");
}

#[test]
fn directory_with_a_module_is_valid_without_its_archive() {
    let dag = package(b"", "https://example.com/a", &[("hello.wasm", b"\0asm")]);
    let contents = Contents::of_dag(&dag, FUNCTION_BYTES_MAX).unwrap();
    assert!(contents.module(&method("hello.wasm")).is_some());
    assert_eq!(contents.module(&method("data")), None);
}
