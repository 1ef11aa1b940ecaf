//! Tests that services that share a database execute each step once and lose no data.

use std::sync::OnceLock;

use db::postgres::DatabaseUrl;
use futures::future::join_all;
use tokio::sync::watch;

use super::*;
use test_postgres::new_database;

/// Number of epochs in which services submit and close concurrently: four for each number of submissions
/// before the first close.
const N_EPOCHS: u64 = 44;

/// Maximum number of submissions per service and epoch. It is so small that all actors are active.
const N_SUBMISSIONS_MAX: usize = 10;

fn options(topics: Vec<Topic>) -> InferenceOptions {
    InferenceOptions { block_time: Duration::from_secs(1), retention: Retention::USUAL, topics }
}

/// Returns three services that share a new database. The first creates the topics.
async fn three(clock: &Clock) -> Option<(TopicId, Vec<Inference>)> {
    let url = new_database()?;
    let connect = async |topics| {
        let url: DatabaseUrl = url.parse().unwrap();
        Inference::open(url, clock.clone(), options(topics)).await.unwrap()
    };
    let topics = test_topics();
    let id = topics[0].id;
    let services = [connect(topics).await, connect(vec![]).await, connect(vec![]).await];
    Some((id, services.into()))
}

/// Submits for `nonce` until the epoch is closed. Returns the workers that received a successful
/// response.
async fn submit_until_closed(
    service: &Inference,
    sender: impl Fn(usize) -> Sender,
    n_taken: &watch::Sender<usize>,
) -> BTreeSet<Address> {
    let mut acknowledged = BTreeSet::new();
    for idx in 0..N_SUBMISSIONS_MAX {
        let sender = sender(idx);
        let worker = sender.worker.clone();
        match service.submit(sender, value("1.5")).await {
            Ok(()) => {
                acknowledged.insert(worker);
                n_taken.send_modify(|n| *n += 1);
            }
            Err(InferenceError::NotOpen(_)) => return acknowledged,
            Err(error) => panic!("{error:?}"),
        }
    }
    acknowledged
}

