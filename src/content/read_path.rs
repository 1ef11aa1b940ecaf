//! Reads a function from a path on this machine. Blocks.

use std::path::Path;
use std::{fs, io};

use task::file::read_at_most;

use super::dag::{DEPTH_MAX, FILES_MAX};
use super::error::{ContentError, file_error, shorten};
use super::pack::Entry;
use super::{FUNCTION_BYTES_MAX, FunctionsError};

/// Numbers of further files and bytes that can be read.
struct Budget {
    bytes: usize,
    entries: usize,
}

/// Reads the file or directory at `path`. Like `ipfs add -r`, omits hidden files (with names that start
/// with a dot).
pub(super) fn read(path: &Path) -> Result<Entry, FunctionsError> {
    let metadata = fs::metadata(path).map_err(file_error("read", path))?;
    let mut budget = Budget { bytes: FUNCTION_BYTES_MAX, entries: FILES_MAX };
    if metadata.is_dir() {
        folder(path, DEPTH_MAX, &mut budget)
    } else if metadata.is_file() {
        file(path, &mut budget)
    } else {
        Err(ContentError::Unsupported { what: "a path that is neither file nor folder" }.into())
    }
}

fn folder(path: &Path, depth: usize, budget: &mut Budget) -> Result<Entry, FunctionsError> {
    let too_deep = ContentError::TooMuch { what: "levels of folders", max: DEPTH_MAX };
    let depth = depth.checked_sub(1).ok_or(too_deep)?;
    let mut folder = Entry::folder();
    for entry in fs::read_dir(path).map_err(file_error("read the directory", path))? {
        let entry = entry.map_err(file_error("read the directory", path))?;
        let (path, name) = (entry.path(), entry.file_name());
        let wrong = || ContentError::Path { path: shorten(&name.to_string_lossy()) };
        let name = name.to_str().ok_or_else(wrong)?;
        if name.starts_with('.') {
            continue;
        }
        let too_many = ContentError::TooMuch { what: "files and folders", max: FILES_MAX };
        budget.entries = budget.entries.checked_sub(1).ok_or(too_many)?;
        let kind = entry.file_type().map_err(file_error("read", &path))?;
        let inner = if kind.is_dir() {
            self::folder(&path, depth, budget)?
        } else if kind.is_file() {
            file(&path, budget)?
        } else {
            let what = "a symbolic link or another entry that is neither file nor folder";
            return Err(ContentError::Unsupported { what }.into());
        };
        folder.place(&[name], inner)?;
    }
    Ok(folder)
}

fn file(path: &Path, budget: &mut Budget) -> Result<Entry, FunctionsError> {
    let bytes = read_at_most(path, budget.bytes).map_err(|error| match error.kind() {
        io::ErrorKind::FileTooLarge => ContentError::TooLarge { max: FUNCTION_BYTES_MAX }.into(),
        _ => file_error("read", path)(error),
    })?;
    budget.bytes -= bytes.len();
    Ok(Entry::File(bytes.into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_are_omitted_and_links_rejected() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a.wasm"), b"\0asm").unwrap();
        fs::write(dir.path().join(".hidden"), b"x").unwrap();
        fs::create_dir(dir.path().join("none")).unwrap();
        let Entry::Folder(entries) = read(dir.path()).unwrap() else { panic!("a folder") };
        let want = [
            ("a.wasm".to_owned(), Entry::File(b"\0asm".as_slice().into())),
            ("none".to_owned(), Entry::folder()),
        ];
        assert_eq!(entries, want.into());

        std::os::unix::fs::symlink("/etc/passwd", dir.path().join("link")).unwrap();
        let error = read(dir.path()).unwrap_err();
        let cause = std::error::Error::source(&error).unwrap().to_string();
        assert!(cause.contains("a symbolic link"), "{cause}");
    }

    #[test]
    fn directory_with_too_many_files_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        for n in 0..=FILES_MAX {
            fs::write(dir.path().join(n.to_string()), b"").unwrap();
        }
        let error = read(dir.path()).unwrap_err();
        assert!(matches!(error, FunctionsError::Content(ContentError::TooMuch { .. })), "{error}");
    }
}
