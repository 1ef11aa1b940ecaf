//! A server that has nothing is taken out of the catalog, and no dataset gets there meanwhile.

use std::fmt::Debug;

use sqlx::Connection as _;
use task::wait;

use super::{
    servers::{create_on_both, new_pair},
    *,
};
use crate::store::postgres::{
    moves::{OnProgress, cancel::CancelledMove},
    stores::{
        ServersRefusal, StoreState,
        remove::{Occupation, RemovedServer},
    },
};

#[track_caller]
fn refusal<T: Debug>(done: Result<T>) -> ServersRefusal {
    match done {
        Err(StoreError::Servers(refusal)) => refusal,
        done => panic!("{done:?}"),
    }
}

/// Why the further server is not removed.
async fn occupation(store: &PostgresStore, name: &str) -> Occupation {
    match refusal(store.remove_store(name, RemovedServer::Reachable).await) {
        ServersRefusal::Occupied { by, .. } => by,
        refusal => panic!("{refusal}"),
    }
}

/// Waits until `sql` is `want` in the database at `url`.
async fn await_number(url: &str, sql: &str, want: i64) {
    let look = || async {
        let found = number(url, sql);
        if found == want { Ok(()) } else { Err(found) }
    };
    wait::until(Duration::from_secs(30), look).await.unwrap();
}

