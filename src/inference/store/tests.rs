mod contract;

use std::path::Path;

use model::topic::Address;
use rusqlite::Connection;
use test_postgres::new_database;

use super::*;
use crate::math::pair_values::FullBundle;
use crate::math::sortition::Record;
use crate::network::close::{CloseContext, close};
use crate::network::epoch_end::closing;
use crate::network::submission::{Origin, Payload, Submitter, WorkerQuota};
use crate::network::topic::{Retention, demo_topics};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn at_two() -> EndOptions {
    EndOptions { at: at(2), date: at(2), retention: Retention::USUAL, known: None }
}

impl Store {
    fn put_topic(&self, topic: &Topic, known: Option<i64>) -> Result<(), StoreError> {
        self.put_topics([topic], known, Inputs::Keep)
    }

    /// Runs arbitrary `statements`.
    pub(crate) fn execute(&self, statements: &str) {
        let statements = statements.to_owned();
        self.write(move |session| session.run_batch(&statements)).unwrap();
    }
}

fn open() -> (tempfile::TempDir, Store, Topic) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("inference.sqlite").into()).unwrap();
    let topic = demo_topics().remove(0);
    store.put_topic(&topic, None).unwrap();
    (folder, store, topic)
}

/// Opens a store in the database at `url` and stores the topic of the tests in it.
pub(super) fn connect(url: &str) -> (Store, Topic) {
    let (store, topic) = (
        Store::open(&StorePlace::Database(url.parse().unwrap())).unwrap(),
        demo_topics().remove(0),
    );
    store.put_topic(&topic, None).unwrap();
    (store, topic)
}

/// Opens a file that was just in use.
fn reopen(path: &Path) -> Result<Store, StoreError> {
    Store::open(&path.to_owned().into())
}

fn submission(topic: &Topic, worker: &str, value: &str) -> Submission {
    let worker: Address = format!("allo1{worker}").parse().unwrap();
    let payload =
        Payload { values: vec![("y".to_owned(), value.to_owned())], ..Payload::default() };
    Submission::checked(topic, worker, Some("me".to_owned()), payload).unwrap()
}

/// Opens the epoch `nonce`, stores two submissions, and closes it.
fn epoch(store: &Store, topic: &Topic, nonce: BlockHeight) {
    epoch_of(store, topic, nonce, &[("a", "1.50"), ("b", "3")]);
}

fn epoch_of(store: &Store, topic: &Topic, nonce: BlockHeight, submissions: &[(&str, &str)]) {
    assert!(store.open_epoch(topic.id, nonce, 1, at(1)).unwrap());
    for (worker, value) in submissions {
        let submission = submission(topic, worker, value);
        let submitted = store.submit(topic.id, nonce, submission, Origin::NETWORK, at(1)).unwrap();
        assert_eq!(submitted, SubmitOutcome::Taken);
    }
    let settings = topic.clone();
    let closed = store.close(topic.id, nonce, at_two(), move |closable| {
        Some(closing(&settings, nonce, closable).unwrap())
    });
    assert!(closed.unwrap().is_some());
}

/// Learns from the epoch `nonce` with the ground truth 2.
fn learn(store: &Store, topic: &Topic, nonce: BlockHeight) -> bool {
    let settings = topic.clone();
    let teach = move |bundle: &FullBundle, learned: &Learned| {
        let mut learned = learned.clone();
        let losses = learned.learn(&settings, bundle, &[2.0]).unwrap();
        let truth = crate::network::topic::with_labels(&settings.labels, &[2.0]);
        Some(Lesson { truth, losses, learned })
    };
    store.learn(topic.id, nonce, at_two(), teach).unwrap().is_some()
}

#[test]
fn write_to_a_locked_file_fails_as_busy() {
    let (folder, store, topic) = open();
    store.execute("PRAGMA busy_timeout = 10");
    let other = Connection::open(folder.path().join("inference.sqlite")).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.put_topic(&topic, None).unwrap_err();
    assert!(error.is_busy(), "{error:?}");
    other.execute_batch("ROLLBACK").unwrap();
    store.put_topic(&topic, None).unwrap();
}

/// Defines a test for each engine from each function in [`contract`].
macro_rules! on_each_engine {
    ($($promise:ident),+ $(,)?) => {
        $(#[test]
        fn $promise() {
            let (_folder, store, topic) = open();
            contract::$promise(&store, &topic);
        })+

        mod behind_pgbouncer {
            $(#[test]
            fn $promise() {
                let Some(url) = test_postgres::new_pooled_database() else { return };
                let (store, topic) = super::connect(&url);
                super::contract::$promise(&store, &topic);
            })+
        }

        mod from_a_database {
            $(#[test]
            fn $promise() {
                let Some(url) = super::new_database() else { return };
                let (store, topic) = super::connect(&url);
                super::contract::$promise(&store, &topic);
            })+
        }
    };
}

