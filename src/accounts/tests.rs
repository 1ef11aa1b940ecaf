//! Tests of keys that several services with the same accounts use. Tests of behavior that both engines
//! guarantee run on both engines.

/// Runs each test on both engines.
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod in_a_file {
            use super::*;
            $(#[tokio::test]
            async fn $test() {
                super::$test(&Place::new_folder()).await;
            })*
        }

        mod behind_pgbouncer {
            use super::*;
            $(#[tokio::test]
            async fn $test() {
                let Some(url) = test_postgres::new_pooled_database() else { return };
                super::$test(&Place::Database(url)).await;
            })*
        }

        mod in_postgres {
            use super::*;
            $(#[tokio::test]
            async fn $test() {
                let Some(place) = Place::new_database() else { return };
                super::$test(&place).await;
            })*
        }
    };
}

pub(crate) mod postgres;
mod remote;
mod sessions;

use std::time::Duration;

use model::key::{ApiKey, KeyId};
use model::timestamp::Timestamp;
use rusqlite::Connection;
use tempfile::{TempDir, tempdir};
use wire::accounts::KeyLimits;

use super::*;

fn clock() -> Clock {
    Clock::manual(Timestamp::from_seconds(1_790_000_000))
}

async fn open(folder: &TempDir) -> Accounts {
    Accounts::open(folder.path().join("new/accounts.sqlite"), clock()).await.unwrap()
}

/// Location in which a test stores its accounts.
#[derive(Debug)]
pub(crate) enum Place {
    Folder(TempDir),
    Database(String),
}

impl Place {
    pub(crate) fn new_folder() -> Self {
        Self::Folder(tempdir().unwrap())
    }

    /// Returns a new database, or `None` if PostgreSQL is not installed.
    pub(crate) fn new_database() -> Option<Self> {
        test_postgres::new_database().map(Self::Database)
    }

    pub(crate) async fn open(&self) -> Accounts {
        self.open_at(clock()).await
    }

    async fn open_at(&self, clock: Clock) -> Accounts {
        match self {
            Self::Folder(folder) => {
                Accounts::open(folder.path().join("accounts.sqlite"), clock).await.unwrap()
            }
            Self::Database(url) => Accounts::connect(&url.parse().unwrap(), clock).await.unwrap(),
        }
    }
}

impl Accounts {
    /// Returns the id of `key`, or `None` if it is not valid.
    pub(crate) async fn verify(&self, key: &ApiKey) -> Result<Option<KeyId>, AccountsError> {
        Ok(self.check(KeyHash::from_key(key)).await?.map(|verified| verified.id))
    }
}

/// Advances the clock of tokio until cached keys must be checked again.
async fn wait_out_the_cache() {
    tokio::time::pause();
    tokio::time::advance(Duration::from_millis(100)).await;
    tokio::time::resume();
}

async fn only_created_keys_are_verified(place: &Place) {
    let accounts = place.open().await;
    let (id, key) = accounts.create_key("a client").await.unwrap();
    for _ in 0..3 {
        assert_eq!(accounts.verify(&key).await.unwrap(), Some(id));
    }
    assert_eq!(accounts.verify(&ApiKey::from_random([7; 12])).await.unwrap(), None);
}

#[cfg(unix)]
#[tokio::test]
async fn file_permissions_are_restricted_to_the_owner() {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    let folder = tempdir().unwrap();
    for _ in 0..2 {
        let accounts = open(&folder).await;
        accounts.create_key("a client").await.unwrap();
        for name in ["accounts.sqlite", "accounts.sqlite-wal"] {
            let path = folder.path().join("new").join(name);
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, 0o600, "{name}");
        }
        drop(accounts);
        let path = folder.path().join("new/accounts.sqlite");
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).unwrap();
    }
}

