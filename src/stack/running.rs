//! The record of a running stack, from which other commands of the user learn its addresses and key. The
//! record is a file in the directory of the stack, and is valid while a process has locked this
//! directory. The record also shows that a stack is starting, so that other processes can wait for it.

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{env, fs};

use anyhow::Context as _;
use model::key::ApiKey;
use serde_json::{Value, json};
use task::file::{FileMode, write_atomic};
use task::wait;

use crate::data_dir::{is_locked, stack_folders};
use crate::local::Addresses;

/// Name of the file in the directory of the stack.
const FILE_NAME: &str = "running.json";

/// Environment variable with the path of the directory of a stack.
const FOLDER_VARIABLE: &str = "TRIPTYCH_DATA_DIR";

/// A local stack that another process runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunningStack {
    /// Directory of the stack.
    pub folder: PathBuf,
    /// Addresses of the stack with an API key, but without a token.
    pub addresses: Addresses,
}

/// Finds the stack in the directory that the environment variable names. Without the variable,
/// finds the first running stack of this user.
#[must_use]
pub fn find_running() -> Option<RunningStack> {
    let folder = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty());
    first_running(&stack_folders(folder.map(PathBuf::from).as_deref()))
}

/// Finds the first stack that another process runs, in `data_dir` or in the stack directories of
/// this user. Waits for a stack that is starting, at most for `within`.
pub(crate) async fn wait_for_running(
    data_dir: Option<&Path>,
    within: Duration,
) -> Option<RunningStack> {
    let folders = stack_folders(data_dir);
    let found = wait::until(within, || async {
        match first_running(&folders) {
            None if folders.iter().any(|folder| is_starting(folder)) => Err("a stack is starting"),
            running => Ok(running),
        }
    });
    found.await.ok().flatten()
}

fn first_running(folders: &[PathBuf]) -> Option<RunningStack> {
    folders
        .iter()
        .find_map(|folder| Some(RunningStack { folder: folder.clone(), addresses: read(folder)? }))
}

fn read_record(folder: &Path) -> Option<Value> {
    let text = fs::read_to_string(folder.join(FILE_NAME)).ok()?;
    serde_json::from_str(&text).ok()
}

fn is_starting(folder: &Path) -> bool {
    let record = read_record(folder);
    record.is_some_and(|record| record["is_starting"] == true) && is_locked(folder)
}

/// Returns the addresses of the stack in `folder` if it is running, with an API key, but without a token.
#[must_use]
pub fn read(folder: &Path) -> Option<Addresses> {
    let record = read_record(folder)?;
    let member = |name: &str| record[name].as_str().map(str::to_owned);
    let addresses = Addresses {
        heads: member("head").into_iter().collect(),
        datasets: member("datasets"),
        inference: member("inference"),
        api_key: Some(member("api_key")?.parse().ok()?),
        head_token: None,
    };
    // If a stack was killed, its record still exists, but its directory is not locked.
    is_locked(folder).then_some(addresses)
}

/// Writes the record of a stack that runs in `folder` at `addresses`.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write(folder: &Path, addresses: &Addresses) -> anyhow::Result<()> {
    let Addresses { heads, datasets, inference, api_key, .. } = addresses;
    let api_key = api_key.as_ref().map(ApiKey::reveal);
    let record = json!({"head": heads.first(), "datasets": datasets, "inference": inference, "api_key": api_key});
    write_record(folder, &record)
}

/// Writes the record of a stack that is starting in `folder`. Replaces an earlier record.
///
/// # Errors
/// If the file cannot be written.
pub(crate) fn write_starting(folder: &Path) -> anyhow::Result<()> {
    write_record(folder, &json!({"is_starting": true}))
}

fn write_record(folder: &Path, record: &Value) -> anyhow::Result<()> {
    let path = folder.join(FILE_NAME);
    let written = write_atomic(&path, format!("{record}\n").as_bytes(), FileMode::Private);
    written.with_context(|| format!("cannot write {}", path.display()))
}

/// Removes the record of the stack in `folder`.
pub(crate) fn remove(folder: &Path) {
    // Removing fails if there is no record, which is usually the case.
    drop(fs::remove_file(folder.join(FILE_NAME)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data_dir::StackClaim;

    #[tokio::test]
    async fn record_of_a_running_stack_is_valid_until_it_stops() {
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
        // Retry: a process that another test starts shares this lock between fork and exec.
        let is_over = || async { read(folder.path()).map_or(Ok(()), Err) };
        wait::until(Duration::from_secs(10), is_over).await.unwrap();
        remove(folder.path());
        assert!(!folder.path().join(FILE_NAME).exists());
    }

    #[tokio::test]
    async fn addresses_of_a_starting_stack_are_awaited() {
        let folder = tempfile::tempdir().unwrap();
        let _claim = StackClaim::acquire(Some(folder.path().to_owned())).unwrap();
        assert_eq!(wait_for_running(Some(folder.path()), Duration::ZERO).await, None, "no record");
        write_starting(folder.path()).unwrap();
        assert_eq!(wait_for_running(Some(folder.path()), Duration::ZERO).await, None, "too slow");
        let awaited = wait_for_running(Some(folder.path()), Duration::from_mins(1));
        let addresses = Addresses {
            heads: vec!["http://127.0.0.1:1".to_owned()],
            api_key: Some(ApiKey::from_random([7; 12])),
            ..Addresses::default()
        };
        let (found, written) = tokio::join!(awaited, async { write(folder.path(), &addresses) });
        written.unwrap();
        assert_eq!(found.map(|stack| stack.addresses), Some(addresses));
    }
}
