//! API keys of profiles. A key is looked up in the environment, then in a file that only its owner can
//! read, then in the system's keyring.
//!
//! A key is stored in the keyring if there is one, otherwise in the file. Storing in the keyring removes
//! the file, so a key in the file is newer than the key in the keyring. Keys are neither shown nor
//! logged.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;
use std::{fs, io, thread};

use ::tui::profiles::{KeyPlace, NO_PROFILE};
use anyhow::{Context as _, bail};
use model::key::ApiKey;
use stack::data_dir::project_dirs;
use task::file::{FileMode, write_atomic};
use task::private;

use crate::cli::config;
use crate::cli::parse::read_optional;

/// Name under which the entries of this program are in the keyring.
const SERVICE: &str = "triptych";

/// Environment variable that disables the keyring if it is `off`.
const KEYRING_VARIABLE: &str = "TRIPTYCH_KEYRING";

/// Maximum time to wait for the keyring. It includes the time in which the user unlocks the keyring. A
/// keyring that does not respond in time counts as missing.
const KEYRING_WITHIN: Duration = Duration::from_secs(30);

/// Storage of the API keys of all profiles.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// Directory of the files with keys.
    folder: PathBuf,
    keyring: Keyring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyring {
    System,
    Off,
}

/// A key and its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundKey {
    pub(crate) key: ApiKey,
    pub(crate) place: KeyPlace,
}

/// Result of storing a key.
#[derive(Debug)]
pub(crate) struct StoredKey {
    /// Location of the key.
    pub(crate) place: KeyPlace,
    /// Reason why the key is not in the keyring, if it is in a file.
    pub(crate) note: Option<String>,
}

impl Keys {
    /// Returns the storage of the current user's keys.
    ///
    /// # Errors
    /// If the user has no home directory.
    pub(crate) fn of_user() -> anyhow::Result<Self> {
        let is_off = std::env::var_os(KEYRING_VARIABLE).is_some_and(|value| value == "off");
        let keyring = if is_off { Keyring::Off } else { Keyring::System };
        Ok(Self { folder: project_dirs()?.config_dir().join("keys"), keyring })
    }

    /// Returns the key of `profile`, if there is one. Blocks while the keyring is being unlocked.
    ///
    /// # Errors
    /// If the value found is not a key, or other users can read the file.
    pub(crate) fn find(&self, profile: &str) -> anyhow::Result<Option<FoundKey>> {
        if let Some(key) = config::api_key()? {
            return Ok(Some(FoundKey { key, place: KeyPlace::Environment }));
        }
        if let Some(key) = self.in_file(profile)? {
            return Ok(Some(FoundKey { key, place: KeyPlace::File }));
        }
        let key = self.in_keyring(profile)?;
        Ok(key.map(|key| FoundKey { key, place: KeyPlace::Keyring }))
    }

    /// Stores `key` for `profile`, replacing an older key. Blocks while the keyring is being unlocked.
    ///
    /// # Errors
    /// If the key can be stored neither in the keyring nor in a file.
    pub(crate) fn store(&self, profile: &str, key: &ApiKey) -> anyhow::Result<StoredKey> {
        let path = self.path(profile)?;
        let secret = key.clone();
        let why = match self.with_entry(profile, move |entry| entry.set_password(secret.reveal())) {
            Ok(()) => {
                // An older key in the file is removed, since it would be found first.
                remove_file(&path)?;
                return Ok(StoredKey { place: KeyPlace::Keyring, note: None });
            }
            Err(_) if self.keyring == Keyring::Off => format!("{KEYRING_VARIABLE} is off"),
            Err(keyring::Error::NoDefaultStore) => "there is no keyring".to_owned(),
            Err(error) => format!("the keyring failed: {error}"),
        };
        write_private(&path, key.reveal())
            .with_context(|| format!("cannot store the key in {}", path.display()))?;
        Ok(StoredKey { place: KeyPlace::File, note: Some(why) })
    }

    /// Removes the key of `profile` from the keyring and from its file. Returns true if either had the
    /// key.
    ///
    /// # Errors
    /// If a stored key cannot be removed.
    pub(crate) fn forget(&self, profile: &str) -> anyhow::Result<bool> {
        let was_in_file = remove_file(&self.path(profile)?)?;
        let was_in_keyring = match self.with_entry(profile, keyring::Entry::delete_credential) {
            Ok(()) => true,
            Err(error) if is_absent(&error) => false,
            Err(error) => return Err(error).context("cannot remove the key from the keyring"),
        };
        Ok(was_in_file || was_in_keyring)
    }

