//! Folders with the files of functions, for guests and runtimes to read: `<workspace>/<id>`, as in b7s.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use model::function::FunctionId;
use runtime::files;
use tokio::sync::Mutex;

use content::{Functions, FunctionsError};

/// The folders that this process has written. Those of functions that were evicted are removed when the
/// next one is written, unless a run still uses them.
#[derive(Debug)]
pub(super) struct FunctionDirs {
    workspace: PathBuf,
    /// Each with its uses, this one included.
    written: Mutex<BTreeMap<FunctionId, Arc<()>>>,
}

/// A folder that stays as long as this is held.
#[derive(Debug)]
pub(super) struct FunctionDir {
    path: PathBuf,
    _in_use: Arc<()>,
}

impl FunctionDir {
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl FunctionDirs {
    /// Makes folders in `workspace`, an absolute path.
    pub(super) fn new(workspace: PathBuf) -> Self {
        Self { workspace, written: Mutex::default() }
    }

    /// Returns the folder with the files of function `id`, written on its first call. None if the
    /// function is not in `functions` any more.
    ///
    /// # Errors
    /// [`FunctionsError::Files`] if the files cannot be read or written.
    pub(super) async fn get(
        &self,
        functions: &Functions,
        id: FunctionId,
    ) -> Result<Option<FunctionDir>, FunctionsError> {
        let path = self.workspace.join(id.to_string());
        let mut written = self.written.lock().await;
        if !written.contains_key(&id) || !path.is_dir() {
            let evicted = written.extract_if(.., |id, uses| {
                functions.get(*id).is_none() && Arc::strong_count(uses) == 1
            });
            for (id, _) in evicted.collect::<Vec<_>>() {
                remove(self.workspace.join(id.to_string()))?;
            }
            remove(path.clone())?;
            if !functions.write_to(id, path.clone()).await? {
                return Ok(None);
            }
        }
        let in_use = Arc::clone(written.entry(id).or_default());
        Ok(Some(FunctionDir { path, _in_use: in_use }))
    }
}

fn remove(path: PathBuf) -> Result<(), FunctionsError> {
    match files::remove(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome.map_err(|source| FunctionsError::Files { step: "remove", path, source }),
    }
}

#[cfg(test)]
mod tests {
    use content::{NameHints, Upload};

    use super::*;

    #[tokio::test]
    async fn files_of_an_evicted_function_are_removed_with_the_next_one_unless_in_use() {
        let dir = tempfile::tempdir().unwrap();
        let functions = Functions::open(dir.path().join("functions")).await.unwrap();
        let dirs = FunctionDirs::new(dir.path().join("workspace"));
        let (mut written, mut held) = (Vec::new(), None);
        for name in ["one", "two", "three"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("m.wasm"), b"\0asm\x01\0\0\0").unwrap();
            std::fs::write(path.join("data"), name).unwrap();
            let Upload { car, .. } = Functions::pack_path(&path).await.unwrap();
            let id = functions.add_car(NameHints::default(), car).await.unwrap().id;
            let in_use = dirs.get(&functions, id).await.unwrap().unwrap();
            written.push(in_use.path().to_owned());
            held = (name == "two").then_some(in_use).or(held);
            functions.remove(id).await.unwrap();
        }
        let exist: Vec<bool> = written.iter().map(|path| path.exists()).collect();
        assert_eq!(exist, [false, true, true]);
        drop(held);
    }
}