/// Closes `nonce` after `n_before` submissions. Returns the number of times that this service closed
/// it.
async fn close_after(
    service: &Inference,
    topic: TopicId,
    nonce: BlockHeight,
    mut n_taken: watch::Receiver<usize>,
    n_before: usize,
) -> usize {
    n_taken.wait_for(|n| *n >= n_before).await.unwrap();
    let mut n_closed = 0;
    // Retries while the epoch is open, since a call does nothing while another service is closing it.
    while service.progress(topic).await.unwrap().open.contains(&nonce) {
        n_closed += usize::from(service.close(topic, nonce).await.unwrap());
    }
    n_closed + usize::from(service.close(topic, nonce).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_submissions_and_closes_close_each_epoch_once() {
    let clock = Clock::manual(START);
    let Some((topic, services)) = three(&clock).await else { return };
    for epoch in 0..N_EPOCHS {
        let nonce = services[0].chain().height();
        let opened = join_all(services.iter().map(|service| service.open_epoch(topic, nonce)));
        let n_opened = opened.await.into_iter().filter(|opened| *opened.as_ref().unwrap()).count();
        assert_eq!(n_opened, 1, "nonce {nonce} opens once");
        let (taken, _) = watch::channel(0);
        let n_before = usize::try_from(epoch % 11).unwrap();
        let submitted = join_all(services.iter().enumerate().map(|(place, service)| {
            let sender = move |idx| {
                let worker = format!("allo1w{place}x{idx}").parse().unwrap();
                Sender { topic, nonce, worker, name: None }
            };
            submit_until_closed(service, sender, &taken)
        }));
        let closed = join_all(
            services
                .iter()
                .map(|service| close_after(service, topic, nonce, taken.subscribe(), n_before)),
        );
        let (submitted, closed) = tokio::join!(submitted, closed);
        assert_eq!(closed.iter().sum::<usize>(), 1, "nonce {nonce} closes once: {closed:?}");
        let acknowledged: BTreeSet<Address> = submitted.into_iter().flatten().collect();
        for service in &services {
            let kept = service.submissions(topic, nonce).await.unwrap();
            let kept = kept.into_iter().filter(|submission| !submission.inference.is_empty());
            let kept: BTreeSet<Address> = kept.map(|submission| submission.worker).collect();
            assert_eq!(kept, acknowledged, "nonce {nonce}");
            if acknowledged.is_empty() {
                continue;
            }
            let newest = service.latest(topic).await.unwrap();
            let combined = newest.bundle.inferer_values.iter().map(|own| own.worker.clone());
            assert_eq!((newest.bundle.nonce, combined.collect()), (nonce, acknowledged.clone()));
        }
        clock.advance(Duration::from_secs(12));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn services_with_different_block_heights_open_one_epoch() {
    let clock = Clock::manual(START);
    let Some((topic, services)) = three(&clock).await else { return };
    for first in [1, 101, 201] {
        let opened = join_all((first..).zip(&services).map(async |(nonce, service)| {
            service.open_epoch(topic, nonce).await.unwrap().then_some(nonce)
        }));
        let opened: Vec<_> = opened.await.into_iter().flatten().collect();
        assert_eq!(opened.len(), 1, "{opened:?}");
        for service in &services {
            assert_eq!(service.progress(topic).await.unwrap().last_nonce, Some(opened[0]));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_runners_run_and_learn_each_epoch_once() {
    let clock = Clock::manual(START);
    let Some((topic, services)) = three(&clock).await else { return };
    let runs = Arc::new(FakeRuns::default());
    let rows = Arc::new(FakeRows {
        clock: clock.clone(),
        every: 1,
        column: "load_percent",
        speed: 1,
        n_found: AtomicUsize::default(),
        first_read: OnceLock::new(),
    });
    let mut runners: Vec<Runner> = Vec::new();
    for service in &services {
        service.catch_up().await.unwrap();
        let (runs, rows) = (Arc::<FakeRuns>::clone(&runs), Arc::<FakeRows>::clone(&rows));
        let settings = service.find_topic(topic).unwrap();
        runners.push(Runner::new(service.clone(), settings, runs, rows));
    }
    for _ in 0..120 {
        for service in &services {
            service.catch_up_all().await.unwrap();
        }
        join_all(runners.iter_mut().map(Runner::tick)).await;
        clock.advance(Duration::from_secs(1));
    }
    let n_models = services[0].find_topic(topic).unwrap().predictor.clone().unwrap().models.len();
    assert_eq!(runs.n_runs.load(Ordering::SeqCst), 10 * n_models, "each once in ten epochs");
    let history = services[1].history(topic, 0..=BlockHeight::MAX, 99).await.unwrap();
    let nonces: Vec<_> = history.iter().map(|epoch| epoch.nonce).collect();
    assert_eq!(nonces, (0..10).map(|idx| 1 + 12 * idx).collect::<Vec<_>>());
    let n_learned = history.iter().filter(|epoch| epoch.combined_loss.is_some()).count();
    for service in &services {
        let learned = service.learned(topic).await.unwrap();
        assert_eq!(learned.n_learned, u64::try_from(n_learned).unwrap());
    }
    assert!(n_learned > 2, "{n_learned}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn service_takes_over_the_run_of_a_stopped_service() {
    let clock = Clock::manual(START);
    let Some((topic, services)) = three(&clock).await else { return };
    let settings = services[0].find_topic(topic).unwrap();
    services[0].open_epoch(topic, 1).await.unwrap();
    assert!(services[0].reserve_run(&settings, 1).await.unwrap());
    assert!(!services[1].reserve_run(&settings, 1).await.unwrap());
    clock.advance(Duration::from_secs(settings.timing.worker_submission_window / 2 + 1));
    assert!(
        services[1].reserve_run(&settings, 1).await.unwrap(),
        "the first service did not finish"
    );
    services[1].end_run(topic, 1, false).await.unwrap();
    assert!(services[2].reserve_run(&settings, 1).await.unwrap(), "the second service failed");
    services[2].end_run(topic, 1, true).await.unwrap();
    clock.advance(Duration::from_hours(1));
    assert!(!services[0].reserve_run(&settings, 1).await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_changes_of_topics_are_all_stored() {
    let clock = Clock::manual(START);
    let Some((_, services)) = three(&clock).await else { return };
    let owner: Address = "allo1owner".parse().unwrap();
    let base = Topic { creator: Some(owner.clone()), ..test_topics().remove(0) };
    let created = join_all(
        services
            .iter()
            .map(async |service| service.create_topics(vec![base.clone()]).await.unwrap()[0].id),
    );
    let ids: BTreeSet<TopicId> = created.await.into_iter().collect();
    assert_eq!(ids.len(), 3, "ids are unique: {ids:?}");
    let id = *ids.first().unwrap();
    let listed = join_all(services.iter().enumerate().map(async |(place, service)| {
        for idx in 0..10 {
            let worker: Address = format!("allo1w{place}x{idx}").parse().unwrap();
            service.change_whitelist(id, worker, true, &owner).await.unwrap();
        }
    }));
    listed.await;
    for service in &services {
        service.catch_up().await.unwrap();
        assert_eq!(service.find_topic(id).unwrap().whitelist.workers.len(), 30);
    }
    services[0].delete_topic(id, &owner).await.unwrap();
    services[1].catch_up().await.unwrap();
    assert!(services[1].topic(id).is_none());
    assert!(!services[2].open_epoch(id, 1).await.unwrap_or_default(), "it is deleted");
    assert!(services[1].next_topic_id() > *ids.last().unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn created_topic_is_found_immediately_even_if_the_list_is_being_reloaded() {
    let clock = Clock::manual(START);
    let Some((_, services)) = three(&clock).await else { return };
    let service = &services[0];
    let base = Topic { creator: "allo1owner".parse().ok(), ..test_topics().remove(0) };
    let creations = async {
        for _ in 0..100 {
            let created = service.create_topics(vec![base.clone()]).await.unwrap();
            assert!(service.topic(created[0].id).is_some(), "{}", created[0].id);
        }
    };
    let reloads = join_all((0..4).map(async |_| {
        loop {
            service.catch_up().await.unwrap();
        }
    }));
    tokio::select! {
        () = creations => {}
        _ = reloads => unreachable!(),
    }
}
