//! Folders for single executions, below a worker's workspace.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use runtime::files;
use uuid::Uuid;

/// The characters of a UUID.
const UUID_CHARS: usize = 36;

/// The longest request id that is taken as a folder's name.
const NAME_CHARS_MAX: usize = 64;

/// Executions of one request that may run on a worker at one time, or have left a folder.
const SAME_MAX: usize = 64;

/// Where the folders of executions are.
pub(super) fn root(workspace: &Path) -> PathBuf {
    workspace.join("t")
}

/// The name of the folder of request `request_id`, which may be any text.
pub(super) fn name(request_id: &str) -> String {
    let kept = request_id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    let name: String = kept.take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "request".to_owned() } else { name }
}

/// Removes the folders that executions of an earlier process left behind: those whose names begin
/// with a UUID, as ids of requests are. What else is there may be somebody's own. Blocks.
///
/// # Errors
/// The system's.
pub(super) fn clear(workspace: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(root(workspace)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        let name = entry.file_name();
        let id = name.to_str().and_then(|name| name.get(..UUID_CHARS));
        let is_of_request = id.is_some_and(|id| id.parse::<Uuid>().is_ok());
        if is_of_request && entry.file_type()?.is_dir() {
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}

/// A folder that is removed, with all in it, when this is dropped. That blocks.
#[derive(Debug)]
pub(super) struct ScratchDir(pub(super) PathBuf);

impl ScratchDir {
    /// Makes a folder for request `request_id`. Blocks.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn make(workspace: &Path, request_id: &str) -> io::Result<Self> {
        let (folders, name) = (root(workspace), name(request_id));
        fs::create_dir_all(&folders)?;
        let mut path = folders.join(&name);
        for n in 1..SAME_MAX {
            match fs::create_dir(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    path = folders.join(format!("{name}-{n}"));
                }
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }
}

impl Drop for ScratchDir {
    fn drop(&mut self) {
        if let Err(error) = files::remove(&self.0) {
            tracing::warn!(folder = %self.0.display(), %error, "the folder of an execution stays");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_id_is_no_path() {
        for (request_id, want) in
            [("0a1b-2c", "0a1b-2c"), ("../../etc", "etc"), ("a/b", "ab"), ("", "request")]
        {
            assert_eq!(name(request_id), want);
        }
        assert_eq!(name(&"x".repeat(1000)).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn folders_of_executions_are_cleared_and_other_files_kept() {
        let workspace = tempfile::tempdir().unwrap();
        clear(workspace.path()).unwrap();
        let id = Uuid::new_v4();
        for (name, stays) in [
            (id.to_string(), false),
            (format!("{id}-17"), false),
            ("photos".to_owned(), true),
            ("0123456789-0123456789-0123456789-0123456789".to_owned(), true),
        ] {
            let folder = root(workspace.path()).join(name);
            fs::create_dir_all(folder.join("a")).unwrap();
            clear(workspace.path()).unwrap();
            assert_eq!(folder.exists(), stays, "{}", folder.display());
        }
    }

    #[test]
    fn executions_of_one_request_do_not_share_a_folder() {
        let workspace = tempfile::tempdir().unwrap();
        let first = ScratchDir::make(workspace.path(), "7").unwrap();
        let second = ScratchDir::make(workspace.path(), "7").unwrap();
        assert_ne!(first.0, second.0);
        fs::create_dir_all(first.0.join("a/b/c")).unwrap();
        let paths = [first.0.clone(), second.0.clone()];
        drop((first, second));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}
