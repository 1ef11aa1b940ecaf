//! Folders with the files of functions, for guests and runtimes to read: `<workspace>/<id>`, as in b7s.

use std::{collections::BTreeSet, io, path::PathBuf};

use model::function::FunctionId;
use runtime::files;
use tokio::sync::Mutex;

use content::{Functions, FunctionsError};

/// The folders that this process has written. There are no more than functions that are folders.
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
            match files::remove(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                outcome => outcome.map_err(|source| FunctionsError::Files {
                    step: "remove",
                    path: path.clone(),
                    source,
                })?,
            }
            if !functions.write_to(id, path.clone()).await? {
                return Ok(None);
            }
            written.insert(id);
        }
        Ok(Some(path))
    }
}
