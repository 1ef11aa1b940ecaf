use model::topic::Address;

use super::*;
use crate::{
    close::{Standings, close},
    submission::Payload,
    topic::demo_topics,
};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_seconds(seconds)
}

fn open() -> (tempfile::TempDir, Store, Topic) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("inference.sqlite")).unwrap();
    (folder, store, demo_topics().unwrap().remove(0))
}

fn submission(topic: &Topic, worker: &str, value: &str) -> Submission {
    let worker: Address = format!("allo1{worker}").parse().unwrap();
    let payload =
        Payload { values: vec![("y".to_owned(), value.to_owned())], ..Payload::default() };
    Submission::checked(topic, worker, Some("me".to_owned()), payload).unwrap()
}

/// Opens and closes the epoch `nonce` with two submissions.
fn epoch(store: &Store, topic: &Topic, nonce: BlockHeight) {
    assert!(store.open_epoch(topic.id, nonce, at(1)).unwrap());
    for (worker, value) in [("a", "1.50"), ("b", "3")] {
        let submission = submission(topic, worker, value);
        let submitted = store.submit(topic.id, nonce, submission, at(1)).unwrap();
        assert_eq!(submitted, Submitted::Taken);
    }
    let settings = topic.clone();
    let closed = store.close(topic.id, nonce, at(2), move |closable| {
        let Closable { submissions, learned, baseline, .. } = &closable;
        let standings = Standings { labels: &settings.labels, learned, baseline: *baseline };
        Some(close(&settings, nonce, submissions, standings).unwrap())
    });
    assert!(closed.unwrap());
}

/// Learns from the epoch `nonce` that 2 came true.
fn learn(store: &Store, topic: &Topic, nonce: BlockHeight) -> bool {
    let settings = topic.clone();
    let teach = move |bundle: &model::bundle::Bundle, mut learned: Learned| {
        let losses = learned.learn(&settings, bundle, &[2.0]).unwrap();
        let truth = crate::submission::with_labels(&settings.labels, &[2.0]);
        Some(Lesson { truth, losses, learned })
    };
    store.learn(topic.id, nonce, teach).unwrap()
}

#[test]
fn topics_read_back_as_they_were() {
    let (_folder, store, _) = open();
    for topic in demo_topics().unwrap() {
        store.put_topic(&topic).unwrap();
    }
    assert_eq!(store.topics().unwrap(), demo_topics().unwrap());
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
    assert_eq!(store.learned(topic.id).unwrap(), learned);
    assert!(!learned.regrets.one_in_forecaster.is_empty(), "forecasters took part");
}

#[test]
fn an_epoch_closes_once_and_is_learned_from_once() {
    let (_folder, store, topic) = open();
    epoch(&store, &topic, 1);
    assert!(!store.open_epoch(topic.id, 1, at(5)).unwrap());
    assert!(!store.close(topic.id, 1, at(5), |_| panic!("it is closed")).unwrap());
    let late = store.submit(topic.id, 1, submission(&topic, "c", "4"), at(5)).unwrap();
    assert_eq!(late, Submitted::NotOpen);
    assert!(learn(&store, &topic, 1));
    assert!(!learn(&store, &topic, 1));
    assert_eq!(store.learned(topic.id).unwrap().n_learned, 1);
}

#[test]
fn submissions_keep_their_texts_and_names() {
    let (_folder, store, topic) = open();
    epoch(&store, &topic, 1);
    let kept = store.submissions(topic.id, 1).unwrap();
    assert_eq!(kept, [submission(&topic, "a", "1.50"), submission(&topic, "b", "3")]);
    let recent = store.recent(topic.id).unwrap().unwrap();
    assert_eq!(recent.actors[0].name.as_deref(), Some("me"));
    assert_eq!(recent.shares.inferer.values().copied().collect::<Vec<_>>(), [0.5, 0.5]);
}

#[test]
fn old_epochs_go_with_all_that_belongs_to_them() {
    let (_folder, store, topic) = open();
    epoch(&store, &topic, 1);
    let newest = u64::from(EPOCHS_KEPT) + 1;
    let mut writer = store.turns.writer.lock();
    let write = writer.transaction().unwrap();
    for nonce in 2..newest {
        write
            .prepare_cached(
                "INSERT INTO epochs (topic_id, nonce, state, opened_at) VALUES (1, ?1, 2, 0)",
            )
            .unwrap()
            .execute([number(nonce)])
            .unwrap();
    }
    write.commit().unwrap();
    drop(writer);
    assert_eq!(store.history(topic.id, 0..=BlockHeight::MAX, 10).unwrap().len(), 1);
    epoch(&store, &topic, newest);
    let history = store.history(topic.id, 0..=BlockHeight::MAX, 10).unwrap();
    assert_eq!(history.iter().map(|epoch| epoch.bundle.nonce).collect::<Vec<_>>(), [newest]);
    assert_eq!(store.submissions(topic.id, 1).unwrap(), []);
}

#[test]
fn a_file_of_a_newer_program_is_refused() {
    let (folder, store, _) = open();
    store.turns.writer.lock().pragma_update(None, "user_version", 99).unwrap();
    let error = Store::open(&folder.path().join("inference.sqlite")).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error:?}");
}
