use std::future::ready;

use db::connection::retry_while_busy;
use model::topic::Address;
use rusqlite::Connection;

use super::*;
use crate::{
    math::{pair_values::FullBundle, sortition::Record},
    network::{
        close::{CloseContext, close},
        epoch_end::closing,
        retention::Retention,
        submission::{Origin, Payload, Submitter, WorkerQuota},
        topic::demo_topics,
    },
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn at_two() -> EndOptions {
    EndOptions { at: at(2), retention: Retention::USUAL, known: None }
}

impl Store {
    /// Runs `statements`, whatever they do to the file.
    pub(crate) fn execute(&self, statements: &str) {
        let statements = statements.to_owned();
        self.write(move |session| session.run_batch(&statements)).unwrap();
    }
}

fn open() -> (tempfile::TempDir, Store, Topic) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("inference.sqlite")).unwrap();
    (folder, store, demo_topics().remove(0))
}

/// Opens a file that was in use just now: its writing thread closes it after the store is dropped, and
/// until then opening it is refused as busy.
async fn reopen(path: &Path) -> Result<Store, StoreError> {
    retry_while_busy(|| ready(Store::open(path)), StoreError::is_busy).await
}

fn submission(topic: &Topic, worker: &str, value: &str) -> Submission {
    let worker: Address = format!("allo1{worker}").parse().unwrap();
    let payload =
        Payload { values: vec![("y".to_owned(), value.to_owned())], ..Payload::default() };
    Submission::checked(topic, worker, Some("me".to_owned()), payload).unwrap()
}

/// Opens and closes the epoch `nonce` with two submissions.
fn epoch(store: &Store, topic: &Topic, nonce: BlockHeight) {
    epoch_of(store, topic, nonce, &[("a", "1.50"), ("b", "3")]);
}