#[tokio::test]
async fn creating_a_key_fails_after_the_file_is_replaced() {
    let folder = tempdir().unwrap();
    let accounts = open(&folder).await;
    accounts.create_key("a client").await.unwrap();
    accounts.check_file().await.unwrap();
    std::fs::remove_dir_all(folder.path().join("new")).unwrap();
    for _ in 0..2 {
        let refused = accounts.create_key("another").await;
        assert!(matches!(refused, Err(AccountsError::Replaced)), "{refused:?}");
    }
    assert!(matches!(accounts.check_file().await, Err(AccountsError::Replaced)));
    open(&folder).await.create_key("a client of the new file").await.unwrap();
    drop(accounts);
    assert_eq!(open(&folder).await.list_keys(Scope::All).await.unwrap().len(), 1);
}

#[tokio::test]
async fn stored_file_contains_no_secret() {
    let folder = tempdir().unwrap();
    let (_, key) = open(&folder).await.create_key("a client").await.unwrap();
    let digits = key.reveal().trim_start_matches("UP-").as_bytes().to_vec();
    for file in std::fs::read_dir(folder.path().join("new")).unwrap() {
        let bytes = std::fs::read(file.unwrap().path()).unwrap();
        assert!(!bytes.windows(digits.len()).any(|window| window == digits));
    }
}

async fn created_and_revoked_keys_reach_other_processes(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    let (id, key) = here.create_key("a client").await.unwrap();
    assert_eq!(there.verify(&key).await.unwrap(), Some(id));
    assert!(here.revoke_key(Scope::All, id).await.unwrap());
    assert_eq!(here.verify(&key).await.unwrap(), None, "immediately in the revoking process");
    wait_out_the_cache().await;
    assert_eq!(there.verify(&key).await.unwrap(), None);
    assert!(!there.revoke_key(Scope::All, id).await.unwrap(), "it is revoked already");
}

async fn renewed_key_keeps_its_id_and_loses_its_secret(place: &Place) {
    let accounts = place.open().await;
    let (id, first) = accounts.renew_key("local").await.unwrap();
    let (other, _) = accounts.create_key("mine").await.unwrap();
    assert_eq!(accounts.verify(&first).await.unwrap(), Some(id));
    let (same, second) = accounts.renew_key("local").await.unwrap();
    assert_eq!(same, id);
    assert_eq!(accounts.verify(&first).await.unwrap(), None);
    assert_eq!(accounts.verify(&second).await.unwrap(), Some(id));
    assert!(accounts.revoke_key(Scope::All, id).await.unwrap());
    let (fresh, _) = accounts.renew_key("local").await.unwrap();
    assert_ne!(fresh, id, "a revoked key is not restored");
    let list = accounts.list_keys(Scope::All).await.unwrap();
    let revoked = |record: &KeyRecord| (record.id, record.revoked_at.is_some());
    let want = [(fresh, false), (other, false), (id, true)];
    assert_eq!(list.iter().map(revoked).collect::<Vec<_>>(), want);
    assert_eq!(list.first().unwrap().created_at, clock().now());
}

async fn key_names_are_validated(place: &Place) {
    let accounts = place.open().await;
    for name in ["", "two\nlines", &"x".repeat(NAME_CHARS_MAX + 1)] {
        assert!(matches!(accounts.create_key(name).await, Err(AccountsError::Name)), "{name}");
    }
    accounts.create_key(&"é".repeat(NAME_CHARS_MAX)).await.unwrap();
}

async fn accounts_can_be_opened_concurrently(place: &Place) {
    let opened = futures::future::join_all((0..8).map(|_| place.open())).await;
    for accounts in &opened {
        accounts.create_key("a client").await.unwrap();
    }
    assert_eq!(opened.first().unwrap().list_keys(Scope::All).await.unwrap().len(), 8);
}

#[tokio::test]
async fn file_of_another_version_is_rejected() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("accounts.sqlite");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = Accounts::open(&path, clock()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "accounts file has format 99, expected 2; run the version that raised it, or restore the \
         backup made before"
    );
}

/// Writes a file in format 2, with two keys, one of which is revoked.
fn write_version_2(path: &Path, key: &ApiKey) {
    let connection = Connection::open(path).unwrap();
    let tables = include_str!("../../tests/data/accounts/version-2.sql");
    connection.execute_batch(tables).unwrap();
    let gone = ApiKey::from_random([9; 12]);
    for (key, name, revoked_at) in [(key, "old", None), (&gone, "gone", Some(2_000_000))] {
        let hash = KeyHash::from_key(key);
        connection
            .execute(
                "INSERT INTO keys (hash, name, created_at, revoked_at) VALUES (?1, ?2, 1000000, ?3)",
                rusqlite::params![hash.to_bytes(), name, revoked_at],
            )
            .unwrap();
    }
}

