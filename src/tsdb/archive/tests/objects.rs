//! Tests of the objects in a directory or on S3.

use super::*;

#[test]
fn archive_directory_must_exist() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("missing");
    let url = format!("file://{}", path.display()).parse().unwrap();
    assert!(matches!(Objects::open(&url), Err(ObjectError::NoDirectory { .. })));
    assert!(!path.exists());
    fs::write(&path, "a file").unwrap();
    assert!(matches!(Objects::open(&url), Err(ObjectError::NoDirectory { .. })));
}

#[test]
fn archive_object_replaces_only_the_expected_version() {
    let (folder, server) = (tempdir().unwrap(), TestServer::start());
    let url = format!("file://{}", folder.path().display());
    for objects in [Objects::open(&url.parse().unwrap()).unwrap(), server.open()] {
        let key = "dataset=1/month=1970-01/part-0.parquet";
        let write = |replaced, text: &str| {
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            file.rewind().unwrap();
            objects.replace(key, replaced, file, text.len() as u64)
        };
        let (first, second) = ("a".repeat(9), "b".repeat(8));
        write(None, &first).unwrap();
        assert!(matches!(write(None, &second), Err(ObjectError::Damaged { .. })));
        let begun = objects.find(key).unwrap();
        write(begun.clone(), &second).unwrap();
        assert!(matches!(write(begun, &first), Err(ObjectError::Damaged { .. })));
        assert_eq!(objects.read_range(key, 0..8).unwrap(), second);
        for range in [6..9, 9..12] {
            let short = objects.read_range(key, range);
            assert!(matches!(short, Err(ObjectError::Damaged { .. })), "{short:?}");
        }
    }
}

#[test]
fn files_of_interrupted_writes_are_removed_by_the_next_write_and_by_the_deletion() {
    let folder = tempdir().unwrap();
    let root = folder.path().join("archive");
    let objects = objects_in(folder.path());
    let key = "dataset=1/month=1970-01/part-0.parquet";
    let (object, left) = (root.join(key), root.join(format!("{key}#1")));
    let other = object.with_file_name("part-1.parquet#1");
    let leave = || {
        fs::create_dir_all(object.parent().unwrap()).unwrap();
        fs::write(&left, "half").unwrap();
        fs::write(&other, "half").unwrap();
    };
    leave();
    objects.replace(key, None, tempfile::tempfile().unwrap(), 0).unwrap();
    assert!(object.exists() && !left.exists());
    leave();
    objects.delete(key).unwrap();
    assert!(!object.exists() && !left.exists());
    assert!(other.exists(), "belongs to another object");
}