fn epoch_of(store: &Store, topic: &Topic, nonce: BlockHeight, submissions: &[(&str, &str)]) {
    assert!(store.open_epoch(topic.id, nonce, at(1)).unwrap());
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

/// Learns from the epoch `nonce` that 2 came true.
fn learn(store: &Store, topic: &Topic, nonce: BlockHeight) -> bool {
    let settings = topic.clone();
    let teach = move |bundle: &FullBundle, learned: &Learned| {
        let mut learned = learned.clone();
        let losses = learned.learn(&settings, bundle, &[2.0]).unwrap();
        let truth = crate::network::submission::with_labels(&settings.labels, &[2.0]);
        Some(Lesson { truth, losses, learned })
    };
    store.learn(topic.id, nonce, at_two(), teach).unwrap().is_some()
}

#[test]
fn topics_read_back_as_they_were() {
    let (_folder, store, _) = open();
    for topic in demo_topics() {
        store.put_topic(&topic).unwrap();
    }
    assert_eq!(store.topics().unwrap(), demo_topics());
}

#[test]
fn what_was_learned_reads_back_as_it_was() {
    let (_folder, store, topic) = open();
    let mut learned = Learned::default();
    for nonce in [1, 13, 25] {
        epoch(&store, &topic, nonce);
        let bundle = store.bundles(topic.id, None).unwrap().unwrap().bundle;
        learned.learn(&topic, &bundle, &[2.0]).unwrap();
        assert!(learn(&store, &topic, nonce));
    }
    assert_eq!(*store.learned(topic.id, None).unwrap().learned, learned);
    assert!(!learned.regrets.one_in_forecaster.by_row().is_empty(), "forecasters took part");
}

#[test]
fn epochs_replayed_from_what_is_kept_come_out_the_same() {
    let (_folder, store, topic) = open();
    let nonces: Vec<BlockHeight> = (0..14).map(|idx| 1 + 12 * idx).collect();
    for nonce in &nonces {
        // Who comes late, and one that stays away now and then.
        let submissions = if nonce % 5 == 0 {
            [("a", "1.75"), ("c", "2.5"), ("d", "900")]
        } else {
            [("a", "1.50"), ("b", "3"), ("c", "2.25")]
        };
        epoch_of(&store, &topic, *nonce, &submissions);
        assert!(learn(&store, &topic, *nonce));
    }
    let (mut learned, mut baseline) = (Learned::default(), None);
    for nonce in nonces {
        let submissions = store.submissions(topic.id, nonce).unwrap();
        let close_context = CloseContext { labels: &topic.labels, learned: &learned, baseline };
        let closing = close(&topic, nonce, &submissions, close_context).unwrap();
        let kept = store.bundles(topic.id, Some(nonce)).unwrap().unwrap();
        assert_eq!((&closing.bundle, &closing.resistant), (&kept.bundle, &kept.resistant));
        learned.learn(&topic, &closing.bundle, &[2.0]).unwrap();
        baseline = closing.baseline;
    }
    assert_eq!(*store.learned(topic.id, None).unwrap().learned, learned);
}

#[test]
fn a_full_disk_is_told_to_all_who_write_and_goes_by() {
    let (_folder, store, topic) = open();
    store.limit_pages(1);
    let refused = (1..10_000).find_map(|nonce| store.open_epoch(topic.id, nonce, at(1)).err());
    assert!(matches!(refused, Some(StoreError::DiskFull)), "{refused:?}");
    let name = "x".repeat(90_000);
    let put = |nonce| {
        let id = TopicId::new(nonce).unwrap();
        store.put_topic(&Topic { name: name.clone(), id, ..topic.clone() })
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
    assert!(matches!(is_closed, Ok(None)), "it changes nothing, and needs no space: {is_closed:?}");
    store.limit_pages(1_000_000);
    store.check().unwrap();
    epoch(&store, &topic, 30_000);
}

#[tokio::test]
async fn a_file_is_opened_once_at_a_time_and_not_used_after_it_is_replaced() {
    let (folder, store, topic) = open();
    let path = folder.path().join("inference.sqlite");
    epoch(&store, &topic, 1);
    assert!(matches!(Store::open(&path), Err(StoreError::InUse)));
    std::fs::remove_dir_all(folder.path()).unwrap();
    assert!(matches!(store.put_topic(&topic), Err(StoreError::Replaced)));
    assert!(matches!(store.check(), Err(StoreError::Replaced)));
    assert!(matches!(store.topics(), Err(StoreError::Replaced)));
    let fresh = Store::open(&path).unwrap();
    epoch(&fresh, &topic, 7);
    drop(store);
    drop(fresh);
    let reopened = reopen(&path).await.unwrap();
    assert_eq!(reopened.progress(topic.id).unwrap().last_nonce, Some(7));
}

#[test]
fn regrets_cut_short_are_refused() {
    let (_folder, store, topic) = open();
    epoch(&store, &topic, 1);
    assert!(learn(&store, &topic, 1));
    let cut = "UPDATE learned SET regrets = substr(regrets, 1, length(regrets) - 1)";
    store.execute(cut);
    assert!(matches!(store.learned(topic.id, None), Err(StoreError::Word { .. })));
}

#[test]
fn an_epoch_closes_once_and_is_learned_from_once() {
    let (_folder, store, topic) = open();
    epoch(&store, &topic, 1);
    assert!(!store.open_epoch(topic.id, 1, at(5)).unwrap());
    let again = store.close(topic.id, 1, at_two(), |_| panic!("it is closed")).unwrap();
    assert!(again.is_none());
    let late = submission(&topic, "c", "4");
    let late = store.submit(topic.id, 1, late, Origin::NETWORK, at(5)).unwrap();
    assert_eq!(late, SubmitOutcome::NotOpen);
    assert!(learn(&store, &topic, 1));
    assert!(!learn(&store, &topic, 1));
    assert_eq!(store.learned(topic.id, None).unwrap().learned.n_learned, 1);
}

#[test]
fn submissions_keep_their_numbers_and_names() {
    let (_folder, store, topic) = open();
    epoch(&store, &topic, 1);
    let kept = store.submissions(topic.id, 1).unwrap();
    assert_eq!(kept, [submission(&topic, "a", "1.50"), submission(&topic, "b", "3")]);
    let newest = store.bundles(topic.id, None).unwrap().unwrap();
    let names = store.names(topic.id, 1).unwrap();
    assert_eq!(names[&newest.bundle.inferer_values[0].worker], "me");
    assert_eq!(newest.shares.inferer.values().copied().collect::<Vec<_>>(), [0.5, 0.5]);
}

#[test]
fn old_epochs_go_with_all_that_belongs_to_them() {
    let (_folder, store, topic) = open();
    epoch(&store, &topic, 1);
    let newest = u64::from(EPOCHS_KEPT) + 1;
    let insert = move |session: &Session<'_>| {
        for nonce in 2..newest {
            let sql = "INSERT INTO epochs (topic_id, nonce, state, opened_at) VALUES (1, ?1, 2, 0)";
            session.run(sql, [number(nonce)])?;
        }
        let counted = "UPDATE holdings SET n_epochs = n_epochs + ?1 WHERE topic_id = 1";
        session.run(counted, [number(newest - 2)])
    };
    store.write(insert).unwrap();
    assert_eq!(store.history(topic.id, 0..=BlockHeight::MAX, 10).unwrap().len(), 1);
    epoch(&store, &topic, newest);
    let history = store.history(topic.id, 0..=BlockHeight::MAX, 10).unwrap();
    assert_eq!(history.iter().map(|epoch| epoch.nonce).collect::<Vec<_>>(), [newest]);
    assert_eq!(store.submissions(topic.id, 1).unwrap(), []);
}

#[tokio::test]
async fn a_file_of_another_version_is_refused() {
    let (folder, store, _) = open();
    store.execute("PRAGMA user_version = 99");
    drop(store);
    let error = reopen(&folder.path().join("inference.sqlite")).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "read the inference file of version 99: this program reads version 1; run the version that \
         wrote it, or move its folder away to start with an empty one"
    );
}

