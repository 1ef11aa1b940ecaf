//! Tests of the behavior that all engines of the store must have.

use super::*;
use crate::math::loss::LossMethod;

/// Submits for `worker` with a key of `account`. The quota is three workers per account.
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

pub(super) fn topics_are_stored_exactly(store: &Store, _: &Topic) {
    for topic in demo_topics() {
        store.put_topic(&topic, None).unwrap();
    }
    assert_eq!(store.topics().unwrap(), demo_topics());
}

pub(super) fn learned_state_is_stored_exactly(store: &Store, topic: &Topic) {
    let mut learned = Learned::default();
    for nonce in [1, 13, 25] {
        epoch(store, topic, nonce);
        let bundle = store.bundles(topic.id, None).unwrap().unwrap().bundle;
        learned.learn(topic, &bundle, &[2.0]).unwrap();
        assert!(learn(store, topic, nonce));
    }
    assert_eq!(*store.learned(topic.id, None).unwrap().learned, learned);
    assert!(!learned.regrets.one_in_forecaster.by_row().is_empty(), "forecasters are active");
}

pub(super) fn loss_parameters_and_their_truths_are_stored_exactly(store: &Store, topic: &Topic) {
    let mut scaled = topic.clone();
    scaled.judging.loss.method = LossMethod::Czar;
    scaled.judging.loss.parameters.tau = Some(0.1 + 0.2);
    store.put_topic(&scaled, None).unwrap();
    assert_eq!(store.topics().unwrap(), [scaled.clone()]);
    for nonce in [1, 13] {
        epoch(store, &scaled, nonce);
        assert!(learn(store, &scaled, nonce));
    }
    assert_eq!(store.learned(topic.id, None).unwrap().learned.truths, [2.0, 2.0]);
    let losses = store.losses_until(topic.id, 13, 1).unwrap();
    assert_eq!(losses[0].1.std, Some(1.0), "too few truths");
}

pub(super) fn epochs_are_relearned_exactly(store: &Store, topic: &Topic) {
    let nonces: Vec<BlockHeight> = (0..14).map(|idx| 1 + 12 * idx).collect();
    for nonce in &nonces {
        // `b` and `d` submit only in some epochs.
        let submissions = if nonce % 5 == 0 {
            [("a", "1.75"), ("c", "2.5"), ("d", "900")]
        } else {
            [("a", "1.50"), ("b", "3"), ("c", "2.25")]
        };
        epoch_of(store, topic, *nonce, &submissions);
        assert!(learn(store, topic, *nonce));
    }
    let (mut learned, mut baseline) = (Learned::default(), None);
    for nonce in nonces {
        let submissions = store.submissions(topic.id, nonce).unwrap();
        let close_context = CloseContext { labels: &topic.labels, learned: &learned, baseline };
        let closing = close(topic, nonce, &submissions, close_context).unwrap();
        let kept = store.bundles(topic.id, Some(nonce)).unwrap().unwrap();
        assert_eq!((&closing.bundle, &closing.resistant), (&kept.bundle, &kept.resistant));
        learned.learn(topic, &closing.bundle, &[2.0]).unwrap();
        baseline = closing.baseline;
    }
    assert_eq!(*store.learned(topic.id, None).unwrap().learned, learned);
}

pub(super) fn snapshot_of_a_thinned_epoch_is_not_used(store: &Store, topic: &Topic) {
    for nonce in [1, 13] {
        epoch(store, topic, nonce);
        assert!(learn(store, topic, nonce));
    }
    assert_eq!(store.relearnable_from(topic.id).unwrap(), Some(1));
    assert_eq!(store.relearnable(topic.id, 13).unwrap().unwrap().lessons.len(), 2);
    for statement in ["UPDATE epochs SET is_thin = 1", "DELETE FROM epochs"] {
        store.execute(&format!("{statement} WHERE topic_id = 1 AND nonce = 1"));
        assert_eq!(store.relearnable_from(topic.id).unwrap(), None);
        assert_eq!(store.relearnable(topic.id, 13).unwrap(), None);
    }
}

pub(super) fn truncated_regrets_are_rejected(store: &Store, topic: &Topic) {
    epoch(store, topic, 1);
    assert!(learn(store, topic, 1));
    let cut = "UPDATE learned SET regrets = substr(regrets, 1, length(regrets) - 1)";
    store.execute(cut);
    assert!(matches!(store.learned(topic.id, None), Err(StoreError::Record(_))));
}

