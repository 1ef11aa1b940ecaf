use std::os::unix::fs::{PermissionsExt as _, symlink};

use super::*;
use crate::quota::count;

const LIMITS: FilesLimits = FilesLimits { n_files_max: 5, bytes_max: 64 * 1024 };

#[track_caller]
fn check(fill: impl FnOnce(&Path), want_overfull: bool) {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("guest");
    fs::create_dir(&folder).unwrap();
    fill(&folder);
    assert_eq!(count(&folder, &[], LIMITS).is_none(), want_overfull);
    remove(&folder).unwrap();
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[test]
fn directory_of_a_guest_is_private() {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join("guests/guest");
    let files = Files {
        folder: folder.clone(),
        afterwards: FolderCleanup::Remove,
        limits: None,
        function: None,
    };
    let _made = Folder::make(files).unwrap();
    assert_eq!(fs::metadata(&folder).unwrap().permissions().mode() & 0o777, 0o700);
}

#[test]
fn disk_usage_within_the_limits_is_accepted() {
    check(|_| (), false);
    check(|folder| fs::write(folder.join("a"), [1; 1000]).unwrap(), false);
}

#[test]
fn files_are_counted_at_any_depth() {
    check(
        |folder| {
            fs::create_dir_all(folder.join("a/b")).unwrap();
            for name in ["1", "a/2", "a/b/3", "a/b/4"] {
                fs::write(folder.join(name), []).unwrap();
            }
        },
        true,
    );
}

#[test]
fn bytes_of_files_are_counted_as_allocated_disk_space() {
    check(|folder| fs::write(folder.join("a"), vec![1; 100_000]).unwrap(), true);
    let sparse = |folder: &Path| {
        fs::File::create(folder.join("a")).unwrap().set_len(1 << 30).unwrap();
    };
    check(sparse, false);
}

#[test]
fn links_are_not_followed_when_files_are_counted_or_removed() {
    let outside = tempfile::tempdir().unwrap();
    for n in 0..10 {
        fs::write(outside.path().join(n.to_string()), []).unwrap();
    }
    check(|folder| symlink(outside.path(), folder.join("out")).unwrap(), false);
    assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 10);
}

/// Directories nested so deeply that their path is longer than the system accepts.
#[test]
fn directories_nested_beyond_the_maximum_path_length_are_removed() {
    check(
        |folder| {
            let name = "x".repeat(200);
            for _ in 0..30 {
                // Created from the inside out: each new directory contains the previous directory.
                let (inner, outer) = (folder.join("inner"), folder.join("outer"));
                fs::create_dir(&outer).unwrap();
                if inner.exists() {
                    fs::rename(&inner, outer.join(&name)).unwrap();
                }
                fs::rename(&outer, &inner).unwrap();
            }
        },
        true,
    );
}