#[cfg(unix)]
#[test]
fn the_file_and_its_folder_are_their_owners_alone() {
    use std::os::unix::fs::PermissionsExt as _;

    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("a folder");
    let _store = Store::open(&folder.join("inference.db")).unwrap();
    for (path, want) in [
        (folder.clone(), 0o700),
        (folder.join("inference.db"), 0o600),
        (folder.join("inference.db-wal"), 0o600),
    ] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, want, "{}", path.display());
    }
}

/// Submits as `worker` of an account, of which three workers are taken.
fn submit_as(
    store: &Store,
    topic: &Topic,
    account: i64,
    record: Record,
    worker: &str,
) -> SubmitOutcome {
    let submitter = Submitter::Account(account);
    let origin = Origin { submitter, quota: WorkerQuota(3), record, is_dry_run: false };
    store.submit(topic.id, 1, submission(topic, worker, "1"), origin, at(1)).unwrap()
}

#[test]
fn newcomers_leave_room_for_all_others_and_an_account_has_its_share() {
    let (_folder, store, topic) = open();
    store.open_epoch(topic.id, 1, at(1)).unwrap();
    let newcomer = |idx: u32| {
        let account = i64::from(idx / 3);
        submit_as(&store, &topic, account, Record::Newcomer, &format!("new{idx}"))
    };
    for idx in 0..NEWCOMERS_MAX {
        assert_eq!(newcomer(idx), SubmitOutcome::Taken);
    }
    let limit = "it has as many submissions as it takes".to_owned();
    assert_eq!(newcomer(NEWCOMERS_MAX), SubmitOutcome::Full { limit });
    assert_eq!(newcomer(0), SubmitOutcome::Repeated);
    let scored = |name: &str| submit_as(&store, &topic, 9999, Record::Scored, name);
    assert_eq!(["a", "b", "c"].map(scored), [const { SubmitOutcome::Taken }; 3]);
    let outcome = scored("d");
    assert!(
        matches!(&outcome, SubmitOutcome::Full { limit } if limit.contains("of this account")),
        "{outcome:?}"
    );
    let own = submission(&topic, "own", "1");
    let own = store.submit(topic.id, 1, own, Origin::NETWORK, at(1)).unwrap();
    assert_eq!(own, SubmitOutcome::Taken);
}

