//! Where the local stack of a user answers, and its key, for the user's other commands: a file in the
//! folder of the stack, which holds as long as a process has locked the folder.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use model::key::ApiKey;
use serde_json::{Value, json};
use task::file::{FileMode, write_atomic};

use super::{Ready, child::is_held};
use crate::cli::{config::Profile, output, place::Claim};

/// Shown below the help of `env`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  eval \"$(triptych env)\"                            sets HEAD, DATASETS, INFERENCE and KEY
  curl -H \"X-API-Key: $KEY\" $DATASETS/datasets/

The commands of this program find the stack by themselves. One with a --data-dir of its own is found
where TRIPTYCH_DATA_DIR names that folder. Exit codes: 0 all is well; 1 no local stack runs.";

/// The file in the stack's folder.
const FILE_NAME: &str = "running.json";

/// The environment variable that names the folder of the stack.
const FOLDER_VARIABLE: &str = "TRIPTYCH_DATA_DIR";

/// A local stack that runs.
#[derive(Debug, Clone)]
pub(crate) struct RunningStack {
    /// Where its services are.
    pub(crate) profile: Profile,
    /// The key of both services.
    pub(crate) api_key: ApiKey,
}

impl RunningStack {
    /// The stack in the folder that the environment names, else the first one of this user that
    /// runs; none if none does.
    pub(crate) fn find() -> Option<Self> {
        let folder = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
        let folders = Claim::folders(folder.map(PathBuf::from).as_deref());
        folders.iter().find_map(|folder| Self::read(folder))
    }

    fn read(folder: &Path) -> Option<Self> {
        let text = fs::read_to_string(folder.join(FILE_NAME)).ok()?;
        let record: Value = serde_json::from_str(&text).ok()?;
        let member = |name: &str| record[name].as_str().map(str::to_owned);
        let found = Self {
            profile: Profile {
                head: member("head"),
                datasets: member("datasets"),
                inference: member("inference"),
            },
            api_key: member("api_key")?.parse().ok()?,
        };
        // A stack that was killed leaves its file behind.
        is_held(folder).then_some(found)
    }
}

/// Prints where the running stack answers, and its key, as assignments that a shell reads.
///
/// # Errors
/// If none runs.
pub(crate) fn print() -> anyhow::Result<()> {
    let stack = RunningStack::find()
        .context("find a local stack that runs: start one with `triptych up` or `triptych`")?;
    let Profile { head, datasets, inference } = stack.profile;
    let key = Some(stack.api_key.reveal().to_owned());
    let variables =
        [("HEAD", head), ("DATASETS", datasets), ("INFERENCE", inference), ("KEY", key)];
    // No value has a quote: addresses are of this program's own making.
    let lines = variables.map(|(name, value)| format!("{name}='{}'", value.unwrap_or_default()));
    output::print(&lines.join("\n"))
}

/// Writes down where the stack in `folder` answers.
///
/// # Errors
/// If the file cannot be written.
pub(super) fn write(folder: &Path, ready: &Ready) -> anyhow::Result<()> {
    let Ready { head, datasets, inference, api_key, .. } = ready;
    let record = json!({
        "head": head, "datasets": datasets, "inference": inference, "api_key": api_key.reveal(),
    });
    let path = folder.join(FILE_NAME);
    let written = write_atomic(&path, format!("{record}\n").as_bytes(), FileMode::Private);
    written.with_context(|| format!("write {}", path.display()))
}

/// Removes what an earlier stack in `folder` wrote.
pub(super) fn remove(folder: &Path) {
    // Most often there is none.
    drop(fs::remove_file(folder.join(FILE_NAME)));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use task::wait;

    use super::*;

    #[tokio::test]
    async fn a_record_holds_as_long_as_its_stack_runs() {
        let folder = tempfile::tempdir().unwrap();
        let claim = Claim::stack(Some(folder.path().to_owned())).unwrap();
        let ready = Ready {
            head: "http://127.0.0.1:1".to_owned(),
            datasets: "http://127.0.0.1:2/api".to_owned(),
            inference: "http://127.0.0.1:3".to_owned(),
            api_key: ApiKey::from_random([7; 12]),
            nodes: Vec::new(),
            functions: Vec::new(),
            processes: Vec::new(),
        };
        write(folder.path(), &ready).unwrap();
        let found = RunningStack::read(folder.path()).unwrap();
        assert_eq!(found.profile.head.as_deref(), Some("http://127.0.0.1:1"));
        assert_eq!(found.api_key, ready.api_key);
        drop(claim);
        // A process that another test starts has the lock, too, until it runs its program.
        let is_over = || async { RunningStack::read(folder.path()).map_or(Ok(()), Err) };
        wait::until(Duration::from_secs(10), is_over).await.unwrap();
        remove(folder.path());
        assert!(!folder.path().join(FILE_NAME).exists());
    }
}
