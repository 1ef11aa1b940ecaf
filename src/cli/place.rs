//! Where state lives on this machine: one folder for services run by hand, one for each local stack.

use std::{
    fs::File,
    path::{Path, PathBuf},
};

use accounts::Accounts;
use anyhow::{Context as _, bail};
use task::{clock::Clock, lock::try_lock, private};

use crate::cli::config::folders;

/// Local stacks that one user may run at once without naming a folder. Each has its own history; a
/// ninth is refused rather than filling the disk.
const STACKS_MAX: usize = 8;

/// The file whose lock says that a stack or a node uses a folder.
const LOCK_NAME: &str = "lock";

/// The file of accounts and API keys.
const ACCOUNTS_NAME: &str = "accounts.db";

/// A folder that holds the state of services.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    folder: PathBuf,
}

/// A folder that one local stack has for itself until this is dropped.
#[derive(Debug)]
pub(crate) struct Claim {
    /// The folder.
    pub(crate) place: Place,
    /// Locked. The system unlocks it when the process ends, however it ends.
    _lock: File,
}

impl Place {
    /// The folder of services run by hand: `data_dir`, else the platform's folder for data.
    ///
    /// # Errors
    /// If neither is known, or the folder cannot be made.
    pub(crate) fn services(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        Self::at(services_folder(data_dir)?)
    }

    /// The same where there are accounts already. Nothing is made.
    ///
    /// # Errors
    /// If there are none.
    pub(crate) fn of_accounts(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let place = Self { folder: services_folder(data_dir)? };
        let path = place.folder.join(ACCOUNTS_NAME);
        if !path.exists() {
            bail!(
                "find accounts in {}: name the services' folder with --data-dir, or begin with \
                 `triptych keys create NAME`",
                path.display()
            );
        }
        Ok(place)
    }

    fn at(folder: PathBuf) -> anyhow::Result<Self> {
        private::create_folder(&folder).with_context(|| format!("make {}", folder.display()))?;
        Ok(Self { folder })
    }

    /// The folder itself.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Opens the file of accounts and API keys.
    ///
    /// # Errors
    /// If it cannot be opened: with its name.
    pub(crate) async fn accounts(&self, clock: Clock) -> anyhow::Result<Accounts> {
        let path = self.folder.join(ACCOUNTS_NAME);
        let opened = Accounts::open(&path, clock).await;
        opened.with_context(|| format!("open the accounts in {}", path.display()))
    }

    /// The file of the dataset service.
    pub(crate) fn datasets(&self) -> PathBuf {
        self.folder.join("datasets.db")
    }

    /// The file of the inference service.
    pub(crate) fn inference(&self) -> PathBuf {
        self.folder.join("inference.db")
    }

    /// The folder of the node called `name`.
    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.folder.join("nodes").join(name)
    }
}

impl Claim {
    /// Claims `data_dir` for a local stack; without one, the first of the user's stack folders that
    /// no running stack has.
    ///
    /// # Errors
    /// If the folder named, or every folder, is in use; or it cannot be made.
    pub(crate) fn stack(data_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        if let Some(folder) = data_dir {
            let shown = folder.display().to_string();
            return match Self::try_at(folder)? {
                Some(claim) => Ok(claim),
                None => bail!(
                    "use {shown}: another local stack runs there; stop it, or name another --data-dir"
                ),
            };
        }
        let base = folders()?.data_local_dir().to_owned();
        for number in 1..=STACKS_MAX {
            if let Some(claim) = Self::try_at(base.join(stack_name(number)))? {
                return Ok(claim);
            }
        }
        bail!("start a local stack: {STACKS_MAX} run already; stop one, or name a --data-dir")
    }

    /// Every folder that a local stack may have had: `data_dir`, else those of the user's.
    pub(crate) fn folders(data_dir: Option<&Path>) -> Vec<PathBuf> {
        if let Some(folder) = data_dir {
            return vec![folder.to_owned()];
        }
        let Ok(folders) = folders() else { return Vec::new() };
        (1..=STACKS_MAX).map(|number| folders.data_local_dir().join(stack_name(number))).collect()
    }

    fn try_at(folder: PathBuf) -> anyhow::Result<Option<Self>> {
        let place = Place::at(folder)?;
        Ok(locked(&place.folder)?.map(|lock| Self { place, _lock: lock }))
    }
}

fn stack_name(number: usize) -> String {
    if number == 1 { "stack".to_owned() } else { format!("stack-{number}") }
}

fn services_folder(data_dir: Option<PathBuf>) -> anyhow::Result<PathBuf> {
    match data_dir {
        Some(folder) => Ok(folder),
        None => Ok(folders()?.data_local_dir().join("services")),
    }
}

/// Locks `folder` for this process until the answer is dropped. None: another process has it.
///
/// # Errors
/// If the folder cannot be written to.
pub(crate) fn locked(folder: &Path) -> anyhow::Result<Option<File>> {
    let path = folder.join(LOCK_NAME);
    try_lock(&path).with_context(|| format!("lock {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_claimed_once_at_a_time() {
        let folder = tempfile::tempdir().unwrap();
        let claim = Claim::stack(Some(folder.path().to_owned())).unwrap();
        let error = Claim::stack(Some(folder.path().to_owned())).unwrap_err().to_string();
        assert!(error.contains("--data-dir"), "{error}");
        drop(claim);
        Claim::stack(Some(folder.path().to_owned())).unwrap();
    }
}