#[test]
fn what_rests_is_not_kept_and_comes_nearer() {
    let (_folder, store, topic) = open();
    for nonce in [1, 13] {
        epoch(&store, &topic, nonce);
        assert!(learn(&store, &topic, nonce));
    }
    let before = store.learned(topic.id, None).unwrap().learned;
    assert!(before.resting_targets.inferer.is_some());
    store.open_epoch(topic.id, 25, at(1)).unwrap();
    let origin = Origin {
        submitter: Submitter::Account(1),
        quota: WorkerQuota(0),
        record: Record::Newcomer,
        is_dry_run: false,
    };
    for (worker, value, origin) in [
        ("far", "1000000", origin),
        ("near1", "2", origin),
        ("near2", "2", origin),
        ("a", "1.50", Origin::NETWORK),
        ("b", "3", Origin::NETWORK),
    ] {
        let submission = submission(&topic, worker, value);
        let taken = store.submit(topic.id, 25, submission, origin, at(1)).unwrap();
        assert_eq!(taken, SubmitOutcome::Taken);
    }
    let settings = topic.clone();
    let closed = store.close(topic.id, 25, at_two(), move |c| closing(&settings, 25, c));
    assert!(closed.unwrap().is_some());
    let kept = store.submissions(topic.id, 25).unwrap();
    let inferring = kept.iter().filter(|submission| !submission.inference.is_empty());
    let names: Vec<_> = inferring.map(|submission| submission.worker.to_string()).collect();
    assert_eq!(names, ["allo1a", "allo1b", "allo1near1"]);
    let after = store.learned(topic.id, None).unwrap().learned;
    for name in ["allo1far", "allo1near2"] {
        let name = name.parse().unwrap();
        assert_eq!(
            after.experience.inferer.get(&name).map(|seen| (seen.n_epochs, seen.last_nonce)),
            Some((0, 25))
        );
        assert!(after.scores.inferer.contains_key(&name));
    }
    assert_eq!((after.n_learned, &after.regrets), (before.n_learned, &before.regrets));
}

/// The file is of the first version of the tables: three epochs that were learned from, one that has
/// closed, one that is open.
#[test]
fn a_stored_file_opens_with_all_that_it_holds() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("inference.sqlite");
    let stored = include_str!("../../../tests/data/inference/version-1.sql");
    Connection::open(&path).unwrap().execute_batch(stored).unwrap();
    let store = Store::open(&path).unwrap();
    let blocks = Blocks { genesis: at(1), block_time: Duration::from_secs(1) };
    assert_eq!(store.blocks().unwrap(), Some(blocks));
    assert_eq!(store.topics().unwrap(), demo_topics());
    let topic = demo_topics().remove(0);
    let progress = Progress { last_nonce: Some(49), open: vec![49], unlearned: vec![37] };
    assert_eq!(store.progress(topic.id).unwrap(), progress);
    let input = Input { at: at(1), value: 1.5 };
    assert_eq!(store.input(topic.id, 25).unwrap(), Some(input));
    assert_eq!(store.submissions(topic.id, 49).unwrap(), [submission(&topic, "a", "0.1")]);
    let epochs = store.history(topic.id, 0..=BlockHeight::MAX, 10).unwrap();
    assert_eq!(epochs.iter().map(|epoch| epoch.nonce).collect::<Vec<_>>(), [1, 13, 25, 37]);
    let losses = store.losses_until(topic.id, 25, 10).unwrap();
    assert_eq!(losses.iter().map(|(nonce, _)| *nonce).collect::<Vec<_>>(), [25, 13, 1]);
    // What was learned follows from the bundles, bit by bit.
    let mut learned = Learned::default();
    for nonce in [1, 13, 25] {
        let bundle = store.bundles(topic.id, Some(nonce)).unwrap().unwrap().bundle;
        learned.learn(&topic, &bundle, &[2.0]).unwrap();
    }
    assert_eq!(*store.learned(topic.id, None).unwrap().learned, learned);
    assert!(learn(&store, &topic, 37));
}