on_each_engine! {
    topics_are_stored_exactly,
    learned_state_is_stored_exactly,
    loss_parameters_and_their_truths_are_stored_exactly,
    epochs_are_relearned_exactly,
    snapshot_of_a_thinned_epoch_is_not_used,
    truncated_regrets_are_rejected,
    epoch_closes_once_and_is_learned_once,
    epoch_of_a_deleted_topic_does_not_close,
    submissions_are_stored_exactly,
    expired_epochs_are_deleted_from_all_tables,
    submissions_of_newcomers_and_accounts_are_limited,
    inactive_submissions_are_not_stored_and_their_scores_move,
}

/// Returns the stored data of the topic, to be compared after a copy.
fn contents(store: &Store, topic: &Topic) -> (Vec<Topic>, Option<Blocks>, EpochProgress, String) {
    let topics = store.topics().unwrap();
    let (blocks, progress) = (store.blocks().unwrap(), store.progress(topic.id).unwrap());
    let learned = store.learned(topic.id, None).unwrap();
    (topics, blocks, progress, format!("{learned:?}"))
}

#[tokio::test]
async fn store_copied_to_postgres_and_back_continues_like_its_source() {
    use db::copy::{CopyError, CopyPlace, copy};
    let (folder, store, topic) = open();
    store.begin(Blocks { genesis: at(0), block_time: Duration::from_secs(1) }).unwrap();
    store.put_topic(&topic, None).unwrap();
    epoch(&store, &topic, 7);
    assert!(learn(&store, &topic, 7));
    epoch(&store, &topic, 8);
    let want = contents(&store, &topic);
    let copy_all = async |from: &CopyPlace, to: &CopyPlace| {
        copy(&Store::copied_tables(), from, to, &mut |_| std::ops::ControlFlow::Continue(())).await
    };
    let file = |name: &str| CopyPlace::File(folder.path().join(name));
    let Some(url) = new_database() else { return };
    let from = file("inference.sqlite");
    let there = CopyPlace::Database(url.parse().unwrap());
    let refused = copy_all(&from, &there).await;
    assert!(matches!(refused, Err(CopyError::Read(_))), "{refused:?}");
    drop(store);
    let back = file("back.sqlite");
    let n_rows = copy_all(&from, &there).await.unwrap();
    assert_eq!(copy_all(&there, &back).await.unwrap(), n_rows);
    for store in [Store::open(&StorePlace::Database(url.parse().unwrap())).unwrap(), {
        let CopyPlace::File(path) = &back else { panic!() };
        Store::open(&path.clone().into()).unwrap()
    }] {
        assert_eq!(contents(&store, &topic), want);
        // The next steps continue with the copied state.
        assert!(learn(&store, &topic, 8));
        epoch(&store, &topic, 9);
    }
    let refused = copy_all(&from, &there).await;
    assert!(matches!(refused, Err(CopyError::Differs { .. })), "{refused:?}");
}

#[test]
fn full_disk_fails_writes_until_there_is_space() {
    let (_folder, store, topic) = open();
    store.limit_pages(1);
    let refused = (1..10_000).find_map(|nonce| store.open_epoch(topic.id, nonce, 1, at(1)).err());
    assert!(matches!(refused, Some(StoreError::DiskFull)), "{refused:?}");
    let name = "x".repeat(90_000);
    let put = |nonce| {
        let id = TopicId::new(nonce).unwrap();
        store.put_topic(&Topic { name: name.clone(), id, ..topic.clone() }, None)
    };
    let put = &put;
    std::thread::scope(|scope| {
        let writers: Vec<_> = (2..10).map(|nonce| scope.spawn(move || put(nonce))).collect();
        for writer in writers {
            let refused = writer.join().unwrap();
            assert!(matches!(refused, Err(StoreError::DiskFull)), "{refused:?}");
        }
    });
    let mut is_closed = Err(StoreError::DiskFull);
    for nonce in 20_000..20_100 {
        is_closed = store.close(topic.id, nonce, at_two(), |_| None);
    }
    assert!(matches!(is_closed, Ok(None)), "no change needs no space: {is_closed:?}");
    store.limit_pages(1_000_000);
    store.check().unwrap();
    epoch(&store, &topic, 30_000);
}

