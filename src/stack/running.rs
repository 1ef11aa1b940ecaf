//! Where the local stack of a user answers, and its key, for the user's other commands: a file in the
//! folder of the stack, valid as long as a process has locked the folder.

use std::{
    env, fs,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use model::key::ApiKey;
use serde_json::{Value, json};
use task::file::{FileMode, write_atomic};

use crate::{
    data_dir::{is_locked, stack_folders},
    local::Addresses,
};

/// The file in the stack's folder.
const FILE_NAME: &str = "running.json";

/// The environment variable that names the folder of the stack.
const FOLDER_VARIABLE: &str = "TRIPTYCH_DATA_DIR";

/// Finds the stack in the folder that the environment names, else the first one of this user that
/// runs; `None` if none does. Its addresses come with a key, and without a token.
#[must_use]
pub fn find_running() -> Option<Addresses> {
    let folder = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    stack_folders(folder.map(PathBuf::from).as_deref()).iter().find_map(|folder| read(folder))
}

fn read(folder: &Path) -> Option<Addresses> {
    let text = fs::read_to_string(folder.join(FILE_NAME)).ok()?;
    let record: Value = serde_json::from_str(&text).ok()?;
    let member = |name: &str| record[name].as_str().map(str::to_owned);
    let addresses = Addresses {
        heads: member("head").into_iter().collect(),
        datasets: member("datasets"),
        inference: member("inference"),
        api_key: Some(member("api_key")?.parse().ok()?),
        head_token: None,
    };
    // A stack that was killed leaves its file behind.
    is_locked(folder).then_some(addresses)
}

/// Records where the stack in `folder` answers.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(folder: &Path, addresses: &Addresses) -> anyhow::Result<()> {
    let Addresses { heads, datasets, inference, api_key, .. } = addresses;
    let api_key = api_key.as_ref().map(ApiKey::reveal);
    let record = json!({"head": heads.first(), "datasets": datasets, "inference": inference, "api_key": api_key});
    let path = folder.join(FILE_NAME);
    let written = write_atomic(&path, format!("{record}\n").as_bytes(), FileMode::Private);
    written.with_context(|| format!("write {}", path.display()))
}

/// Removes the record of an earlier stack in `folder`.
pub(crate) fn remove(folder: &Path) {
    // Most often there is none.
    drop(fs::remove_file(folder.join(FILE_NAME)));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use task::wait;

    use super::*;
    use crate::data_dir::StackClaim;

    #[tokio::test]
    async fn a_record_is_valid_as_long_as_its_stack_runs() {
        let folder = tempfile::tempdir().unwrap();
        let claim = StackClaim::acquire(Some(folder.path().to_owned())).unwrap();
        let addresses = Addresses {
            heads: vec!["http://127.0.0.1:1".to_owned()],
            datasets: Some("http://127.0.0.1:2/api".to_owned()),
            inference: Some("http://127.0.0.1:3".to_owned()),
            api_key: Some(ApiKey::from_random([7; 12])),
            head_token: None,
        };
        write(folder.path(), &addresses).unwrap();
        assert_eq!(read(folder.path()), Some(addresses));
        drop(claim);
        // A process that another test starts has the lock, too, until it runs its program.
        let is_over = || async { read(folder.path()).map_or(Ok(()), Err) };
        wait::until(Duration::from_secs(10), is_over).await.unwrap();
        remove(folder.path());
        assert!(!folder.path().join(FILE_NAME).exists());
    }
}