pub(super) fn epoch_closes_once_and_is_learned_once(store: &Store, topic: &Topic) {
    epoch(store, topic, 1);
    assert!(!store.open_epoch(topic.id, 1, 1, at(5)).unwrap());
    let again = store.close(topic.id, 1, at_two(), |_| panic!("already closed")).unwrap();
    assert!(again.is_none());
    let late = submission(topic, "c", "4");
    let late = store.submit(topic.id, 1, late, Origin::NETWORK, at(5)).unwrap();
    assert_eq!(late, SubmitOutcome::NotOpen);
    assert!(learn(store, topic, 1));
    assert!(!learn(store, topic, 1));
    assert_eq!(store.learned(topic.id, None).unwrap().learned.n_learned, 1);
}

pub(super) fn epoch_of_a_deleted_topic_does_not_close(store: &Store, topic: &Topic) {
    assert!(store.open_epoch(topic.id, 1, 1, at(1)).unwrap());
    store.delete_topic(topic.id, None).unwrap();
    assert!(store.close(topic.id, 1, at_two(), |_| panic!("deleted")).unwrap().is_none());
}

pub(super) fn submissions_are_stored_exactly(store: &Store, topic: &Topic) {
    epoch(store, topic, 1);
    let kept = store.submissions(topic.id, 1).unwrap();
    assert_eq!(kept, [submission(topic, "a", "1.50"), submission(topic, "b", "3")]);
    let newest = store.bundles(topic.id, None).unwrap().unwrap();
    let names = store.names(topic.id, 1).unwrap();
    assert_eq!(names[&newest.bundle.inferer_values[0].worker], "me");
    assert_eq!(newest.shares.inferer.values().copied().collect::<Vec<_>>(), [0.5, 0.5]);
}

pub(super) fn expired_epochs_are_deleted_from_all_tables(store: &Store, topic: &Topic) {
    epoch(store, topic, 1);
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
    epoch(store, topic, newest);
    let history = store.history(topic.id, 0..=BlockHeight::MAX, 10).unwrap();
    assert_eq!(history.iter().map(|epoch| epoch.nonce).collect::<Vec<_>>(), [newest]);
    assert_eq!(store.submissions(topic.id, 1).unwrap(), []);
}

pub(super) fn submissions_of_newcomers_and_accounts_are_limited(store: &Store, topic: &Topic) {
    store.open_epoch(topic.id, 1, 1, at(1)).unwrap();
    let newcomer = |idx: u32| {
        let account = i64::from(idx / 3);
        submit_as(store, topic, account, Record::Newcomer, &format!("new{idx}"))
    };
    for idx in 0..NEWCOMERS_MAX {
        assert_eq!(newcomer(idx), SubmitOutcome::Taken);
    }
    let limit = "maximum number of submissions reached".to_owned();
    assert_eq!(newcomer(NEWCOMERS_MAX), SubmitOutcome::Full { limit });
    assert_eq!(newcomer(0), SubmitOutcome::Repeated);
    let scored = |name: &str| submit_as(store, topic, 9999, Record::Scored, name);
    assert_eq!(["a", "b", "c"].map(scored), [const { SubmitOutcome::Taken }; 3]);
    let outcome = scored("d");
    assert!(
        matches!(&outcome, SubmitOutcome::Full { limit } if limit.contains("per account")),
        "{outcome:?}"
    );
    let own = submission(topic, "own", "1");
    let own = store.submit(topic.id, 1, own, Origin::NETWORK, at(1)).unwrap();
    assert_eq!(own, SubmitOutcome::Taken);
}

pub(super) fn inactive_submissions_are_not_stored_and_their_scores_move(
    store: &Store,
    topic: &Topic,
) {
    for nonce in [1, 13] {
        epoch(store, topic, nonce);
        assert!(learn(store, topic, nonce));
    }
    let before = store.learned(topic.id, None).unwrap().learned;
    assert!(before.resting_targets.inferer.is_some());
    store.open_epoch(topic.id, 25, 1, at(1)).unwrap();
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
        let submission = submission(topic, worker, value);
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