#[tokio::test]
async fn keys_of_a_file_in_an_old_format_are_valid() {
    let place = Place::new_folder();
    let Place::Folder(folder) = &place else { return };
    let key = ApiKey::from_random([8; 12]);
    write_version_2(&folder.path().join("accounts.sqlite"), &key);
    check_stored_keys(&place, &key).await;
}

/// Checks that the accounts in `place` contain the keys of [`write_version_2`] and that the keys can be
/// changed.
pub(crate) async fn check_stored_keys(place: &Place, key: &ApiKey) {
    for _ in 0..2 {
        let accounts = place.open().await;
        assert_eq!(accounts.verify(key).await.unwrap(), Some(KeyId::new(1)));
        let gone = ApiKey::from_random([9; 12]);
        assert_eq!(accounts.verify(&gone).await.unwrap(), None);
        let list = accounts.list_keys(Scope::All).await.unwrap();
        let [gone, old] = list.as_slice() else { panic!("{list:?}") };
        assert_eq!((old.name.as_str(), &old.prefix, old.account), ("old", &None, None));
        assert_eq!(gone.revoked_at, Some(Timestamp::from_seconds(2)));
    }
    let accounts = place.open().await;
    let (next, _) = accounts.create_key("new").await.unwrap();
    assert_eq!(next, KeyId::new(3));
    let renewed = accounts.renew(Scope::All, KeyId::new(1)).await.unwrap().unwrap();
    assert_eq!(accounts.verify(key).await.unwrap(), None);
    assert_eq!(accounts.verify(&renewed).await.unwrap(), Some(KeyId::new(1)));
}

async fn record_shows_prefix_and_last_use(place: &Place) {
    let accounts = place.open().await;
    let (id, key) = accounts.create_key("a client").await.unwrap();
    accounts.run_maintenance().await.unwrap();
    let record = accounts.key(Scope::All, id).await.unwrap().unwrap();
    assert_eq!((record.prefix.as_deref(), record.used_at), (key.reveal().get(..7), None));
    accounts.verify(&key).await.unwrap();
    // Revoking a key clears the cache. The recent use of the other key must not be lost.
    let (other, _) = accounts.create_key("other").await.unwrap();
    accounts.revoke_key(Scope::All, other).await.unwrap();
    accounts.run_maintenance().await.unwrap();
    let record = accounts.key(Scope::All, id).await.unwrap().unwrap();
    assert_eq!(record.used_at, Some(clock().now()));
    assert_eq!(accounts.key(Scope::All, other).await.unwrap().unwrap().used_at, None);
}

async fn limits_reach_other_processes(place: &Place) {
    let (here, there) = (place.open().await, place.open().await);
    let (id, key) = here.create_key("a client").await.unwrap();
    let hash = KeyHash::from_key(&key);
    assert_eq!(there.check(hash).await.unwrap().unwrap().limits, KeyLimits::default());
    let limits = KeyLimits {
        rate: Some(u32::MAX),
        bytes_per_day: Some(u64::try_from(i64::MAX).unwrap()),
        ..KeyLimits::default()
    };
    assert!(here.set_limits(id, limits).await.unwrap());
    wait_out_the_cache().await;
    assert_eq!(there.check(hash).await.unwrap().unwrap().limits, limits);
    let too_much = KeyLimits { requests_per_day: Some(u64::MAX), ..limits };
    assert!(here.set_limits(id, too_much).await.is_err(), "the store's integers are smaller");
    assert_eq!(here.check(hash).await.unwrap().unwrap().limits, limits);
}

