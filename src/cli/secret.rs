//! API keys of profiles: in the environment, in the system's keyring, or in a file that its owner
//! alone can read, looked for in this order.
//!
//! Stored in the keyring where there is one, else in the file. The key is neither shown nor
//! logged anywhere.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::Duration,
};

use ::tui::profiles::{KeyPlace, NO_PROFILE};
use anyhow::{Context as _, bail};
use model::key::ApiKey;
use stack::data_dir::project_dirs;
use task::{
    file::{FileMode, write_atomic},
    private,
};

use crate::cli::{config, parse::read_optional};

/// What the keyring calls the program.
const SERVICE: &str = "triptych";

/// The environment variable that keeps the program away from the keyring, set to `off`.
const KEYRING_VARIABLE: &str = "TRIPTYCH_KEYRING";

/// The longest wait for the keyring, which may ask its owner to unlock it. One that says nothing
/// until then is as if it were not there.
const KEYRING_WITHIN: Duration = Duration::from_secs(30);

/// The keys of all profiles.
#[derive(Debug, Clone)]
pub(crate) struct Keys {
    /// The folder of the files.
    folder: PathBuf,
    /// Whether the keyring is used.
    keyring: Keyring,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keyring {
    System,
    Off,
}

/// A key, and where it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundKey {
    /// The key itself.
    pub(crate) key: ApiKey,
    /// Where it was.
    pub(crate) place: KeyPlace,
}

/// A key was kept.
#[derive(Debug)]
pub(crate) struct StoredKey {
    /// Where it is.
    pub(crate) place: KeyPlace,
    /// Why it is not in the keyring.
    pub(crate) note: Option<String>,
}

impl Keys {
    /// The keys of the user who runs the program.
    ///
    /// # Errors
    /// If the user has no home folder.
    pub(crate) fn of_user() -> anyhow::Result<Self> {
        let is_off = std::env::var_os(KEYRING_VARIABLE).is_some_and(|value| value == "off");
        let keyring = if is_off { Keyring::Off } else { Keyring::System };
        Ok(Self { folder: project_dirs()?.config_dir().join("keys"), keyring })
    }

    /// Returns the key of `profile`, if there is one anywhere. May wait for the keyring.
    ///
    /// # Errors
    /// If what is there is no key, or others can read the file.
    pub(crate) fn find(&self, profile: &str) -> anyhow::Result<Option<FoundKey>> {
        if let Some(key) = config::api_key()? {
            return Ok(Some(FoundKey { key, place: KeyPlace::Environment }));
        }
        if let Some(key) = self.in_keyring(profile)? {
            return Ok(Some(FoundKey { key, place: KeyPlace::Keyring }));
        }
        let key = self.in_file(profile)?;
        Ok(key.map(|key| FoundKey { key, place: KeyPlace::File }))
    }

    /// Keeps `key` for `profile`, in place of an older one. May wait for the keyring.
    ///
    /// # Errors
    /// If neither the keyring nor the file takes it.
    pub(crate) fn keep(&self, profile: &str, key: &ApiKey) -> anyhow::Result<StoredKey> {
        let path = self.path(profile)?;
        let secret = key.clone();
        let why = match self.ask(profile, move |entry| entry.set_password(secret.reveal())) {
            Ok(()) => {
                // An older key there would be a second secret for nothing.
                remove_file(&path)?;
                return Ok(StoredKey { place: KeyPlace::Keyring, note: None });
            }
            Err(_) if self.keyring == Keyring::Off => format!("{KEYRING_VARIABLE} is off"),
            Err(keyring::Error::NoDefaultStore) => "there is no keyring".to_owned(),
            Err(error) => format!("the keyring did not take it: {error}"),
        };
        write_private(&path, key.reveal())
            .with_context(|| format!("keep the key in {}", path.display()))?;
        Ok(StoredKey { place: KeyPlace::File, note: Some(why) })
    }

    /// Forgets the key of `profile` in the keyring and in the file; returns whether there was one.
    ///
    /// # Errors
    /// If one is there and stays.
    pub(crate) fn forget(&self, profile: &str) -> anyhow::Result<bool> {
        let was_in_file = remove_file(&self.path(profile)?)?;
        let was_in_keyring = match self.ask(profile, keyring::Entry::delete_credential) {
            Ok(()) => true,
            Err(error) if is_absent(&error) => false,
            Err(error) => return Err(error).context("take the key out of the keyring"),
        };
        Ok(was_in_file || was_in_keyring)
    }

