//! Datasets that are moved between servers: what was read of one before its move is not written after it.

use super::*;

/// Rows of all tables that packing changes.
const CONTENT: &str = "SELECT hashtextextended(string_agg(r, '' ORDER BY r), 0) FROM (
    SELECT t::text FROM datasets.tail t UNION ALL SELECT c::text FROM datasets.chunks c
    UNION ALL SELECT b::text FROM datasets.buckets b) AS content (r)";

/// Makes a dataset with much to pack, in chunks, the tail and single buckets.
async fn create_unsettled(store: &PostgresStore, name: &str) -> (DatasetId, BTreeMap<i64, f64>) {
    let id = contract::create(store, contract::new_dataset(name)).await;
    let mut want: BTreeMap<i64, f64> = (0..4096).map(|n| (n * 600, 1.0)).collect();
    contract::append(store, id, contract::block(want.clone())).await;
    for part in 0..50_i64 {
        let late: BTreeMap<i64, f64> = (0..60).map(|n| ((n * 50 + part) * 700 + 7, 2.0)).collect();
        contract::append(store, id, contract::block(late.clone())).await;
        want.extend(late);
    }
    (id, want)
}

/// Packs in a task of the store; its outcome.
fn pack(store: &PostgresStore) -> oneshot::Receiver<Result<()>> {
    let (reply, answer) = oneshot::channel();
    let connections = store.servers.first().connections.clone();
    let pack = async move {
        drop(reply.send(maintenance::settle_all(&connections, None, Unsettled::Much).await));
    };
    store.within(|| store.group.spawn("pack", pack));
    answer
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_packer_paused_past_a_move_changes_nothing() {
    let url = new_database();
    let store = open(&url);
    let (id, want) = create_unsettled(&store, "packed").await;
    let before = number(&url, CONTENT);
    let mut mover = PgConnection::connect(&url).await.unwrap();
    let lock = "BEGIN; SELECT FROM datasets.head FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut mover).await.unwrap();
    let packed = pack(&store);
    // It has chosen the dataset, and not locked it yet.
    await_waiting(&url).await;
    let fence = "UPDATE datasets.head SET place = 7, generation = generation + 1; COMMIT";
    sqlx::raw_sql(fence).execute(&mut mover).await.unwrap();
    packed.await.unwrap().unwrap();
    assert_eq!(number(&url, CONTENT), before);
    assert_eq!(
        number(&url, "SELECT count(*) FROM datasets.unsettled"),
        0,
        "it is not chosen again"
    );
    // Back again, it is packed.
    run(
        &url,
        "UPDATE datasets.head SET place = NULL, generation = generation + 1;
         INSERT INTO datasets.unsettled SELECT dataset FROM datasets.head",
    );
    pack(&store).await.unwrap().unwrap();
    assert_ne!(number(&url, CONTENT), before);
    contract::compare(&store, id, &want, &[]);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn nothing_is_written_or_read_where_a_dataset_was_before_its_move() {
    let url = new_database();
    let store = open(&url);
    let id = contract::create(&store, contract::new_dataset("moved")).await;
    for second in 0..3 {
        contract::append(&store, id, contract::block([(second, 1.0)])).await;
    }
    run(&url, "UPDATE datasets.head SET place = 7, generation = generation + 1");
    let is_moved = |error: StoreError| matches!(error, StoreError::Moved { dataset, place: 7, generation: 2 } if dataset == id);
    let now = Timestamp::default();
    let span = Span { first: now, last: Timestamp::MAX };
    let read: &dyn Store = &store;
    let columns = DatasetChange::NewColumns(Vec::new());
    for error in [
        contract::try_append(&store, id, contract::block([(3, 1.0)])).await.unwrap_err(),
        store.prune(id, Timestamp::MAX, 9, Box::new(|_| {})).await.unwrap_err(),
        store.delete_rows(id, span, now, Box::new(|_| {})).await.unwrap_err(),
        store.change(id, columns, now).await.unwrap_err(),
        read.newest(id, 9).unwrap_err(),
        read.newest(id, 9_999).unwrap_err(),
        store.since(id, 0, 9).unwrap_err(),
        store.commits(id, 0, 9).unwrap_err(),
        store.newest_within(id, 9).unwrap_err(),
        store.scan(id, Resolution::Raw, span, &mut |_| panic!("no rows")).unwrap_err(),
        store.scan(id, Resolution::Day, span, &mut |_| panic!("no rows")).unwrap_err(),
    ] {
        assert!(is_moved(error));
    }
    assert_eq!(number(&url, "SELECT revision FROM datasets.head"), 3);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.feed"), 3);
    run(&url, "UPDATE datasets.head SET place = NULL, generation = generation + 1");
    contract::append(&store, id, contract::block([(3, 1.0)])).await;
    assert_eq!(contract::newest(&store, id, 9).0.len(), 4);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_deletion_waits_for_a_packer_and_not_the_packer_for_it() {
    let url = new_database();
    let store = open(&url);
    let (id, _) = create_unsettled(&store, "deleted").await;
    let mut packer = PgConnection::connect(&url).await.unwrap();
    let choose = "BEGIN; SELECT FROM datasets.unsettled FOR UPDATE";
    sqlx::raw_sql(choose).execute(&mut packer).await.unwrap();
    let delete = store.delete(id);
    await_waiting(&url).await;
    let lock = "SELECT FROM datasets.head FOR NO KEY UPDATE; COMMIT";
    sqlx::raw_sql(lock).execute(&mut packer).await.unwrap();
    delete.await.unwrap();
}
