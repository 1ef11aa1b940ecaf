//! Files and directories that only their owner can read.

use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;
use std::{fs, io};

/// Creates the directory at `path` and its missing parents with mode 0700. The mode of directories
/// that exist already is not changed.
///
/// # Errors
/// If a directory cannot be created.
pub fn create_folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    builder.mode(0o700);
    builder.create(path)
}

/// Creates the file at `path` if it is missing. Sets the mode of the file to 0600, even if it
/// exists already. SQLite gives the same mode to the log files of a database.
///
/// A file that exists already is not opened. Closing it would release the locks that SQLite has on
/// the database in this process. Another process could then consider the database unused and
/// remove its log.
///
/// # Errors
/// If the file cannot be created, or its mode cannot be changed.
pub fn create_file(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    match options.create_new(true).append(true).mode(0o600).open(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
        // The file exists on a read-only disk. Its mode cannot be changed, but it can be read.
        Err(error) if path.exists() && is_unwritable(&error) => {}
        created => return created.map(drop),
    }
    let mut permissions = fs::metadata(path)?.permissions();
    if permissions.mode() & 0o077 != 0 {
        permissions.set_mode(0o600);
        match fs::set_permissions(path, permissions) {
            Err(error) if is_unwritable(&error) => {}
            result => return result,
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
    fn new_files_and_directories_are_private() {
        let base = tempfile::tempdir().unwrap();
        let inner = base.path().join("a/b");
        create_folder(&inner).unwrap();
        check(&base.path().join("a"), 0o700);
        check(&inner, 0o700);
        create_file(&inner.join("db")).unwrap();
        check(&inner.join("db"), 0o600);
    }

    #[test]
    fn existing_directory_keeps_its_mode_and_existing_file_becomes_private() {
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
