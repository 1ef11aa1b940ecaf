//! Folders with the files of functions, for guests and runtimes to read: `<workspace>/<id>`, as in b7s.

use std::{collections::BTreeSet, io, path::PathBuf};

use model::function::FunctionId;
use runtime::files;
use tokio::sync::Mutex;

use content::{Functions, FunctionsError};

/// The folders that this process has written. Those of functions that were evicted are removed when the
/// next one is written.
#[derive(Debug)]
pub(super) struct FunctionDirs {
    workspace: PathBuf,
    written: Mutex<BTreeSet<FunctionId>>,
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
    ) -> Result<Option<PathBuf>, FunctionsError> {
        let path = self.workspace.join(id.to_string());
        let mut written = self.written.lock().await;
        if !written.contains(&id) || !path.is_dir() {
            let evicted = written.extract_if(.., |id| functions.get(*id).is_none());
            for id in evicted.collect::<Vec<_>>() {
                remove(self.workspace.join(id.to_string()))?;
            }
            remove(path.clone())?;
            if !functions.write_to(id, path.clone()).await? {
                return Ok(None);
            }
            written.insert(id);
        }
        Ok(Some(path))
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
    async fn files_of_an_evicted_function_are_removed_with_the_next_one() {
        let dir = tempfile::tempdir().unwrap();
        let functions = Functions::open(dir.path().join("functions")).await.unwrap();
        let dirs = FunctionDirs::new(dir.path().join("workspace"));
        let mut written = Vec::new();
        for name in ["one", "two"] {
            let path = dir.path().join(name);
            std::fs::create_dir_all(&path).unwrap();
            std::fs::write(path.join("m.wasm"), b"\0asm\x01\0\0\0").unwrap();
            std::fs::write(path.join("data"), name).unwrap();
            let Upload { car, .. } = Functions::pack_path(&path).await.unwrap();
            let id = functions.add_car(NameHints::default(), car).await.unwrap().id;
            written.push(dirs.get(&functions, id).await.unwrap().unwrap());
            functions.remove(id).await.unwrap();
        }
        assert!(!written[0].exists() && written[1].exists());
    }
}
