//! Creates folders and files that only their owner can read.

use std::{
    fs, io,
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::Path,
};

/// Makes the folder at `path` and those above it, as far as they are missing, for their owner alone.
/// One that is there keeps its mode: it may be meant for others, too.
///
/// # Errors
/// If it cannot be made.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    builder.mode(0o700);
    builder.create(path)
}

/// Makes the file at `path` if it is missing, and keeps all but its owner out, also of one that is
/// there. SQLite gives the files beside a database the database's mode.
///
/// A file that is there is not opened: to close it would release the locks that SQLite has on it in
/// this process, and another one would take the database for unused, and remove its log.
///
/// # Errors
/// If it cannot be made, or its mode not be changed.
pub fn create_file(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    match options.create_new(true).append(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // A reader of a disk that cannot be written to goes on.
        Err(error) if path.exists() && is_unwritable(&error) => {}
        made => return made.map(drop),
    }
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o600);
        match fs::set_permissions(path, permissions) {
            Err(error) if is_unwritable(&error) => {}
            set => return set,
        }
    }
    Ok(())
}

fn is_unwritable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(path: &Path, want: u32) {
        let mode = fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, want, "{}", path.display());
    }

    #[test]
    fn what_is_made_is_its_owners_alone() {
        let base = tempfile::tempdir().unwrap();
        let inner = base.path().join("a/b");
        create_folder(&inner).unwrap();
        check(&base.path().join("a"), 0o700);
        check(&inner, 0o700);
        create_file(&inner.join("db")).unwrap();
        check(&inner.join("db"), 0o600);
    }

    #[test]
    fn what_is_there_keeps_its_content_a_folder_its_mode_and_a_file_is_closed() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        create_folder(base.path()).unwrap();
        check(base.path(), 0o755);
        let path = base.path().join("db");
        fs::write(&path, "rows").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        create_file(&path).unwrap();
        check(&path, 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"rows");
    }
}