    /// Calls `work` with this storage on a blocking thread.
    ///
    /// # Errors
    /// If `work` fails.
    pub(crate) async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let keys = self.clone();
        tokio::task::spawn_blocking(move || work(keys)).await?
    }

    /// Calls `work` with the keyring's entry for `profile`. If the keyring is disabled, returns the
    /// same error as without a keyring.
    fn with_entry<T: Send + 'static>(
        &self,
        profile: &str,
        work: impl FnOnce(&keyring::Entry) -> keyring::Result<T> + Send + 'static,
    ) -> keyring::Result<T> {
        if self.keyring == Keyring::Off {
            return Err(keyring::Error::NoDefaultStore);
        }
        let profile = profile.to_owned();
        let work = move || keyring::Entry::new(SERVICE, &profile).and_then(|entry| work(&entry));
        let silent = || format!("no response within {KEYRING_WITHIN:?}");
        let result = within(KEYRING_WITHIN, work);
        result.unwrap_or_else(|| Err(keyring::Error::PlatformFailure(silent().into())))
    }

    fn in_keyring(&self, profile: &str) -> anyhow::Result<Option<ApiKey>> {
        match self.with_entry(profile, keyring::Entry::get_password) {
            Ok(text) => text.parse().map(Some).context("invalid key in the keyring"),
            Err(error) => {
                // A failure is only logged, since the key can still be in the file.
                if !is_absent(&error) {
                    tracing::warn!(%error, "cannot read the keyring");
                }
                Ok(None)
            }
        }
    }

    fn in_file(&self, profile: &str) -> anyhow::Result<Option<ApiKey>> {
        let path = self.path(profile)?;
        let Some(text) = read_optional(&path)? else { return Ok(None) };
        refuse_shared(&path)?;
        let key = text.trim().parse();
        key.map(Some).with_context(|| format!("invalid key in {}", path.display()))
    }

    /// Returns the path of the file for a profile's key.
    fn path(&self, profile: &str) -> anyhow::Result<PathBuf> {
        let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if profile.is_empty() || profile.starts_with('.') || !profile.chars().all(is_plain) {
            bail!(
                "the name of profile `{profile}` has characters other than letters, digits, `-`, `_` and `.`, or \
                 begins with `.`"
            );
        }
        Ok(self.folder.join(profile))
    }
}

/// Returns the key to send to the services of `profile`, or to services that no profile names: the key
/// in the environment, or else the stored key. Cancel-safe, although a request to the keyring continues
/// in the background.
///
/// # Errors
/// As [`Keys::find`].
pub(crate) async fn key(profile: Option<&str>) -> anyhow::Result<Option<ApiKey>> {
    if let Some(key) = config::api_key()? {
        return Ok(Some(key));
    }
    // Without a home directory no key can be stored.
    let Ok(keys) = Keys::of_user() else { return Ok(None) };
    let profile = profile.unwrap_or(NO_PROFILE).to_owned();
    Ok(keys.on_a_thread(move |keys| keys.find(&profile)).await?.map(|found| found.key))
}

/// Calls `work` on a new thread and returns its result. Returns `None` if that takes longer than
/// `wait`. The thread then continues.
fn within<T: Send + 'static>(
    wait: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let asking = thread::Builder::new().name("keyring".to_owned());
    // Sending fails if the caller has stopped waiting, and the result is then dropped.
    asking.spawn(move || drop(sender.send(work()))).ok()?;
    receiver.recv_timeout(wait).ok()
}

/// Returns true if `error` means that the keyring has no such entry, or that there is no keyring.
const fn is_absent(error: &keyring::Error) -> bool {
    matches!(error, keyring::Error::NoEntry | keyring::Error::NoDefaultStore)
}

/// Removes a file. Returns true if it existed.
fn remove_file(path: &Path) -> anyhow::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("cannot remove {}", path.display())),
    }
}

/// Writes a file that only its owner can read. Creates its directory if that is missing.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private::create_folder(folder)?;
    }
    write_atomic(path, format!("{text}\n").as_bytes(), FileMode::Private)
}

/// Returns an error if other users can read the file at `path`.
fn refuse_shared(path: &Path) -> anyhow::Result<()> {
    let metadata = fs::metadata(path).with_context(|| format!("cannot read {}", path.display()))?;
    if metadata.permissions().mode() & 0o077 != 0 {
        let path = path.display();
        bail!("other users can read the key in {path}\nhint: chmod 600 {path}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(folder: &Path) -> Keys {
        Keys { folder: folder.join("keys"), keyring: Keyring::Off }
    }

    fn key(digit: u8) -> ApiKey {
        ApiKey::from_random([digit; 12])
    }

    #[test]
    fn key_is_stored_in_a_file_without_a_keyring() {
        let folder = tempfile::tempdir().unwrap();
        let keys = keys(folder.path());
        assert_eq!(keys.in_file("far").unwrap(), None);
        let stored = keys.store("far", &key(1)).unwrap();
        assert_eq!(stored.place, KeyPlace::File);
        assert!(stored.note.unwrap().contains("is off"));
        keys.store("far", &key(2)).unwrap();
        assert_eq!(keys.in_file("far").unwrap(), Some(key(2)));
        assert_eq!(keys.in_file("near").unwrap(), None);
        let names: Vec<_> = fs::read_dir(folder.path().join("keys"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["far"], "no temporary file is left");
        assert!(keys.forget("far").unwrap());
        assert!(!keys.forget("far").unwrap());
        assert_eq!(keys.in_file("far").unwrap(), None);
    }

    #[test]
    fn file_that_others_can_read_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let keys = keys(folder.path());
        keys.store("far", &key(1)).unwrap();
        let path = keys.path("far").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = keys.in_file("far").unwrap_err().to_string();
        assert!(error.contains("chmod 600") && !error.contains("UP-"), "{error}");
    }

    #[test]
    fn unresponsive_keyring_times_out() {
        let (_hold, held) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(1), move || held.recv().is_ok()), None);
        assert_eq!(within(Duration::from_mins(1), || 7), Some(7));
    }

    #[test]
    fn profile_name_that_is_a_path_is_rejected() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "..", ".hidden", "a/b", "../a", "a b"] {
            assert!(keys(folder.path()).store(name, &key(1)).is_err(), "{name}");
        }
    }
}