#[tokio::test]
async fn key_checks_do_not_wait_for_writers() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("accounts.sqlite");
    let accounts = Accounts::open(&path, clock()).await.unwrap();
    let (id, key) = accounts.create_key("a client").await.unwrap();
    let elsewhere = Connection::open(&path).unwrap();
    elsewhere.execute_batch("BEGIN IMMEDIATE").unwrap();
    let waiting = accounts.create_key("waits");
    tokio::pin!(waiting);
    let mut look = std::future::poll_fn(|context| {
        std::task::Poll::Ready(waiting.as_mut().poll(context).is_ready())
    });
    assert!(!(&mut look).await, "the file is taken");
    assert_eq!(accounts.verify(&key).await.unwrap(), Some(id));
    assert_eq!(accounts.verify(&ApiKey::from_random([7; 12])).await.unwrap(), None);
    elsewhere.execute_batch("COMMIT").unwrap();
    waiting.await.unwrap();
}

/// Returns the contents of the accounts file and its write-ahead log.
fn read_files(folder: &Path) -> Vec<Vec<u8>> {
    let names = ["accounts.sqlite", "accounts.sqlite-wal"];
    names.iter().map(|name| std::fs::read(folder.join(name)).unwrap()).collect()
}

#[tokio::test]
async fn reopening_writes_nothing_and_does_not_wait_for_writers() {
    let folder = tempdir().unwrap();
    let first = open(&folder).await;
    let (id, key) = first.create_key("a client").await.unwrap();
    let before = read_files(&folder.path().join("new"));
    let elsewhere = Connection::open(folder.path().join("new/accounts.sqlite")).unwrap();
    elsewhere.execute_batch("BEGIN IMMEDIATE").unwrap();
    let second = open(&folder).await;
    assert_eq!(second.verify(&key).await.unwrap(), Some(id));
    elsewhere.execute_batch("ROLLBACK").unwrap();
    assert_eq!(read_files(&folder.path().join("new")), before);
}

on_both! {
    only_created_keys_are_verified,
    created_and_revoked_keys_reach_other_processes,
    renewed_key_keeps_its_id_and_loses_its_secret,
    key_names_are_validated,
    accounts_can_be_opened_concurrently,
    record_shows_prefix_and_last_use,
    limits_reach_other_processes,
}

#[tokio::test]
async fn copying_to_a_database_and_back_preserves_accounts() {
    use db::copy::{CopyError, CopyPlace, copy};
    let folder = tempdir().unwrap();
    let file = |name: &str| folder.path().join(name);
    let Some(url) = test_postgres::new_database() else { return };
    let places = [
        CopyPlace::File(file("from.sqlite")),
        CopyPlace::Database(url.parse().unwrap()),
        CopyPlace::File(file("back.sqlite")),
    ];
    let open = async |place: &CopyPlace| match place {
        CopyPlace::File(path) => Accounts::open(path, clock()).await.unwrap(),
        CopyPlace::Database(url) => Accounts::connect(url, clock()).await.unwrap(),
    };
    let source = open(&places[0]).await;
    let (revoked, gone) = source.create_key("revoked").await.unwrap();
    let (id, key) = source.create_key("used").await.unwrap();
    assert!(source.revoke_key(Scope::All, revoked).await.unwrap());
    source.set_sign_up(SignUp::Closed).await.unwrap();
    let mut on_progress = |_: db::copy::CopyProgress<'_>| std::ops::ControlFlow::Continue(());
    for pair in places.windows(2) {
        let [from, to] = pair else { continue };
        let tables = Accounts::copied_tables();
        for _ in 0..2 {
            copy(&tables, from, to, &mut on_progress).await.unwrap();
        }
    }
    for place in &places {
        let accounts = open(place).await;
        assert_eq!(accounts.verify(&key).await.unwrap(), Some(id));
        assert_eq!(accounts.verify(&gone).await.unwrap(), None);
        assert_eq!(accounts.sign_up().await.unwrap(), SignUp::Closed);
        let (next, _) = accounts.create_key("next").await.unwrap();
        assert_eq!(next, KeyId::new(3), "a number after those of the source");
    }
    let other = CopyPlace::File(file("other.sqlite"));
    open(&other).await.create_key("other").await.unwrap();
    let refused = copy(&Accounts::copied_tables(), &other, &places[1], &mut on_progress).await;
    assert!(matches!(refused, Err(CopyError::Differs { .. })), "{refused:?}");
}
