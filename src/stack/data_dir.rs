//! Directories for state on this machine: one for services that are started by hand, and one for
//! each local stack.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use directories::ProjectDirs;
use task::lock::{Lock, try_lock};
use task::private;

/// Maximum number of local stacks of a user that run in default directories at the same time. Each
/// directory stores the history of a stack, so more directories could fill the disk.
const STACKS_MAX: usize = 8;

/// Name of the lock file in the directory of a stack or node. The file is locked while the directory is
/// in use.
const LOCK_NAME: &str = "lock";

/// Name of the file of accounts and API keys.
const ACCOUNTS_NAME: &str = "accounts.db";

/// A directory in which services store their state.
#[derive(Debug, Clone)]
pub struct DataDir {
    folder: PathBuf,
}

/// A data directory that belongs to a local stack until this value is dropped.
#[derive(Debug)]
pub struct StackClaim {
    /// Directory that this process has claimed.
    pub data_dir: DataDir,
    /// Lock of the directory. The system releases the lock if the process is killed.
    _lock: Lock,
}

/// Returns the standard directories for this program on this platform.
///
/// # Errors
/// If the user has no home directory.
pub fn project_dirs() -> anyhow::Result<ProjectDirs> {
    ProjectDirs::from("", "", "triptych")
        .context("home directory is unknown: set HOME, or pass --data-dir")
}

impl DataDir {
    /// Opens `data_dir`. If it is `None`, opens the default directory for services that are
    /// started by hand. Creates the directory if it is missing.
    ///
    /// # Errors
    /// If the default directory is unknown, or the directory cannot be created.
    pub fn of_services(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        Self::create(Self::locate(data_dir)?.folder)
    }

    /// Returns the same directory as [`Self::of_services`], which might not exist. Creates nothing.
    ///
    /// # Errors
    /// If the default directory is unknown.
    pub fn locate(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let folder = match data_dir {
            Some(folder) => folder,
            None => project_dirs()?.data_local_dir().join("services"),
        };
        Ok(Self { folder })
    }

    /// Returns the default directories that contain a dataset store: of services that are started by
    /// hand, and of local stacks. Creates nothing.
    ///
    /// # Errors
    /// If the default directory is unknown, or one of the directories cannot be read.
    pub fn with_datasets() -> anyhow::Result<Vec<Self>> {
        let stacks = stack_folders(None).into_iter().map(|folder| Self { folder });
        let mut found = Vec::new();
        for data_dir in [Self::locate(None)?].into_iter().chain(stacks) {
            let path = data_dir.datasets();
            if path.try_exists().with_context(|| format!("cannot read {}", path.display()))? {
                found.push(data_dir);
            }
        }
        Ok(found)
    }

    /// Opens the same directory as [`Self::of_services`] if it already contains accounts. Creates
    /// nothing.
    ///
    /// # Errors
    /// If the directory contains no accounts.
    pub fn with_accounts(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let data_dir = Self::locate(data_dir)?;
        let path = data_dir.accounts();
        let is_present =
            path.try_exists().with_context(|| format!("cannot read {}", path.display()));
        if !is_present? {
            bail!(
                "{} does not exist\nhint: pass the directory of the services with --data-dir, or start \
                 with `triptych keys create NAME`",
                path.display()
            );
        }
        Ok(data_dir)
    }

    fn create(folder: PathBuf) -> anyhow::Result<Self> {
        private::create_folder(&folder)
            .with_context(|| format!("cannot create {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// Returns the path of the directory.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the path of the file with accounts and API keys.
    pub fn accounts(&self) -> PathBuf {
        self.folder.join(ACCOUNTS_NAME)
    }

    /// Returns the path of the dataset service's store.
    pub fn datasets(&self) -> PathBuf {
        self.folder.join("datasets.db")
    }

    /// Returns the path of the inference service's store.
    pub fn inference(&self) -> PathBuf {
        self.folder.join("inference.db")
    }

    /// Returns the path of the directory of the node `name`.
    pub fn node(&self, name: &str) -> PathBuf {
        self.folder.join("nodes").join(name)
    }
}

impl StackClaim {
    /// Claims `data_dir`. If it is `None`, claims the first of the user's stack directories that
    /// no running stack has claimed.
    ///
    /// # Errors
    /// If `data_dir`, or each of the user's stack directories, is in use, or if the directory
    /// cannot be created.
    pub fn acquire(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(folder) = data_dir {
            let shown = folder.display().to_string();
            return match Self::try_acquire(folder)? {
                Some(claim) => Ok(claim),
                None => bail!(
                    "{shown} is used by another local stack: stop it, or pass another --data-dir"
                ),
            };
        }
        for folder in folders_of_stacks(project_dirs()?.data_local_dir()) {
            if let Some(claim) = Self::try_acquire(folder)? {
                return Ok(claim);
            }
        }
        bail!("{STACKS_MAX} local stacks are already running: stop one, or pass a --data-dir")
    }

    fn try_acquire(folder: PathBuf) -> anyhow::Result<Option<Self>> {
        let data_dir = DataDir::create(folder)?;
        Ok(lock_folder(&data_dir.folder)?.map(|lock| Self { data_dir, _lock: lock }))
    }
}

/// Returns the directories in which a local stack can run: `data_dir` if it is given, otherwise
/// all stack directories of the user.
pub(crate) fn stack_folders(data_dir: Option<&Path>) -> Vec<PathBuf> {
    if let Some(folder) = data_dir {
        return vec![folder.to_owned()];
    }
    let Ok(folders) = project_dirs() else { return Vec::new() };
    folders_of_stacks(folders.data_local_dir()).collect()
}

/// Returns the paths of all stack directories in `base`, the user's data directory.
fn folders_of_stacks(base: &Path) -> impl Iterator<Item = PathBuf> {
    numbered("stack").take(STACKS_MAX).map(|name| base.join(name))
}

/// Returns `name`, followed by `name` with numbers from 2 on: `head`, `head-2`, `head-3`.
pub(crate) fn numbered(name: &str) -> impl Iterator<Item = String> {
    let others = (2..u32::MAX).map(move |number| format!("{name}-{number}"));
    std::iter::once(name.to_owned()).chain(others)
}

/// Locks `folder` until the returned lock is dropped. Returns `None` if another process holds the
/// lock.
///
/// # Errors
/// If `folder` is not writable.
pub fn lock_folder(folder: &Path) -> anyhow::Result<Option<Lock>> {
    let path = folder.join(LOCK_NAME);
    try_lock(&path).with_context(|| format!("cannot lock {}", path.display()))
}

/// Returns true if a process has locked `folder`.
pub(crate) fn is_locked(folder: &Path) -> bool {
    folder.is_dir() && lock_folder(folder).is_ok_and(|lock| lock.is_none())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use task::wait::until;

    use super::*;

    #[tokio::test]
    async fn data_directory_can_be_claimed_by_one_stack_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let claim = StackClaim::acquire(Some(folder.path().to_owned())).unwrap();
        let error = StackClaim::acquire(Some(folder.path().to_owned())).unwrap_err().to_string();
        assert!(error.contains("--data-dir"), "{error}");
        drop(claim);
        // Retry: a process that another test starts shares this lock between fork and exec.
        let acquire = async || StackClaim::acquire(Some(folder.path().to_owned()));
        until(Duration::from_secs(10), acquire).await.unwrap();
    }
}
