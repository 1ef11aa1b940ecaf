//! Limits that several services on one database share.

use super::*;
use crate::tests::{Place, postgres::Line};

/// One of several services on a database: its gate, and a key that all of them accept.
struct Replica {
    gate: Gate,
    key: Verified,
}

impl Replica {
    async fn of(place: &Place, limits: Limits, key: &ApiKey) -> Self {
        let accounts = place.open().await;
        let key = accounts.check(KeyHash::from_key(key)).await.unwrap().unwrap();
        let options = GateOptions { limits, ..GateOptions::unlimited() };
        let gate = Gate::new(accounts, options, Clock::system());
        Self { gate, key }
    }

    /// Sends a request with a body of `n_bytes`; whether the gate admits it.
    async fn lets_in(&self, n_bytes: u64) -> bool {
        match self.gate.count(&self.key, n_bytes).await {
            Ok(_) => true,
            Err(Refusal::Limited(_)) => false,
            Err(refusal) => panic!("{refusal:?}"),
        }
    }

    /// Sends `n` requests at once; how many the gate admits.
    async fn let_in_of(&self, n: usize) -> u64 {
        let asked = futures::future::join_all((0..n).map(|_| self.lets_in(0))).await;
        u64::try_from(asked.into_iter().filter(|is_let_in| *is_let_in).count()).unwrap()
    }

    /// Returns unused leases, as a service does after a while without requests.
    async fn settle(&self) {
        tokio::time::pause();
        tokio::time::advance(Duration::from_secs(2)).await;
        tokio::time::resume();
        let Counts::Shared(leases) = &self.gate.shared.usage else { unreachable!() };
        leases.settle().await.unwrap();
    }
}

/// Two services with these limits.
async fn two(limits: Limits) -> (Place, ApiKey, [Replica; 2]) {
    let place = Place::new_database().await;
    let (_, key) = place.open().await.create_key("a client").await.unwrap();
    let replicas =
        [Replica::of(&place, limits, &key).await, Replica::of(&place, limits, &key).await];
    (place, key, replicas)
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn services_let_in_a_days_requests_together_and_not_one_more() {
    let limits = Limits { requests_per_day: 2000, ..Limits::NONE };
    let (_place, _, [one, other]) = two(limits).await;
    let mut n_let_in = 0;
    for _ in 0..20 {
        let (here, there) = tokio::join!(one.let_in_of(40), other.let_in_of(70));
        n_let_in += here + there;
    }
    assert_eq!(one.let_in_of(3).await + other.let_in_of(3).await, 0, "after {n_let_in}");
    assert!((1900..=2000).contains(&n_let_in), "{n_let_in}");
    one.settle().await;
    other.settle().await;
    for replica in [&one, &other] {
        n_let_in += replica.let_in_of(200).await;
        replica.settle().await;
    }
    assert_eq!(n_let_in, 2000, "what a service did not need, another lets in");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn what_a_killed_service_leased_is_not_let_in_again() {
    let limits = Limits { requests_per_day: 3000, ..Limits::NONE };
    let (place, key, [one, other]) = two(limits).await;
    let mut n_let_in = one.let_in_of(10).await;
    for _ in 0..20 {
        n_let_in += u64::from(one.lets_in(0).await);
    }
    assert_eq!(n_let_in, 30);
    drop(one);
    for _ in 0..40 {
        n_let_in += other.let_in_of(100).await;
        other.settle().await;
    }
    assert!((2900..=3000).contains(&n_let_in), "{n_let_in}");
    let options = GateOptions { service: "another", limits, ..GateOptions::unlimited() };
    let another = Gate::new(place.open().await, options, Clock::system());
    another.count(&other.key, 0).await.unwrap();
    let again = Replica::of(&place, limits, &key).await;
    assert_eq!(again.let_in_of(5).await, 0, "a restart resets nothing");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn services_let_in_no_more_than_the_rate_together() {
    let limits = Limits { rate: 10, burst: 200, ..Limits::NONE };
    let (_place, _, [one, other]) = two(limits).await;
    let began = std::time::SystemTime::now();
    let mut n_let_in = 0;
    for _ in 0..10 {
        let (here, there) = tokio::join!(one.let_in_of(50), other.let_in_of(50));
        n_let_in += here + there;
    }
    // The database's clock goes on.
    let n_more = 10 * (began.elapsed().unwrap().as_secs() + 1);
    assert!((150..=200 + n_more).contains(&n_let_in), "{n_let_in}, {n_more} by the rate");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn bytes_of_one_service_count_at_another() {
    let limits = Limits { bytes_per_day: 1000, ..Limits::NONE };
    let (_place, _, [one, other]) = two(limits).await;
    assert!(one.lets_in(600).await);
    assert!(other.lets_in(600).await, "bytes are counted after a while");
    one.settle().await;
    other.settle().await;
    assert!(!one.lets_in(1).await);
    assert!(!other.lets_in(1).await);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn requests_wait_for_a_lease_no_longer_than_it_is_worth() {
    let Place::Database(url) = Place::new_database().await else { unreachable!() };
    let line = Line::start(&url).await;
    let (_, key) = Place::Database(url).open().await.create_key("a client").await.unwrap();
    let limits = Limits { rate: 10, burst: 20, ..Limits::NONE };
    let replica = Replica::of(&Place::Database(line.near.clone()), limits, &key).await;
    assert!(replica.lets_in(0).await);
    line.is_silent.send_replace(true);
    tokio::time::pause();
    tokio::time::advance(Duration::from_secs(1)).await;
    let began = Instant::now();
    for refused in
        futures::future::join_all((0..9).map(|_| replica.gate.count(&replica.key, 0))).await
    {
        assert!(matches!(refused, Err(Refusal::Failed(AccountsError::Unreachable(_)))));
    }
    assert!(began.elapsed() <= Duration::from_secs(3), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_lease_is_for_many_requests_and_ends() {
    let accounts = Place::new_folder().open().await;
    // Each lease comes from a budget of which nothing is taken yet.
    let leases = Leases::new(accounts, "service");
    let consumer = Consumer::Key(KeyId::new(1));
    let limits = Limits { rate: 1000, burst: 2000, ..Limits::NONE };
    let mut obtained = Vec::new();
    for _ in 0..1000 {
        leases.admit(consumer, limits, 0).await.unwrap();
        obtained.extend(leases.newest(consumer));
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    obtained.dedup();
    // They double from 8 to 500, the quarter of the burst, and hold for half a second.
    assert!((6..=10).contains(&obtained.len()), "{}", obtained.len());
    tokio::time::advance(Duration::from_millis(500)).await;
    leases.admit(consumer, limits, 0).await.unwrap();
    assert_ne!(leases.newest(consumer), obtained.last().copied());
}