#[tokio::test]
async fn store_locks_its_file_and_fails_after_the_file_is_replaced() {
    let (folder, store, topic) = open();
    let path = folder.path().join("inference.sqlite");
    epoch(&store, &topic, 1);
    assert!(matches!(Store::open(&path.clone().into()), Err(StoreError::InUse)));
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert!(matches!(store.put_topic(&topic, None), Err(StoreError::Replaced)));
    assert!(matches!(store.check(), Err(StoreError::Replaced)));
    assert!(matches!(store.topics(), Err(StoreError::Replaced)));
    let fresh = Store::open(&path.clone().into()).unwrap();
    fresh.put_topic(&topic, None).unwrap();
    epoch(&fresh, &topic, 7);
    drop(store);
    drop(fresh);
    let reopened = reopen(&path).unwrap();
    assert_eq!(reopened.progress(topic.id).unwrap().last_nonce, Some(7));
}

#[tokio::test]
async fn file_of_another_version_is_rejected() {
    let (folder, store, _) = open();
    store.execute("PRAGMA user_version = 99");
    drop(store);
    let error = reopen(&folder.path().join("inference.sqlite")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "inference file has format 99, expected 1; run the version that raised it, or restore the \
         backup made before"
    );
}

#[cfg(unix)]
#[test]
fn store_creates_its_file_and_directory_as_private() {
    use std::os::unix::fs::PermissionsExt as _;

    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("a folder");
    let _store = Store::open(&folder.join("inference.db").into()).unwrap();
    for (path, want) in [
        (folder.clone(), 0o700),
        (folder.join("inference.db"), 0o600),
        (folder.join("inference.db-wal"), 0o600),
    ] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, want, "{}", path.display());
    }
}

/// Creates a file of the first format, with three learned epochs, a closed epoch and an open epoch.
fn write_stored(path: &Path) {
    let stored = include_str!("../../../tests/data/inference/version-1.sql");
    Connection::open(path).unwrap().execute_batch(stored).unwrap();
}

#[test]
fn file_of_the_first_format_is_upgraded() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inference.sqlite");
    write_stored(&path);
    check_stored(&Store::open(&path.clone().into()).unwrap());
}

/// The stored tables have format 2, the oldest format of a database that can be upgraded, and the
/// content of the stored file. With `TRIPTYCH_WRITE_STORED_FILE=1`, the test replaces the stored tables
/// with tables in the current format.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_of_format_2_are_upgraded() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/inference/format_2.sql");
    if std::env::var_os("TRIPTYCH_WRITE_STORED_FILE").is_some_and(|value| value == "1") {
        use db::copy::{CopyPlace, copy};
        let Some(url) = new_database() else { return };
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("inference.sqlite");
        write_stored(&file);
        let to = CopyPlace::Database(url.parse().unwrap());
        let tables = Store::copied_tables();
        copy(&tables, &CopyPlace::File(file), &to, &mut |_| std::ops::ControlFlow::Continue(()))
            .await
            .unwrap();
        test_postgres::dump(&url, &path);
    }
    let Some(url) = test_postgres::stored_database(&path) else { return };
    check_stored(&Store::open(&StorePlace::Database(url.parse().unwrap())).unwrap());
}

fn check_stored(store: &Store) {
    let blocks = Blocks { genesis: at(1), block_time: Duration::from_secs(1) };
    assert_eq!(store.blocks().unwrap(), Some(blocks));
    assert_eq!(store.topics().unwrap(), crate::tests::test_topics());
    let topic = crate::tests::test_topics().remove(0);
    let progress = EpochProgress { last_nonce: Some(49), open: vec![49], unlearned: vec![37] };
    assert_eq!(store.progress(topic.id).unwrap(), progress);
    let input = Input { at: at(1), value: 1.5 };
    assert_eq!(store.input(topic.id, 25).unwrap(), Some(input));
    assert_eq!(store.submissions(topic.id, 49).unwrap(), [submission(&topic, "a", "0.1")]);
    let epochs = store.history(topic.id, 0..=BlockHeight::MAX, 10).unwrap();
    assert_eq!(epochs.iter().map(|epoch| epoch.nonce).collect::<Vec<_>>(), [1, 13, 25, 37]);
    let losses = store.losses_until(topic.id, 25, 10).unwrap();
    assert_eq!(losses.iter().map(|(nonce, _)| *nonce).collect::<Vec<_>>(), [25, 13, 1]);
    // The stored state must equal the state that is learned from the stored bundles.
    let mut learned = Learned::default();
    for nonce in [1, 13, 25] {
        let bundle = store.bundles(topic.id, Some(nonce)).unwrap().unwrap().bundle;
        learned.learn(&topic, &bundle, &[2.0]).unwrap();
    }
    // Records of these formats have no unit.
    learned.unit = None;
    assert_eq!(*store.learned(topic.id, None).unwrap().learned, learned);
    assert!(learn(store, &topic, 37));
}
