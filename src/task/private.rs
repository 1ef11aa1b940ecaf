//! Folders and files that nobody but their owner may look into: what services keep.

use std::{fs, io, path::Path};

/// Makes the folder at `path` and those above it, as far as they are missing, for their owner alone.
/// One that is there keeps its mode: it may be meant for others, too.
///
/// # Errors
/// If it cannot be made.
pub fn folder(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path)
}

/// Makes the file at `path` if it is missing, and keeps all but its owner out, also of one that is
/// there. SQLite gives the files beside a database the database's mode.
///
/// # Errors
/// If it cannot be made, or its mode not be changed.
pub fn file(path: &Path) -> io::Result<()> {
    let mut options = fs::OpenOptions::new();
    options.create(true).append(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
        options.mode(0o600);
        let file = match options.open(path) {
            Ok(file) => file,
            // What cannot be written cannot be given another mode. Whoever reads it goes on.
            Err(error) if path.exists() && is_unwritable(&error) => return Ok(()),
            Err(error) => return Err(error),
        };
        if file.metadata()?.permissions().mode() & 0o077 != 0 {
            file.set_permissions(fs::Permissions::from_mode(0o600))?;
        }
        Ok(())
    }
    #[cfg(not(unix))]
    options.open(path).map(drop)
}

#[cfg(unix)]
fn is_unwritable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied)
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

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
        folder(&inner).unwrap();
        check(&base.path().join("a"), 0o700);
        check(&inner, 0o700);
        file(&inner.join("db")).unwrap();
        check(&inner.join("db"), 0o600);
    }

    #[test]
    fn what_is_there_keeps_its_content_a_folder_its_mode_and_a_file_is_closed() {
        let base = tempfile::tempdir().unwrap();
        fs::set_permissions(base.path(), fs::Permissions::from_mode(0o755)).unwrap();
        folder(base.path()).unwrap();
        check(base.path(), 0o755);
        let path = base.path().join("db");
        fs::write(&path, "rows").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        file(&path).unwrap();
        check(&path, 0o600);
        assert_eq!(fs::read(&path).unwrap(), b"rows");
    }
}
