//! A store of several servers keeps the contract of every store, and loses one at a time.

use super::*;
use crate::store::{
    ServerFigures,
    postgres::{
        look::LimitedBy,
        maintenance,
        servers::FIRST,
        stores::{ServersRefusal, StoreState},
    },
};

/// The addresses of two new databases, of which the second is a further server of the first's store.
pub(super) fn new_pair() -> [String; 2] {
    let urls = [new_database(), new_database()];
    let store = open(&urls[0]);
    futures::executor::block_on(store.add_store("second", &urls[1])).unwrap();
    urls
}

/// Creates datasets until one is on the further server, after one on the first; the two.
pub(super) async fn create_on_both(store: &PostgresStore) -> [DatasetId; 2] {
    let mut on = [None, None];
    for n in 0.. {
        let id = contract::create(store, contract::new_dataset(&format!("placed {n}"))).await;
        let place = place_of(store, id);
        on[usize::from(place.is_some())].get_or_insert(id);
        if let [Some(first), Some(second)] = on {
            return [first, second];
        }
    }
    unreachable!()
}

/// The server of a dataset by the catalog, but for the first one.
fn place_of(store: &PostgresStore, id: DatasetId) -> Option<i64> {
    let which = DatasetRef::Id(id);
    let first = store.servers.first();
    let placed = store.read(&first.connections, |c| {
        let which = which.clone();
        async move { catalog::sight(c, None, &which).await }.boxed()
    });
    placed.unwrap().unwrap().place
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn it_keeps_the_contract() {
    let [first, second] = new_pair();
    contract::check_most(&|| open_any(&first)).await;
    let sql = "SELECT count(*) FROM datasets.head WHERE place IS NULL";
    for url in [first, second] {
        assert!(number(&url, sql) > 0, "each server has some datasets");
    }
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn any_order_of_deeds_gives_what_a_plain_recomputation_gives() {
    let [first, _] = new_pair();
    contract::random::check(&|| open_any(&first), 16);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn any_order_of_sharing_shows_each_key_what_it_may_see() {
    let [first, _] = new_pair();
    contract::catalog::check_random_sharing(&|| open_any(&first), 8);
}

/// As an operation that waits for a connection to each of them meanwhile.
#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_dataset_that_is_gone_from_one_server_after_the_other_is_found() {
    let [first, _] = new_pair();
    let store = open(&first);
    let [_, dataset] = create_on_both(&store).await;
    let place = place_of(&store, dataset).unwrap();
    for (n_gone, is_found) in [(0, true), (1, true), (3, true), (99, false)] {
        let mut n_left = n_gone;
        let routed = store.servers.routed(dataset, |server| {
            let is_gone = server.place == place && n_left > 0;
            n_left -= i32::from(is_gone);
            let error = match server.place {
                FIRST => Some(StoreError::Moved { dataset, place, generation: 1 }),
                _ => is_gone.then_some(StoreError::NoDataset { dataset }),
            };
            async { error.map_or(Ok(()), Err) }
        });
        match routed.await {
            Ok(()) => assert!(is_found, "{n_gone}"),
            Err(error) => {
                assert!(matches!(error, StoreError::NoDataset { .. }), "{error:?}");
                assert!(!is_found, "{n_gone}");
            }
        }
    }

    // One that takes long is not told that there is none.
    tokio::time::pause();
    let routed = store.servers.routed(dataset, |server| async move {
        if server.place == FIRST {
            return Err::<(), _>(StoreError::Moved { dataset, place, generation: 1 });
        }
        tokio::time::sleep(Duration::from_secs(6)).await;
        Err(StoreError::NoDataset { dataset })
    });
    assert!(matches!(routed.await, Err(StoreError::Moved { .. })));
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn heads_commits_and_listings_are_those_of_each_server() {
    let [first, second] = new_pair();
    let store = open(&first);
    let ids = create_on_both(&store).await;
    for (n, id) in ids.iter().enumerate() {
        for second in 0..=n {
            let second = i64::try_from(second).unwrap();
            contract::append(&store, *id, contract::block([(second, 1.0)])).await;
        }
    }
    // Also another service, which does not know where they are.
    for store in [&store, &open(&first)] {
        let heads = store.heads(&ids).unwrap();
        assert_eq!(heads.revisions, [(ids[0], 1), (ids[1], 2)].into());
        assert_eq!(heads.unknown.len(), 0);
        assert_eq!(store.commits(ids[1], 0, 9).unwrap().len(), 2);
        assert_eq!(store.since(ids[1], 1, 9).unwrap().unwrap().rows.len(), 1);
        let listed = store.list(KeyId::new(1), &Filter::All, 0, 99).unwrap();
        let listed = listed.datasets.into_iter().find(|dataset| dataset.id == ids[1]).unwrap();
        let sight = store.sight(None, &DatasetRef::Id(ids[1])).unwrap().unwrap();
        assert_eq!((sight.dataset, sight.revision), (listed, 2));
    }
    run(&second, "UPDATE datasets.head SET place = 0");
    let heads = store.heads(&ids).unwrap();
    assert_eq!(heads.unknown, [ids[1]].into(), "one that is being moved is not gone");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_batch_is_found_on_a_server_that_was_lost_until_now() {
    let [first, _] = new_pair();
    let store = open(&first);
    let [_, id] = create_on_both(&store).await;
    let batch = || contract::repeats::named(contract::repeats::id(1, "again"), 10);
    assert_eq!(contract::repeats::put(&store, id, batch()).await, Some(1));
    for server in store.servers.further() {
        let lost = StoreError::Unreachable("lost".into());
        assert!(matches!(server.ask(async { Err::<(), _>(lost) }).await, Ok(None)));
    }
    assert_eq!(contract::repeats::find(&store, 1, "again"), None, "it is not asked for a while");
    // By which it is known to be back: the writer gets the answer of the first time.
    assert_eq!(contract::repeats::put(&store, id, batch()).await, None);
    assert_eq!(contract::repeats::find(&store, 1, "again"), Some(1));
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn what_an_interrupted_creation_or_deletion_left_is_removed() {
    let [first, second] = new_pair();
    let store = open(&first);
    let [_, id] = create_on_both(&store).await;
    let rows = contract::block((0..3000).map(|n| (n, 1.0)));
    contract::append(&store, id, rows).await;
    run(&first, &format!("DELETE FROM datasets.datasets WHERE id = {id}"));
    let n_left =
        || number(&second, &format!("SELECT count(*) FROM datasets.chunks WHERE dataset = {id}"));
    store.settle().await.unwrap();
    assert!(n_left() > 0, "it may be new");
    run(&second, "UPDATE datasets.datasets SET created_at = created_at - 3601000000");
    let n_kept = number(&second, "SELECT count(*) FROM datasets.datasets") - 1;
    store.settle().await.unwrap();
    assert_eq!(n_left(), 0);
    assert_eq!(number(&second, "SELECT count(*) FROM datasets.datasets"), n_kept);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_creation_that_may_be_committed_keeps_what_the_further_server_has() {
    let [first, second] = new_pair();
    let store = open(&first);
    store.set_store_state("first", StoreState::Full).await.unwrap();
    let n_there = || number(&second, "SELECT count(*) FROM datasets.head");
    let create = || store.create(vec![contract::new_dataset("same")], Timestamp::default());
    // The commit is answered as by a server that stops, of which nobody knows whether it was done.
    run(
        &first,
        "CREATE FUNCTION datasets.cut() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'stopped' USING ERRCODE = '57P01'; END $$;
         CREATE CONSTRAINT TRIGGER cut AFTER INSERT ON datasets.head
             DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION datasets.cut()",
    );
    let error = create().await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    assert_eq!(n_there(), 1);
    run(&first, "DROP TRIGGER cut ON datasets.head");
    create().await.unwrap();
    assert_eq!(n_there(), 2);
    create().await.unwrap_err();
    assert_eq!(n_there(), 2, "what a refused one had is removed");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn an_older_catalog_or_another_store_removes_no_datasets() {
    let [first, second] = new_pair();
    let store = open(&first);
    let [_, id] = create_on_both(&store).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    run(&second, "UPDATE datasets.datasets SET created_at = created_at - 3601000000");
    let n_rows =
        || number(&second, &format!("SELECT count(*) FROM datasets.tail WHERE dataset = {id}"));
    // A copy of the first server from before the dataset was created.
    let older = format!(
        "DELETE FROM datasets.datasets WHERE id >= {id};
         SELECT setval('datasets.datasets_id_seq', {id}, false)"
    );
    run(&first, &older);
    store.settle().await.unwrap();
    assert_eq!(n_rows(), 1);
    // The address leads to a server of another store.
    run(&first, &format!("SELECT setval('datasets.datasets_id_seq', {id})"));
    run(&second, "UPDATE datasets.member SET first_era = first_era + 1");
    store.settle().await.unwrap();
    assert_eq!(n_rows(), 1);
    run(&second, "UPDATE datasets.member SET first_era = first_era - 1");
    store.settle().await.unwrap();
    assert_eq!(n_rows(), 0);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_database_that_another_store_has_added_creates_no_datasets() {
    let urls = [new_database(), new_database(), new_database()];
    let [store, served, late] = urls.each_ref().map(|url| open(url));
    store.add_store("second", &urls[1]).await.unwrap();
    let created = served.create(vec![contract::new_dataset("lost")], Timestamp::default()).await;
    let error = created.unwrap_err();
    assert!(matches!(error, StoreError::Servers(ServersRefusal::Member)), "{error}");
    // It was free when the other store looked.
    let (era, further) = (late.servers.first().era, served.servers.first());
    let joined = late.wait(further.connections.write(move |c| stores::join(c, era, 1).boxed()));
    let error = joined.unwrap_err();
    assert!(matches!(error, StoreError::Servers(ServersRefusal::InUse)), "{error}");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_change_that_was_interrupted_between_two_servers_is_caught_up() {
    let [first, second] = new_pair();
    let store = open(&first);
    let [_, id] = create_on_both(&store).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    run(
        &second,
        &format!(
            "INSERT INTO datasets.columns (dataset, ordinal, name, dtype, created_at)
             VALUES ({id}, 1, 'half_added', 'float', 7)"
        ),
    );
    contract::append(&store, id, contract::block([(2, 1.0)])).await;
    let change =
        DatasetChange::NewColumns(vec![("next".to_owned(), model::dataset::Dtype::Integer)]);
    let sight = store.change(id, change, Timestamp::default()).await.unwrap();
    let names: Vec<_> = sight.columns.iter().map(|column| column.name.as_str()).collect();
    assert_eq!(names, ["value", "half_added", "next"]);
    assert_eq!(sight.revision, 2);
    assert_eq!(contract::newest(&store, id, 9).0.columns.len(), 3);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn creations_and_changes_at_once_do_not_wait_for_each_other() {
    let [first, _] = new_pair();
    let stores = [open(&first), open(&first)];
    let began = tokio::time::Instant::now();
    let create = |n: usize| {
        let store = &stores[n % 2];
        async move {
            let id = contract::create(store, contract::new_dataset(&format!("at once {n}"))).await;
            for column in 0..3 {
                let column = (format!("c{column}"), model::dataset::Dtype::Float);
                let change = DatasetChange::NewColumns(vec![column]);
                store.change(id, change, Timestamp::default()).await.unwrap();
            }
        }
    };
    futures::future::join_all((0..48).map(create)).await;
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_lost_server_fails_its_datasets_and_no_others() {
    let [first, second] = new_pair();
    let store = open(&first);
    let [here, there] = create_on_both(&store).await;
    let set_address = |address: &str| {
        run(&first, &format!("UPDATE datasets.stores SET url = '{address}' WHERE id > 0"));
    };
    // Its server does not let in who asks.
    set_address(&second.replace("postgres@", "stranger@"));
    let refused = open(&first);
    let rows = contract::block([(1, 1.0)]);
    let error = contract::try_append(&refused, there, rows).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    let error = refused.sight(None, &DatasetRef::Id(there)).unwrap_err();
    let causes = task::causes::chain(&error);
    assert!(causes.contains("use the server second: ") && causes.contains("stranger"), "{causes}");
    assert_eq!(refused.lost_servers().await, ["second"]);
    refused.wait(maintenance::look_at_all(&refused.servers, None, maintenance::Due::default()));
    let figures = refused.database().unwrap();
    let lost = |server: &ServerFigures| (server.name.clone(), server.connections.is_lost);
    let want = [("first".to_owned(), false), ("second".to_owned(), true)];
    assert_eq!(figures.servers.iter().map(lost).collect::<Vec<_>>(), want);
    // It has no such database.
    set_address(&format!("{second}_dropped"));
    let error = contract::try_append(&open(&first), there, contract::block([(1, 1.0)])).await;
    let error = error.unwrap_err();
    assert!(matches!(error, StoreError::WrongServer(_)), "{error}");
    set_address("postgres://127.0.0.1:1/lost");
    let store = open(&first);
    let error = contract::try_append(&store, there, contract::block([(1, 1.0)])).await.unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    let error = store.sight(None, &DatasetRef::Id(there)).unwrap_err();
    assert!(matches!(error, StoreError::Unreachable(_)), "{error}");
    contract::append(&store, here, contract::block([(1, 1.0)])).await;
    let batch = contract::repeats::named(contract::repeats::id(1, "others"), 9);
    assert_eq!(contract::repeats::put(&store, here, batch).await, Some(2));
    let began = tokio::time::Instant::now();
    for _ in 0..8 {
        assert_eq!(store.heads(&[here, there]).unwrap().unknown, [there].into());
        assert!(store.list(KeyId::new(1), &Filter::All, 0, 99).unwrap().datasets.len() > 1);
    }
    assert!(began.elapsed() < Duration::from_secs(3), "a lost server is not asked each time");
    store.check().await.unwrap();
    assert_eq!(store.lost_servers().await, ["second"]);
    // New ones go elsewhere, whatever their number.
    for n in 0..8 {
        let id = contract::create(&store, contract::new_dataset(&format!("while lost {n}"))).await;
        assert_eq!(place_of(&store, id), None);
    }
    set_address(&second);
    store.wait(store.servers.refresh()).unwrap();
    contract::append(&store, there, contract::block([(1, 1.0)])).await;
    assert_eq!(store.lost_servers().await, Vec::<String>::new());
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_dataset_is_found_that_was_moved_from_a_server_that_is_lost_now() {
    let [first, _] = new_pair();
    let store = open(&first);
    let [_, id] = create_on_both(&store).await;
    contract::append(&store, id, contract::block([(1, 1.0)])).await;
    assert!(store.move_dataset(id, "first", Arc::new(|_| {})).await.unwrap());
    run(&first, "UPDATE datasets.stores SET url = 'postgres://127.0.0.1:1/lost' WHERE id > 0");
    let other = open(&first);
    let lost = other.servers.further()[0].place;
    for n in 2..9 {
        other.servers.note(id, lost);
        contract::append(&other, id, contract::block([(n, 1.0)])).await;
        other.servers.note(id, lost);
        assert_eq!(contract::newest(&other, id, 99).0.len(), usize::try_from(n).unwrap());
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn stores_are_added_once_and_each_to_one_store() {
    let [first, second] = new_pair();
    let store = open(&first);
    let third = new_database();
    let refusal = |error: StoreError| match error {
        StoreError::Servers(refusal) => refusal,
        error => panic!("{error}"),
    };
    let taken = ServersRefusal::NameTaken { name: "second".to_owned() };
    for (name, url, want) in [
        ("second", third.clone(), taken),
        ("third", third.replace("://postgres@", "://postgres:secret@"), ServersRefusal::Password),
        ("third", first.clone(), ServersRefusal::InUse),
    ] {
        assert_eq!(refusal(store.add_store(name, &url).await.unwrap_err()), want, "{name}");
    }
    // Again, as after an interruption, and under another name.
    store.add_store("renamed", &second).await.unwrap();
    let other = open(&third);
    assert_eq!(refusal(other.add_store("x", &second).await.unwrap_err()), ServersRefusal::InUse);
    let error = PostgresStore::open(&second.parse().unwrap()).unwrap_err();
    assert_eq!(refusal(error), ServersRefusal::Member);
    store.set_store_state("renamed", StoreState::Full).await.unwrap();
    let unknown = ServersRefusal::Unknown { name: "second".to_owned() };
    let error = store.set_store_state("second", StoreState::Full).await.unwrap_err();
    assert_eq!(refusal(error), unknown);
    for n in 0..8 {
        let id = contract::create(&store, contract::new_dataset(&format!("not there {n}"))).await;
        assert_eq!(place_of(&store, id), None);
    }
    let stores = store.stores().unwrap();
    let shown: Vec<_> =
        stores.iter().map(|one| (one.name.as_str(), one.state, one.n_datasets)).collect();
    assert_eq!(shown, [("first", StoreState::Open, 8), ("renamed", StoreState::Full, 0)]);
}

/// What the tables of datasets of a database hold: rows, and the states of datasets.
fn count_all(url: &str) -> i64 {
    number(
        url,
        "SELECT (SELECT count(*) FROM datasets.tail) + (SELECT count(*) FROM datasets.head)",
    )
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_server_whose_address_leads_to_another_database_is_not_used() {
    let [first, second] = new_pair();
    let store = open(&first);
    let [here, there] = create_on_both(&store).await;
    contract::append(&store, there, contract::block([(1, 1.0)])).await;
    let wrong = |error: StoreError| assert!(matches!(error, StoreError::WrongServer(_)), "{error}");
    // Another store, which has a dataset of this number, and a database without tables.
    let (other, empty) = (new_database(), new_database());
    let others = open(&other);
    while contract::create(&others, contract::new_dataset(&new_database())).await != there {}
    let n_before = count_all(&other);
    let name = |url: &str| url.rsplit_once('/').unwrap().1.to_owned();
    let rename = |from: &str, to: &str| {
        let server = format!("{}/postgres", server());
        let end = format!(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{from}'"
        );
        run(&server, &end);
        // What lost its connection may have a new one.
        run(&server, &format!("ALTER DATABASE {from} ALLOW_CONNECTIONS false"));
        run(&server, &end);
        while number(
            &server,
            &format!("SELECT count(*) FROM pg_stat_activity WHERE datname = '{from}'"),
        ) > 0
        {}
        run(&server, &format!("ALTER DATABASE {from} RENAME TO {to}"));
        run(&server, &format!("ALTER DATABASE {to} ALLOW_CONNECTIONS true"));
    };
    drop(others);
    let away = format!("{}_away", name(&second));
    rename(&name(&second), &away);
    // It may have been done on the connection that was lost.
    let cut = contract::try_append(&store, there, contract::block([(2, 2.0)])).await.unwrap_err();
    assert!(matches!(cut, StoreError::Unreachable(_)), "{cut}");
    for url in [&other, &empty] {
        rename(&name(url), &name(&second));
        // Also one that starts now.
        for store in [&store, &open(&first)] {
            for _ in 0..2 {
                let rows = contract::block([(2, 2.0)]);
                wrong(contract::try_append(store, there, rows).await.unwrap_err());
                wrong(store.sight(None, &DatasetRef::Id(there)).unwrap_err());
            }
            assert_eq!(store.lost_servers().await, ["second"]);
            let listed = store.list(KeyId::new(1), &Filter::All, 0, 99).unwrap();
            assert!(listed.datasets.len() > 1, "a listing does without it");
            contract::append(store, here, contract::block([(1, 1.0)])).await;
            let stores = store.stores().unwrap();
            assert_eq!(stores[0].fault, None);
            let fault = stores[1].fault.clone().unwrap_or_default();
            assert!(fault.contains("leads to another database"), "{fault}");
            let looked = look::look(&first.parse().unwrap()).await;
            assert!(matches!(looked[1].seen, Err(StoreError::WrongServer(_))), "{looked:?}");
        }
        rename(&name(&second), &name(url));
    }
    assert_eq!(count_all(&other), n_before);
    rename(&away, &name(&second));
    let is_back = || contract::try_append(&store, there, contract::block([(3, 1.0)]));
    let mut n_attempts = 0;
    while is_back().await.is_err() {
        n_attempts += 1;
        assert!(n_attempts < 99, "it is used once its address leads to it");
    }
    assert_eq!(contract::newest(&store, there, 9).0.len(), 2);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn writers_of_a_dataset_that_is_on_no_server_keep_no_others_waiting() {
    let [first, second] = new_pair();
    let store = open(&first);
    let [_, fenced] = create_on_both(&store).await;
    let mut others = Vec::new();
    for n in 0..128 {
        others.push(contract::create(&store, contract::new_dataset(&format!("other {n}"))).await);
    }
    // Each server says that the other one has it.
    run(&second, &format!("UPDATE datasets.head SET place = 0 WHERE dataset = {fenced}"));
    let mut waiting =
        std::pin::pin!(contract::try_append(&store, fenced, contract::block([(1, 1.0)])));
    let rest = async {
        for other in others {
            contract::append(&store, other, contract::block([(1, 1.0)])).await;
        }
    };
    tokio::select! {
        biased;
        ended = &mut waiting => panic!("others waited until this ended: {ended:?}"),
        () = rest => {}
    }
    assert!(matches!(waiting.await, Err(StoreError::Moved { .. })));
    assert_eq!(format!("{:?}", store.turns), "Turns(Mutex { data: {} })");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_look_sees_what_limits_connections_most() {
    let url = new_database();
    let (server, database) = url.rsplit_once('/').unwrap();
    let role = format!("role_of_{database}");
    let of_role = url.replace("://postgres@", &format!("://{role}@"));
    run(&url, &format!("CREATE ROLE {role} LOGIN"));
    let limit = async |url: &str| {
        let looked = look::look(&url.parse().unwrap()).await;
        let limit = looked[0].seen.as_ref().unwrap().limit;
        (limit.by, limit.n_max)
    };
    let sql = "SELECT current_setting('max_connections')::bigint
         - current_setting('superuser_reserved_connections')::bigint";
    let of_server = (LimitedBy::Server, u64::try_from(number(&url, sql)).unwrap());
    assert_eq!(limit(&of_role).await, of_server);
    run(&url, &format!("ALTER ROLE {role} CONNECTION LIMIT 40"));
    assert_eq!(limit(&of_role).await, (LimitedBy::Role, 40));
    run(&url, &format!("ALTER DATABASE {database} CONNECTION LIMIT 30"));
    assert_eq!(limit(&of_role).await, (LimitedBy::Database, 30));
    assert_eq!(limit(&url).await, of_server, "superusers have no other limit");
    run(&format!("{server}/postgres"), &format!("DROP ROLE {role}"));
}
