//! Where state is stored on this machine: one folder for services run by hand, one for each local
//! stack.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use directories::ProjectDirs;
use task::{
    lock::{Lock, try_lock},
    private,
};

/// Local stacks that one user may run at once without naming a folder. Each has its own history; a
/// ninth is refused rather than filling the disk.
const STACKS_MAX: usize = 8;

/// The file whose lock marks the folder of a stack or a node as in use.
const LOCK_NAME: &str = "lock";

/// The file of accounts and API keys.
const ACCOUNTS_NAME: &str = "accounts.db";

/// A folder that holds the state of services.
#[derive(Debug, Clone)]
pub struct DataDir {
    folder: PathBuf,
}

/// A data folder that one local stack has for itself until this is dropped.
#[derive(Debug)]
pub struct StackClaim {
    /// The claimed folder.
    pub data_dir: DataDir,
    /// The system unlocks it when the process ends, however it ends.
    _lock: Lock,
}

/// Returns the program's folders on this platform.
///
/// # Errors
/// If the user has no home folder.
pub fn project_dirs() -> anyhow::Result<ProjectDirs> {
    ProjectDirs::from("", "", "triptych")
        .context("find the home folder: set HOME, or give --data-dir")
}

impl DataDir {
    /// Opens the folder of services run by hand, which is made if it is missing: `data_dir`, else the
    /// platform's folder for data.
    ///
    /// # Errors
    /// If neither is known, or the folder cannot be made.
    pub fn of_services(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        Self::create(services_folder(data_dir)?)
    }

    /// As [`Self::of_services`], where there are accounts already. Nothing is made.
    ///
    /// # Errors
    /// If there are none.
    pub fn with_accounts(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let data_dir = Self { folder: services_folder(data_dir)? };
        let path = data_dir.accounts();
        if !path.exists() {
            bail!(
                "find accounts in {}: name the services' folder with --data-dir, or begin with \
                 `triptych keys create NAME`",
                path.display()
            );
        }
        Ok(data_dir)
    }

    fn create(folder: PathBuf) -> anyhow::Result<Self> {
        private::create_folder(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// The folder itself.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of accounts and API keys.
    pub fn accounts(&self) -> PathBuf {
        self.folder.join(ACCOUNTS_NAME)
    }

    /// The file of the dataset service.
    pub fn datasets(&self) -> PathBuf {
        self.folder.join("datasets.db")
    }

    /// The file of the inference service.
    pub fn inference(&self) -> PathBuf {
        self.folder.join("inference.db")
    }

    /// The folder of the node called `name`.
    pub fn node(&self, name: &str) -> PathBuf {
        self.folder.join("nodes").join(name)
    }
}

impl StackClaim {
    /// Claims `data_dir` for a local stack; without one, the first of the user's stack folders that
    /// no running stack has.
    ///
    /// # Errors
    /// If the folder named, or every folder, is in use; or it cannot be made.
    pub fn acquire(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(folder) = data_dir {
            let shown = folder.display().to_string();
            return match Self::try_acquire(folder)? {
                Some(claim) => Ok(claim),
                None => bail!(
                    "use {shown}: another local stack runs there; stop it, or name another --data-dir"
                ),
            };
        }
        for folder in folders_of_stacks(project_dirs()?.data_local_dir()) {
            if let Some(claim) = Self::try_acquire(folder)? {
                return Ok(claim);
            }
        }
        bail!("start a local stack: {STACKS_MAX} run already; stop one, or name a --data-dir")
    }

    fn try_acquire(folder: PathBuf) -> anyhow::Result<Option<Self>> {
        let data_dir = DataDir::create(folder)?;
        Ok(lock_folder(&data_dir.folder)?.map(|lock| Self { data_dir, _lock: lock }))
    }
}

/// Returns every folder that a local stack may have had: `data_dir`, else those of the user.
pub(crate) fn stack_folders(data_dir: Option<&Path>) -> Vec<PathBuf> {
    if let Some(folder) = data_dir {
        return vec![folder.to_owned()];
    }
    let Ok(folders) = project_dirs() else { return Vec::new() };
    folders_of_stacks(folders.data_local_dir()).collect()
}

/// The folders that stacks of a user have, in `base`.
fn folders_of_stacks(base: &Path) -> impl Iterator<Item = PathBuf> {
    numbered("stack").take(STACKS_MAX).map(|name| base.join(name))
}

/// Names like `name`, itself first: `head`, `head-2`, `head-3`.
pub(crate) fn numbered(name: &str) -> impl Iterator<Item = String> {
    let others = (2..u32::MAX).map(move |number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(others)
}

/// Returns the folder of services run by hand, which may not be there: `data_dir`, else the platform's.
///
/// # Errors
/// If neither is known.
pub fn services_folder(data_dir: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match data_dir {
        Some(folder) => Ok(folder),
        None => Ok(project_dirs()?.data_local_dir().join("services")),
    }
}

/// Locks `folder` for this process until the lock is dropped. `None`: another process has it.
///
/// # Errors
/// If the folder cannot be written to.
pub fn lock_folder(folder: &Path) -> anyhow::Result<Option<Lock>> {
    let path = folder.join(LOCK_NAME);
    try_lock(&path).with_context(|| format!("lock {}", path.display()))
}

/// Returns whether a process holds the lock of `folder`.
pub(crate) fn is_locked(folder: &Path) -> bool {
    folder.is_dir() && lock_folder(folder).is_ok_and(|lock| lock.is_none())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use task::wait::until;

    use super::*;

    #[tokio::test]
    async fn a_folder_is_claimed_once_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let claim = StackClaim::acquire(Some(folder.path().to_owned())).unwrap();
        let error = StackClaim::acquire(Some(folder.path().to_owned())).unwrap_err().to_string();
        assert!(error.contains("--data-dir"), "{error}");
        drop(claim);
        // A process that another test starts holds the lock as well until it has become its program.
        let acquire = async || StackClaim::acquire(Some(folder.path().to_owned()));
        until(Duration::from_secs(10), acquire).await.unwrap();
    }
}
