//! Directories in a worker's workspace: directories of executions, and directories with the files of
//! functions.

use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::{fs, io};

use content::{Functions, FunctionsError};
use model::function::FunctionId;
use parking_lot::Mutex;
use runtime::files;
use task::file::UNFINISHED_PREFIX;
use task::private::create_folder;
use tokio::task::spawn_blocking;
use uuid::Uuid;

/// Maximum length of a directory name that is derived from a request id.
const NAME_CHARS_MAX: usize = 64;

/// Returns the directory that contains the directories of executions.
pub(super) fn root(workspace: &Path) -> PathBuf {
    workspace.join("t")
}

/// Returns the directory name for request `request_id`, which can be any text.
pub(super) fn name(request_id: &str) -> String {
    let kept = request_id.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-');
    let name: String = kept.take(NAME_CHARS_MAX).collect();
    if name.is_empty() { "request".to_owned() } else { name }
}

/// Returns the directory that contains the directories of functions.
fn functions_root(workspace: &Path) -> PathBuf {
    workspace.join("f")
}

/// Removes the directories that an earlier process left behind. The names of directories of executions
/// begin with a UUID, as request ids do. Other directories might belong to someone else. Blocks.
///
/// # Errors
/// Returns the error of the file system.
pub(super) fn clear(workspace: &Path) -> io::Result<()> {
    for root in [root(workspace), functions_root(workspace)] {
        let entries = match fs::read_dir(root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_str().unwrap_or_default();
            // Length of a UUID.
            let is_of_request = name.get(..36).is_some_and(|id| id.parse::<Uuid>().is_ok());
            let is_of_function =
                name.parse::<FunctionId>().is_ok() || name.starts_with(UNFINISHED_PREFIX);
            if (is_of_request || is_of_function) && entry.file_type()?.is_dir() {
                files::remove(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// A directory that is removed with its content when this is dropped. Dropping it blocks.
#[derive(Debug)]
pub(super) struct ScratchDir(pub(super) PathBuf);

impl ScratchDir {
    /// Creates a directory for request `request_id`, which other users cannot read. Blocks.
    ///
    /// # Errors
    /// Returns the error of the file system.
    pub(super) fn make(workspace: &Path, request_id: &str) -> io::Result<Self> {
        let (folders, name) = (root(workspace), name(request_id));
        create_folder(&folders)?;
        let mut path = folders.join(&name);
        // Other executions of the same request might be running, or have left a directory behind.
        for n in 1..64 {
            match fs::DirBuilder::new().mode(0o700).create(&path) {
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
            tracing::warn!(folder = %self.0.display(), %error, "cannot remove the directory of an execution");
        }
    }
}

/// Directories that this process has written. Directories of evicted functions are removed when the
/// next directory is written, unless a run still uses them.
#[derive(Debug)]
pub(super) struct FunctionDirs {
    root: PathBuf,
    /// Written directories, by function. The reference count of a directory is higher while a run uses
    /// it, and its lock is held while it is written.
    written: Mutex<BTreeMap<FunctionId, Arc<Writing>>>,
}

type Writing = tokio::sync::Mutex<()>;

/// A directory that is kept while this is held.
#[derive(Debug)]
pub(super) struct FunctionDir {
    pub(super) path: PathBuf,
    _in_use: Arc<Writing>,
}

impl FunctionDirs {
    /// Creates a set of directories in `workspace`, which must be an absolute path and was
    /// [cleared](clear).
    pub(super) fn new(workspace: &Path) -> Self {
        Self { root: functions_root(workspace), written: Mutex::default() }
    }

    /// Returns the directory with the files of function `id`, which is written on the first call, or
    /// `None` if the function is not in `functions` any more.
    ///
    /// # Errors
    /// Returns [`FunctionsError::Files`] if the files cannot be read or written.
    pub(super) async fn get(
        &self,
        functions: &Functions,
        id: FunctionId,
    ) -> Result<Option<FunctionDir>, FunctionsError> {
        let path = self.root.join(id.to_string());
        let in_use = Arc::clone(self.written.lock().entry(id).or_default());
        let writing = in_use.lock().await;
        if !path.is_dir() {
            self.remove_evicted(functions).await;
            if !functions.write_to(id, path.clone()).await? {
                return Ok(None);
            }
        }
        drop(writing);
        Ok(Some(FunctionDir { path, _in_use: in_use }))
    }

    async fn remove_evicted(&self, functions: &Functions) {
        let is_evicted = |id: &FunctionId, uses: &mut Arc<Writing>| {
            functions.get(*id).is_none() && Arc::strong_count(uses) == 1
        };
        let mut removed = Vec::new();
        for (id, _) in self.written.lock().extract_if(.., is_evicted) {
            // The directory is renamed first, since the function might be stored and written again.
            let to = self.root.join(Uuid::new_v4().to_string());
            removed.extend(fs::rename(self.root.join(id.to_string()), &to).is_ok().then_some(to));
        }
        let removing =
            spawn_blocking(move || removed.iter().try_for_each(|path| files::remove(path)));
        if let Ok(Err(error)) = removing.await {
            tracing::warn!(%error, "cannot remove the files of an evicted function");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn request_id_is_shortened_to_a_valid_directory_name() {
        for (request_id, want) in
            [("0a1b-2c", "0a1b-2c"), ("../../etc", "etc"), ("a/b", "ab"), ("", "request")]
        {
            assert_eq!(name(request_id), want);
        }
        assert_eq!(name(&"x".repeat(1000)).len(), NAME_CHARS_MAX);
    }

    #[test]
    fn only_directories_of_executions_are_removed_at_start() {
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
    fn executions_of_one_request_do_not_share_a_directory() {
        let workspace = tempfile::tempdir().unwrap();
        let first = ScratchDir::make(workspace.path(), "7").unwrap();
        let second = ScratchDir::make(workspace.path(), "7").unwrap();
        assert_ne!(first.0, second.0);
        let mode = fs::metadata(&second.0).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o700);
        fs::create_dir_all(first.0.join("a/b/c")).unwrap();
        let paths = [first.0.clone(), second.0.clone()];
        drop((first, second));
        assert!(paths.iter().all(|path| !path.exists()));
    }
}

#[cfg(test)]
mod function_dir_tests {
    use content::{NameHints, Upload};

    use super::*;

    #[tokio::test]
    async fn writing_files_of_a_function_removes_files_of_evicted_functions() {
        let dir = tempfile::tempdir().unwrap();
        let functions = Functions::open(dir.path().join("functions")).await.unwrap();
        let dirs = FunctionDirs::new(&dir.path().join("workspace"));
        let (mut written, mut held) = (Vec::new(), None);
        for name in ["one", "two", "three"] {
            let path = dir.path().join(name);
            fs::create_dir_all(&path).unwrap();
            fs::write(path.join("m.wasm"), b"\0asm\x01\0\0\0").unwrap();
            fs::write(path.join("data"), name).unwrap();
            let Upload { car, .. } = Functions::pack_path(&path).await.unwrap();
            let id = functions.add_car(NameHints::default(), car).await.unwrap().id;
            let in_use = dirs.get(&functions, id).await.unwrap().unwrap();
            written.push(in_use.path.clone());
            held = (name == "two").then_some(in_use).or(held);
            functions.remove(id).await.unwrap();
        }
        let exist: Vec<bool> = written.iter().map(|path| path.exists()).collect();
        assert_eq!(exist, [false, true, true]);
        drop(held);
        clear(&dir.path().join("workspace")).unwrap();
        assert!(!written.iter().any(|path| path.exists()));
    }

    /// A run that is canceled while its files are written does not stop the thread that writes them.
    #[tokio::test]
    async fn files_of_a_function_are_complete_after_a_canceled_run() {
        let dir = tempfile::tempdir().unwrap();
        let functions = Functions::open(dir.path().join("functions")).await.unwrap();
        let path = dir.path().join("one");
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("m.wasm"), b"\0asm\x01\0\0\0").unwrap();
        (0..500).for_each(|n| fs::write(path.join(n.to_string()), "data").unwrap());
        let Upload { car, .. } = Functions::pack_path(&path).await.unwrap();
        let id = functions.add_car(NameHints::default(), car).await.unwrap().id;
        functions.content(id).await.unwrap();
        let workspace = dir.path().join("workspace");
        let dirs = FunctionDirs::new(&workspace);
        let has_begun = || {
            let written = fs::read_dir(functions_root(&workspace));
            written.is_ok_and(|mut entries| entries.next().is_some())
        };
        let mut first = Box::pin(dirs.get(&functions, id));
        while futures::poll!(first.as_mut()).is_pending() && !has_begun() {
            tokio::task::yield_now().await;
        }
        drop(first);
        let second = dirs.get(&functions, id).await.unwrap().unwrap();
        assert_eq!(fs::read_dir(&second.path).unwrap().count(), 501);
    }
}
