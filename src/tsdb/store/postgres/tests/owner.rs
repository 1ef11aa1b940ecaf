//! Two databases and one prefix on S3: one of them alone deletes and writes there.

use super::{
    super::cold::owner::{self, Owner},
    segments::{COUNT_CHUNKS, READS, create_long, eager, keys, open_cold},
    *,
};
use crate::store::objects::{
    Objects,
    test_server::{Conditions, TestServer},
};

/// A copy of a database with all that it has, as a restored backup is.
fn clone_database(url: &str) -> String {
    let server = server();
    let name = url.rsplit('/').next().unwrap();
    let copy = format!("{name}_copy_{}", N_DATABASES.fetch_add(1, Ordering::Relaxed));
    let end =
        format!("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'");
    let create = format!("CREATE DATABASE {copy} TEMPLATE {name}");
    with_connection(&format!("{server}/postgres"), async |mut c| {
        loop {
            sqlx::raw_sql(AssertSqlSafe(end.clone())).execute(&mut c).await.unwrap();
            match sqlx::raw_sql(AssertSqlSafe(create.clone())).execute(&mut c).await {
                Ok(_) => break,
                Err(error) => assert!(error.to_string().contains("being accessed"), "{error}"),
            }
        }
    });
    format!("{server}/{copy}")
}

/// Deletes objects as soon as nothing refers to them.
fn hasty(objects: &Objects) -> ColdOptions {
    ColdOptions { grace: Duration::ZERO, ..eager(objects) }
}

/// Deletes a dataset in one of two databases, and seals another one: the bucket stays as it was.
async fn check_refused(store: &PostgresStore, url: &str, objects: &Objects, id: DatasetId) {
    let before = keys(url, objects).1;
    store.delete(id).await.unwrap();
    let (new, want) = create_long(store, "not sealed").await;
    store.settle().await.unwrap();
    assert_eq!(keys(url, objects).1, before, "nothing is deleted or written");
    assert_eq!(number(url, COUNT_CHUNKS), 10, "new rows stay");
    assert!(objects.figures().is_foreign);
    contract::compare(store, new, &want, &READS);
}

async fn check_clone(conditions: Conditions, is_original_first: bool) {
    let (url, server) = (new_database(), TestServer::start(conditions));
    let (objects, others) = (server.open(), server.open());
    let original = open_cold(&url, hasty(&objects));
    let (kept, want) = create_long(&original, "kept").await;
    let (deleted, _) = create_long(&original, "deleted").await;
    original.settle().await.unwrap();
    let copied = clone_database(&url);
    let copy = open_cold(&copied, hasty(&others));
    let (first, second) = if is_original_first {
        ((&original, &objects), (&copy, &copied, &others))
    } else {
        ((&copy, &others), (&original, &url, &objects))
    };
    first.0.settle().await.unwrap();
    check_refused(second.0, second.1, second.2, deleted).await;
    // It has the rows that the other one needs not any more for as long as the grace period is.
    contract::compare(second.0, kept, &want, &READS);
    contract::compare(first.0, deleted, &want, &READS);
    first.0.settle().await.unwrap();
    assert!(!first.1.figures().is_foreign);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn the_clone_of_a_database_changes_nothing_that_the_original_has_on_s3() {
    check_clone(Conditions::Honored, true).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_database_changes_nothing_after_a_clone_was_first() {
    check_clone(Conditions::Honored, false).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server, and takes as long as claims settle"]
async fn a_clone_changes_nothing_where_conditions_are_ignored() {
    check_clone(Conditions::Ignored, true).await;
}

/// Two equal databases, each of which needs what the other one does not, claim the prefix at once.
async fn check_equal(conditions: Conditions) {
    let (url, server) = (new_database(), TestServer::start(conditions));
    let original = open_cold(&url, hasty(&server.open()));
    let (one, want) = create_long(&original, "one").await;
    let (other, _) = create_long(&original, "other").await;
    original.settle().await.unwrap();
    let copied = clone_database(&url);
    drop(original);
    let all = [(url, one, other), (copied, other, one)].map(|(url, kept, deleted)| {
        let objects = server.open();
        (open_cold(&url, hasty(&objects)), objects, kept, deleted)
    });
    for (store, .., deleted) in &all {
        store.delete(*deleted).await.unwrap();
    }
    let [a, b] = &all;
    let settled = tokio::join!(a.0.settle(), b.0.settle());
    settled.0.and(settled.1).unwrap();
    let owners: Vec<_> =
        all.iter().filter(|(_, objects, ..)| !objects.figures().is_foreign).collect();
    let [(store, _, kept, _)] = owners.as_slice() else { panic!("{} own it", owners.len()) };
    contract::compare(store, *kept, &want, &READS);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn of_two_equal_databases_one_goes_on() {
    check_equal(Conditions::Honored).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server, and takes as long as claims settle"]
async fn of_two_equal_databases_one_goes_on_where_conditions_are_ignored() {
    check_equal(Conditions::Ignored).await;
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_prefix_is_taken_over_by_a_command() {
    let (url, server) = (new_database(), TestServer::start(Conditions::Honored));
    let (objects, others) = (server.open(), server.open());
    let original = open_cold(&url, hasty(&objects));
    let (deleted, _) = create_long(&original, "deleted").await;
    original.settle().await.unwrap();
    let copied = clone_database(&url);
    original.settle().await.unwrap();
    let restored = open_cold(&copied, hasty(&others));
    check_refused(&restored, &copied, &others, deleted).await;
    let owners = async || {
        let look = async |url: &str| owner::look(&url.parse().unwrap(), &objects).await.unwrap();
        (look(&url).await, look(&copied).await)
    };
    assert_eq!(owners().await, (Owner::This, Owner::Another));

    restored.own(&others).unwrap();
    assert_eq!(owners().await, (Owner::Another, Owner::This));
    restored.settle().await.unwrap();
    assert!(!others.figures().is_foreign);
    assert_eq!((number(&copied, COUNT_CHUNKS), keys(&copied, &others).1.len()), (0, 1));
    original.settle().await.unwrap();
    assert!(objects.figures().is_foreign);
    let empty = owner::look(&url.parse().unwrap(), &Objects::in_memory()).await.unwrap();
    assert_eq!(empty, Owner::Nobody);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn services_of_one_database_claim_its_prefix_at_once() {
    let (url, server) = (new_database(), TestServer::start(Conditions::Honored));
    let all = [server.open(), server.open(), server.open()];
    let stores = all.each_ref().map(|objects| open_cold(&url, hasty(objects)));
    for n in 0..6 {
        let (id, _) = create_long(&stores[n % 3], &format!("dataset {n}")).await;
        futures::future::join_all(stores.iter().map(Store::settle)).await;
        assert!(all.iter().all(|objects| !objects.figures().is_foreign));
        assert_eq!(number(&url, COUNT_CHUNKS), 0);
        stores[n % 3].delete(id).await.unwrap();
        // All but the newest claim are forgotten some time.
        run(&url, "UPDATE datasets.claims SET at = at - 7200000000");
    }
    stores[0].settle().await.unwrap();
    assert!(!all[0].figures().is_foreign);
    assert!(keys(&url, &all[0]).1.is_empty());
    let n_claims = number(&url, "SELECT count(*) FROM datasets.claims");
    assert!(n_claims < 20, "{n_claims}");
}
