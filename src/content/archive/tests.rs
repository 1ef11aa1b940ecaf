use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use model::function::content::{Codec, ContentId};
use proptest::prelude::*;
use tar::{Builder, Header};

use super::*;

/// Creates an archive of `entries`. Their names and types are not checked.
pub(in super::super) fn archive(entries: &[(&str, EntryType, &[u8])]) -> Vec<u8> {
    let mut tar = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
    for (path, kind, bytes) in entries {
        let mut header = Header::new_gnu();
        // Set as bytes, since the library rejects the invalid paths that are tested here.
        header.as_gnu_mut().unwrap().name[..path.len()].copy_from_slice(path.as_bytes());
        header.set_entry_type(*kind);
        header.set_size(bytes.len() as u64);
        header.set_mode(0o644);
        header.set_cksum();
        tar.append(&header, *bytes).unwrap();
    }
    tar.into_inner().unwrap().finish().unwrap()
}

/// Returns the SHA-256 of an archive as manifests write it.
pub(in super::super) fn sum(archive: &[u8]) -> String {
    let id = ContentId::from_block(Codec::Raw, archive).bytes();
    id[4..].iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

#[track_caller]
fn refused(entries: &[(&str, EntryType, &[u8])], want: &str) {
    let error = unpack(&archive(entries), FUNCTION_BYTES_MAX).unwrap_err();
    let error = task::causes::chain(&error);
    assert!(error.contains(want), "{error}");
}

#[test]
fn files_and_directories_of_an_archive_are_unpacked() {
    let archive = archive(&[
        ("./", EntryType::Directory, b""),
        ("./a.wasm", EntryType::Regular, b"\0asm"),
        ("data/", EntryType::Directory, b""),
        ("data/x", EntryType::Regular, b"x"),
    ]);
    let mut want = Entry::folder();
    want.place(&["a.wasm"], Entry::File(b"\0asm".as_slice().into())).unwrap();
    want.place(&["data", "x"], Entry::File(b"x".as_slice().into())).unwrap();
    assert_eq!(unpack(&archive, FUNCTION_BYTES_MAX).unwrap(), want);
}

#[test]
fn archive_with_paths_that_lead_out_of_its_directory_is_rejected() {
    for path in ["../a", "a/../../b", "/etc/passwd", "a\\..\\b", "c:/x"] {
        refused(&[(path, EntryType::Regular, b"x")], "invalid path");
    }
}

#[test]
fn archive_with_links_or_devices_is_rejected() {
    use EntryType as Kind;
    for kind in [Kind::Symlink, Kind::Link, Kind::Char, Kind::Block, Kind::Fifo] {
        refused(&[("a", kind, b"")], "neither file nor folder");
    }
}

#[test]
fn archive_with_too_large_contents_is_rejected() {
    let zeros = vec![0; FUNCTION_BYTES_MAX / 2 + 1];
    let two = [("a", EntryType::Regular, &zeros[..]), ("b", EntryType::Regular, &zeros)];
    refused(&two, "content exceeds 268435456 bytes");

    let names: Vec<String> = (0..=FILES_MAX).map(|n| n.to_string()).collect();
    let many: Vec<(&str, EntryType, &[u8])> =
        names.iter().map(|name| (name.as_str(), EntryType::Regular, &b""[..])).collect();
    refused(&many, "files and folders");
}

/// A megabyte of path would become many times as large as parts.
#[test]
fn archive_with_an_endless_path_is_rejected() {
    for kind in [EntryType::GNULongName, EntryType::XHeader] {
        let path = "a/".repeat(1 << 19);
        let long = ("././@LongLink", kind, path.as_bytes());
        refused(&[long, ("a", EntryType::Regular, b"")], "headers of an entry are too long");
    }
}

/// The header announces a huge size, for which no memory must be allocated in advance.
#[test]
fn truncated_archive_is_rejected() {
    let mut header = Header::new_gnu();
    header.set_path("a").unwrap();
    header.set_entry_type(EntryType::Regular);
    header.set_size(u64::MAX / 2);
    header.set_cksum();
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(header.as_bytes()).unwrap();
    gzip.write_all(b"short").unwrap();
    let error = unpack(&gzip.finish().unwrap(), FUNCTION_BYTES_MAX).unwrap_err();
    assert!(matches!(error, ContentError::Archive(_)), "{error}");
}

proptest! {
    #[test]
    fn unpacking_arbitrary_bytes_does_not_panic(bytes: Vec<u8>) {
        drop(unpack(&bytes, FUNCTION_BYTES_MAX));
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&bytes).unwrap();
        drop(unpack(&gzip.finish().unwrap(), FUNCTION_BYTES_MAX));
    }

    #[test]
    fn unpacking_a_damaged_archive_does_not_panic(at in 0..1024_usize, byte: u8) {
        let mut tar = Vec::new();
        let packed = archive(&[("a.wasm", EntryType::Regular, b"\0asm")]);
        MultiGzDecoder::new(&packed[..]).read_to_end(&mut tar).unwrap();
        tar[at] = byte;
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&tar).unwrap();
        drop(unpack(&gzip.finish().unwrap(), FUNCTION_BYTES_MAX));
    }
}