    /// Does something with the keys on a thread that may wait.
    ///
    /// # Errors
    /// Those of `work`.
    pub(crate) async fn on_a_thread<T: Send + 'static>(
        &self,
        work: impl FnOnce(Self) -> anyhow::Result<T> + Send + 'static,
    ) -> anyhow::Result<T> {
        let keys = self.clone();
        tokio::task::spawn_blocking(move || work(keys)).await?
    }

    /// Asks the keyring for something about the key of `profile`. One that is off is as if it were
    /// not there.
    fn ask<T: Send + 'static>(
        &self,
        profile: &str,
        work: impl FnOnce(&keyring::Entry) -> keyring::Result<T> + Send + 'static,
    ) -> keyring::Result<T> {
        if self.keyring == Keyring::Off {
            return Err(keyring::Error::NoDefaultStore);
        }
        let profile = profile.to_owned();
        let work = move || keyring::Entry::new(SERVICE, &profile).and_then(|entry| work(&entry));
        let silent = || format!("it did not answer within {KEYRING_WITHIN:?}");
        let reply = within(KEYRING_WITHIN, work);
        reply.unwrap_or_else(|| Err(keyring::Error::PlatformFailure(silent().into())))
    }

    fn in_keyring(&self, profile: &str) -> anyhow::Result<Option<ApiKey>> {
        match self.ask(profile, keyring::Entry::get_password) {
            Ok(text) => text.parse().map(Some).context("use the key in the keyring"),
            Err(error) => {
                // Where the keyring fails the file is read; a key that is in neither is absent.
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
        key.map(Some).with_context(|| format!("use the key in {}", path.display()))
    }

    /// The file of a profile's key.
    fn path(&self, profile: &str) -> anyhow::Result<PathBuf> {
        let is_plain = |letter: char| letter.is_alphanumeric() || matches!(letter, '-' | '_' | '.');
        if profile.is_empty() || profile.starts_with('.') || !profile.chars().all(is_plain) {
            bail!("keep a key of profile `{profile}`: its name has to be of letters and digits");
        }
        Ok(self.folder.join(profile))
    }
}

/// Returns the key that this user shows to the services of `profile`, or of no profile: the one of
/// the environment, else the one that is kept. Safe to drop; a keyring that is asked goes on alone.
///
/// # Errors
/// As [`Keys::find`].
pub(crate) async fn key(profile: Option<&str>) -> anyhow::Result<Option<ApiKey>> {
    if let Some(key) = config::api_key()? {
        return Ok(Some(key));
    }
    // Without a home folder there is the environment alone.
    let Ok(keys) = Keys::of_user() else { return Ok(None) };
    let profile = profile.unwrap_or(NO_PROFILE).to_owned();
    Ok(keys.on_a_thread(move |keys| keys.find(&profile)).await?.map(|found| found.key))
}

/// Does `work`, and waits for it so long; none if it takes longer, and goes on alone.
fn within<T: Send + 'static>(
    wait: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (sender, receiver) = mpsc::sync_channel(1);
    let asking = thread::Builder::new().name("keyring".to_owned());
    // After a timeout nobody receives it.
    asking.spawn(move || drop(sender.send(work()))).ok()?;
    receiver.recv_timeout(wait).ok()
}

/// Whether an error of the keyring means that there is nothing of that name, or no keyring.
const fn is_absent(error: &keyring::Error) -> bool {
    matches!(error, keyring::Error::NoEntry | keyring::Error::NoDefaultStore)
}

/// Removes a file; returns whether there was one.
fn remove_file(path: &Path) -> anyhow::Result<bool> {
    match fs::remove_file(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error).with_context(|| format!("remove {}", path.display())),
    }
}

/// Writes a file that its owner alone can read, in a folder that is made if it is missing.
fn write_private(path: &Path, text: &str) -> io::Result<()> {
    if let Some(folder) = path.parent() {
        private::create_folder(folder)?;
    }
    write_atomic(path, format!("{text}\n").as_bytes(), FileMode::Private)
}

/// Refuses a file that others can read, where the system tells.
#[cfg_attr(not(unix), expect(unused_variables, clippy::unnecessary_wraps, reason = "it does not"))]
fn refuse_shared(path: &Path) -> anyhow::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = fs::metadata(path).with_context(|| format!("look at {}", path.display()))?;
        if mode.permissions().mode() & 0o077 != 0 {
            let path = path.display();
            bail!("use the key in {path}: others can read it; `chmod 600` it");
        }
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
    fn without_a_keyring_a_key_is_kept_in_a_file_of_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let keys = keys(folder.path());
        assert_eq!(keys.in_file("far").unwrap(), None);
        let kept = keys.keep("far", &key(1)).unwrap();
        assert_eq!(kept.place, KeyPlace::File);
        assert!(kept.note.unwrap().contains("is off"));
        keys.keep("far", &key(2)).unwrap();
        assert_eq!(keys.in_file("far").unwrap(), Some(key(2)));
        assert_eq!(keys.in_file("near").unwrap(), None);
        let names: Vec<_> = fs::read_dir(folder.path().join("keys"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name())
            .collect();
        assert_eq!(names, ["far"], "no draft is left");
        assert!(keys.forget("far").unwrap());
        assert!(!keys.forget("far").unwrap());
        assert_eq!(keys.in_file("far").unwrap(), None);
    }

    #[cfg(unix)]
    #[test]
    fn a_file_that_others_can_read_is_refused() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let keys = keys(folder.path());
        keys.keep("far", &key(1)).unwrap();
        let path = keys.path("far").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let error = keys.in_file("far").unwrap_err().to_string();
        assert!(error.contains("chmod 600") && !error.contains("UP-"), "{error}");
    }

    #[test]
    fn a_keyring_that_says_nothing_holds_nobody_up() {
        let (_hold, held) = mpsc::channel::<()>();
        assert_eq!(within(Duration::from_millis(1), move || held.recv().is_ok()), None);
        assert_eq!(within(Duration::from_mins(1), || 7), Some(7));
    }

    #[test]
    fn a_name_cannot_lead_out_of_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", "..", ".hidden", "a/b", "../a", "a b"] {
            assert!(keys(folder.path()).keep(name, &key(1)).is_err(), "{name}");
        }
    }
}