fn ignore_progress() -> OnProgress {
    Arc::new(|_| {})
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_server_that_has_something_is_not_removed() {
    let [first, second] = new_pair();
    let store = open(&first);
    assert_eq!(occupation(&store, "first").await, Occupation::Catalog);
    let [_, id] = create_on_both(&store).await;
    let n_there = number(&first, "SELECT count(*) FROM datasets.head WHERE place = 1");
    let n_there = u64::try_from(n_there).unwrap();
    assert_eq!(occupation(&store, "second").await, Occupation::Datasets(n_there));
    for id in store.datasets_on("second").unwrap() {
        store.move_dataset(id, "first", ignore_progress()).await.unwrap();
    }
    for (table, row, want) in [
        ("moves (dataset, source, target, step, touched_at)", "0, 1, 'copy', 0", 1),
        ("moves (dataset, source, target, step, touched_at)", "1, 0, 'clean', 0", 1),
    ] {
        // From the future, so that no service goes on with it.
        run(&first, &format!("INSERT INTO datasets.{table} VALUES ({id}, {row})"));
        run(&first, "UPDATE datasets.moves SET touched_at = 9223372036854775807");
        assert_eq!(occupation(&store, "second").await, Occupation::Moves(want));
        run(&first, "DELETE FROM datasets.moves");
    }
    let left = "INSERT INTO datasets.datasets (id, name, folded, description, searched, created_at)
         OVERRIDING SYSTEM VALUE
         VALUES (7, '7', '7', '', '', (extract(epoch FROM now()) * 1000000)::bigint)";
    run(&second, left);
    assert_eq!(occupation(&store, "second").await, Occupation::Copies(1));
    run(&second, "DELETE FROM datasets.datasets");
    run(
        &second,
        "INSERT INTO datasets.objects (id, dataset, bytes, sha256, state, at)
         VALUES (gen_random_uuid(), 7, 1, '', 'dead', 0)",
    );
    assert_eq!(occupation(&store, "second").await, Occupation::Objects(1));
    run(&second, "DELETE FROM datasets.objects");
    store.remove_store("second", RemovedServer::Reachable).await.unwrap();
    let unknown = ServersRefusal::Unknown { name: "second".to_owned() };
    let again = store.remove_store("second", RemovedServer::Reachable).await;
    assert_eq!(refusal(again), unknown);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn other_services_let_go_of_a_server_that_was_removed() {
    let [first, second] = new_pair();
    let (store, other) = (open(&first), open(&first));
    for store in [&store, &other] {
        assert_eq!(store.lost_servers().await, Vec::<String>::new());
    }
    let connected = "SELECT count(*) FROM pg_stat_activity
         WHERE datname = current_database() AND application_name = 'triptych'";
    assert!(number(&second, connected) > 0);
    store.remove_store("second", RemovedServer::Reachable).await.unwrap();
    await_number(&second, connected, 0).await;
    assert!(other.servers.further().is_empty());
    // It is free for another store.
    let next = open(&new_database());
    next.add_store("second", &second).await.unwrap();
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn no_dataset_is_created_on_a_server_that_is_removed_meanwhile() {
    let [first, second] = new_pair();
    let store = open(&first);
    store.set_store_state("first", StoreState::Full).await.unwrap();
    // As a removal does, once it has found nothing.
    let mut remover = PgConnection::connect(&first).await.unwrap();
    let remove = "BEGIN; DELETE FROM datasets.stores WHERE name = 'second'";
    sqlx::raw_sql(remove).execute(&mut remover).await.unwrap();
    let creating = store.create(vec![contract::new_dataset("late")], Timestamp::default());
    await_number(&first, WAITING, 1).await;
    sqlx::raw_sql("COMMIT").execute(&mut remover).await.unwrap();
    let id = creating.await.unwrap()[0].id;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    assert_eq!(store.datasets_on("first").unwrap(), [id]);
    assert_eq!(number(&second, "SELECT count(*) FROM datasets.head"), 0);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_server_that_gets_a_dataset_or_a_move_meanwhile_is_not_removed() {
    let [first, _] = new_pair();
    let store = open(&first);
    store.set_store_state("first", StoreState::Full).await.unwrap();
    let mut holder = PgConnection::connect(&first).await.unwrap();
    let hold = "BEGIN; LOCK TABLE datasets.datasets IN EXCLUSIVE MODE";
    sqlx::raw_sql(hold).execute(&mut holder).await.unwrap();
    let creating = store.create(vec![contract::new_dataset("early")], Timestamp::default());
    await_number(&first, WAITING, 1).await;
    let removing = store.remove_store("second", RemovedServer::Lost);
    await_number(&first, WAITING, 2).await;
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    let id = creating.await.unwrap()[0].id;
    let name = || "second".to_owned();
    let by = Occupation::Datasets(1);
    assert_eq!(refusal(removing.await), ServersRefusal::Occupied { name: name(), by });
    store.move_dataset(id, "first", ignore_progress()).await.unwrap();
    let hold = "BEGIN; LOCK TABLE datasets.moves IN EXCLUSIVE MODE";
    sqlx::raw_sql(hold).execute(&mut holder).await.unwrap();
    let moving = store.move_dataset(id, "second", ignore_progress());
    await_number(&first, WAITING, 1).await;
    let removing = store.remove_store("second", RemovedServer::Lost);
    await_number(&first, WAITING, 2).await;
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    assert!(matches!(refusal(removing.await), ServersRefusal::Occupied { .. }));
    assert!(moving.await.unwrap());
    store.move_dataset(id, "first", ignore_progress()).await.unwrap();
    let remove = "BEGIN; DELETE FROM datasets.stores WHERE name = 'second'";
    sqlx::raw_sql(remove).execute(&mut holder).await.unwrap();
    let moving = store.move_dataset(id, "second", ignore_progress());
    await_number(&first, WAITING, 1).await;
    sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
    assert!(matches!(refusal(moving.await), ServersRefusal::Unknown { .. }));
    assert_eq!(number(&first, "SELECT count(*) FROM datasets.moves"), 0);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_server_that_is_lost_for_good_is_removed_with_its_cancelled_moves() {
    let [first, second] = new_pair();
    let store = open(&first);
    store.set_store_state("second", StoreState::Full).await.unwrap();
    let id = contract::create(&store, contract::new_dataset("stays")).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    run(
        &first,
        &format!(
            "UPDATE datasets.stores SET url = 'postgres://127.0.0.1:1/lost' WHERE id = 1;
             INSERT INTO datasets.moves (dataset, source, target, step, touched_at)
             VALUES ({id}, 0, 1, 'copy', 9223372036854775807)"
        ),
    );
    let remove = |server| store.remove_store("second", server);
    let refused = refusal(remove(RemovedServer::Reachable).await);
    assert!(matches!(refused, ServersRefusal::Unanswered { .. }), "{refused}");
    let refused = refusal(remove(RemovedServer::Lost).await);
    let by = Occupation::Moves(1);
    assert_eq!(refused, ServersRefusal::Occupied { name: "second".to_owned(), by });
    let cancelled = store.cancel_move(id).await.unwrap();
    assert_eq!(cancelled, CancelledMove::Removing);
    remove(RemovedServer::Lost).await.unwrap();
    contract::append(&store, id, contract::block([(2, 1.0)])).await;
    assert_eq!(store.lost_servers().await, Vec::<String>::new());
    // It was not: added again it is another server of the same store.
    store.add_store("again", &second).await.unwrap();
    let place = number(&first, "SELECT id FROM datasets.stores WHERE name = 'again'");
    assert_eq!(number(&second, "SELECT place FROM datasets.member"), place);
    assert!(store.move_dataset(id, "again", ignore_progress()).await.unwrap());
    assert_eq!(contract::newest(&store, id, 9).0.len(), 2);
}
