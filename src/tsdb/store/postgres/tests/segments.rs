//! Old chunks in objects: what is promised of rows holds wherever they are.

use std::{ops::ControlFlow, sync::atomic::AtomicBool};

use task::wait;
use tokio::time::sleep;

use super::{super::cold::owner::Claimant, *};
use crate::store::{
    AppendMode,
    objects::{
        Objects,
        test_server::{Conditions, TestServer},
    },
    row_batch,
};

const DAY: Duration = Duration::from_hours(24);

/// The pause between two rounds of sealing, in which writers get further; those of a service are seconds
/// apart at least.
const PAUSE: Duration = Duration::from_millis(10);

pub(super) const COUNT_CHUNKS: &str = "SELECT count(*) FROM datasets.chunks WHERE resolution = 0";
const COUNT_SEGMENTS: &str = "SELECT count(*) FROM datasets.segments";

/// Every chunk is old enough, and one alone worth an object.
pub(super) fn eager(objects: &Objects) -> ColdOptions {
    ColdOptions {
        objects: objects.clone(),
        n_hot_chunks: 0,
        n_chunks_min: 1,
        seal_every: DAY,
        grace: DAY,
    }
}

/// A store without its own maintenance, which would seal at a time of its own.
pub(super) fn open_cold(url: &str, options: ColdOptions) -> PostgresStore {
    let mut store = PostgresStore::connect(&url.parse().unwrap()).unwrap();
    store.cold = Some(Cold::new(options));
    store
}

/// Seals what is old enough.
pub(super) async fn seal(store: &PostgresStore) -> Result<()> {
    let (reply, answer) = oneshot::channel();
    let first = store.servers.first().connections.clone();
    let cold = store.cold.clone().unwrap();
    let seal = async move {
        let claimant = Claimant::new(&first, &cold).unwrap();
        drop(reply.send(cold::seal_all(&first, claimant).await));
    };
    store.within(|| store.group.spawn("seal", seal));
    answer.await.unwrap()
}

/// Runs `work` while another service seals all chunks, again and again.
fn while_sealing(url: &str, objects: &Objects, work: impl FnOnce()) {
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let sealer = scope.spawn(|| {
            let store = open_cold(url, eager(objects));
            let runtime = Builder::new_current_thread().enable_all().build().unwrap();
            while !is_done.load(Ordering::Relaxed) {
                runtime.block_on(async {
                    seal(&store).await.unwrap();
                    sleep(PAUSE).await;
                });
            }
        });
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
        is_done.store(true, Ordering::Relaxed);
        sealer.join().unwrap();
        outcome.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    });
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn it_keeps_the_contract_while_chunks_go_to_objects() {
    let (url, objects) = (new_database(), Objects::in_memory());
    while_sealing(&url, &objects, || {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let open = || Box::new(open_cold(&url, eager(&objects))) as Box<dyn Store>;
        runtime.block_on(contract::check_rows(&open));
    });
    assert!(number(&url, "SELECT count(*) FROM datasets.objects") > 3);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn any_order_of_deeds_gives_the_same_while_chunks_go_to_objects() {
    let (url, objects) = (new_database(), Objects::in_memory());
    while_sealing(&url, &objects, || {
        contract::random::check(&|| Box::new(open_cold(&url, eager(&objects))), 32);
    });
    assert!(number(&url, "SELECT count(*) FROM datasets.objects") > 3);
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn any_order_of_deeds_gives_the_same_where_packing_ends_with_sealing() {
    let (url, objects) = (new_database(), Objects::in_memory());
    contract::random::check(&|| Box::new(open_cold(&url, eager(&objects))), 32);
    assert!(number(&url, "SELECT count(*) FROM datasets.objects") > 3);
}

/// A dataset of many chunks, of a row every ten minutes.
pub(super) async fn create_long(
    store: &PostgresStore,
    name: &str,
) -> (DatasetId, BTreeMap<i64, f64>) {
    let id = contract::create(store, contract::new_dataset(name)).await;
    let want: BTreeMap<i64, f64> =
        (0..10_240).map(|n| (i64::from(n) * 600, f64::from(n))).collect();
    contract::append(store, id, contract::block(want.clone())).await;
    (id, want)
}

pub(super) const READS: [contract::Read; 4] =
    [(9, 99, 3_000, 200_000), (0, 3_000, 0, 9_999_999), (5_000, 9, 0, 9_999_999), (7, 2, -5, 50)];

/// The keys of all objects of datasets on record, and those in the bucket.
pub(super) fn keys(url: &str, objects: &Objects) -> (BTreeSet<String>, BTreeSet<String>) {
    with_connection(url, async |mut c| {
        let sql = "SELECT dataset || '/' || id FROM datasets.objects";
        let on_record: Vec<String> = sqlx::query_scalar(sql).fetch_all(&mut c).await.unwrap();
        let stored = objects.list("", None, 999).await.unwrap().into_iter().map(|it| it.key);
        (on_record.into_iter().collect(), stored.filter(|key| key.contains('/')).collect())
    })
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_writer_brings_back_the_chunks_that_it_changes_and_no_others() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let store = open_cold(&url, eager(&objects));
    let (id, mut want) = create_long(&store, "thawed").await;
    let chunk_ids = |store: &PostgresStore| {
        let (mut ids, span) = (Vec::new(), Span { first: Timestamp::MIN, last: Timestamp::MAX });
        let visit = &mut |batch: row_batch::RowBatch<'_>| {
            ids.push(batch.chunk_id.expect("all of it is sealed"));
            Ok(ControlFlow::Continue(()))
        };
        store.scan(id, Resolution::Raw, span, visit).unwrap();
        ids
    };
    let mut before = chunk_ids(&store);
    seal(&store).await.unwrap();
    assert_eq!(number(&url, COUNT_CHUNKS), 0);
    assert_eq!(number(&url, COUNT_SEGMENTS), 1);
    let sealed = chunk_ids(&store);
    assert_eq!(chunk_ids(&store), sealed, "caches know chunks by their ids");
    before.extend(sealed);
    assert_eq!(before.iter().collect::<BTreeSet<_>>().len(), 20);
    contract::compare(&store, id, &want, &READS);

    contract::append(&store, id, contract::block([(3_000_000, 7.0)])).await;
    want.insert(3_000_000, 7.0);
    assert_eq!(number(&url, COUNT_CHUNKS), 1);
    assert_eq!(number(&url, COUNT_SEGMENTS), 2, "those before it and those after it");
    contract::compare(&store, id, &want, &READS);
    let span = Span { first: at(1_000_000), last: at(5_000_000) };
    let n_gone = store.delete_rows(id, span, at(0), Box::new(|_| {})).await.unwrap();
    assert_eq!(n_gone, 6_667);
    want.retain(|second, _| !(1_000_000..=5_000_000).contains(second));
    contract::compare(&store, id, &want, &READS);
    let n_gone = store.prune(id, at(700_000), 9_999, Box::new(|_| {})).await.unwrap();
    assert_eq!(n_gone, 1024, "of whole chunks");
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.objects WHERE state = 'live'"), 1);
    store.settle().await.unwrap();
    let span = Span { first: Timestamp::MIN, last: Timestamp::MAX };
    store.delete_rows(id, span, at(0), Box::new(|_| {})).await.unwrap();
    assert_eq!(number(&url, COUNT_SEGMENTS), 0);
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.objects WHERE state <> 'dead'"), 0);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn rows_of_many_chunks_in_objects_are_merged_at_once() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let store = open_cold(&url, eager(&objects));
    let id = contract::create(&store, contract::new_dataset("merged")).await;
    let mut want: BTreeMap<i64, f64> =
        (0..150 * 1024).map(|n| (i64::from(n) * 600, f64::from(n))).collect();
    contract::append(&store, id, contract::block(want.clone())).await;
    seal(&store).await.unwrap();
    assert_eq!((number(&url, COUNT_CHUNKS), number(&url, COUNT_SEGMENTS)), (0, 1));
    let rows: Vec<(i64, f64)> =
        (0..75).map(|nth| ((nth * 2 * 1024 + 512) * 600 + nth % 2, 7.0)).collect();
    let merge = Append {
        mode: AppendMode::Merge,
        ..contract::replace(contract::block(rows.iter().copied()))
    };
    store.append(id, merge, Box::new(|_, _| ())).await.unwrap();
    assert_eq!(number(&url, COUNT_CHUNKS), 75, "none beside those that rows fall into");
    want.extend(rows);
    contract::compare(&store, id, &want, &READS);
}

fn at(second: i64) -> Timestamp {
    Timestamp::from_seconds(second)
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn the_newest_chunks_and_short_runs_stay_in_the_database() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let options = |n_hot_chunks, n_chunks_min| {
        let options = ColdOptions { n_hot_chunks, n_chunks_min, ..eager(&objects) };
        open_cold(&url, options)
    };
    let (id, want) = create_long(&options(0, 1), "hot").await;
    for (n_hot, n_min, n_left) in [(3, 8, 10), (3, 7, 3), (0, 4, 3), (1, 2, 1)] {
        seal(&options(n_hot, n_min)).await.unwrap();
        assert_eq!(number(&url, COUNT_CHUNKS), n_left);
    }
    let store = open(&url);
    let page = (&store as &dyn Store).newest(id, 500).unwrap().0;
    assert_eq!(page.len(), 500, "without the objects new rows are served");
    let error = (&store as &dyn Store).newest(id, 2_000).unwrap_err();
    assert!(matches!(error, StoreError::Cold { .. }), "{error}");
    let since = options(0, 1).since(id, 3_000, 9_999).unwrap().unwrap();
    assert_eq!(since.rows.ids, (3_001..=10_240).collect::<Vec<_>>());
    let sizes = |n_bytes| options(0, 1).newest_within(id, n_bytes).unwrap();
    let all = open(&url).newest_within(id, 0).unwrap();
    assert_eq!(all, Some(at(9_215 * 600 + 300)), "the newest chunk is within");
    assert!(sizes(9_000) < all && sizes(9_000).is_some() && sizes(9_999_999).is_none());
    contract::compare(&options(0, 1), id, &want, &READS);
}

/// Waits until a query counts something.
async fn wait_for(url: &str, sql: &str) {
    let look = || async { if number(url, sql) > 0 { Ok(()) } else { Err(()) } };
    wait::until(Duration::from_secs(30), look).await.unwrap();
}

const COUNT_STAGED: &str = "SELECT count(*) FROM datasets.objects WHERE state = 'staged'";

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_sealer_paused_past_a_move_changes_nothing() {
    let (url, server) = (new_database(), TestServer::start(Conditions::Honored));
    let objects = server.open();
    let store = open_cold(&url, eager(&objects));
    let (id, want) = create_long(&store, "moved").await;
    let left = || (number(&url, COUNT_CHUNKS), number(&url, COUNT_SEGMENTS));
    let fence = "UPDATE datasets.head SET place = 7, generation = generation + 1";
    // Before it puts an object on record.
    let mut mover = PgConnection::connect(&url).await.unwrap();
    let lock = "BEGIN; SELECT FROM datasets.head FOR UPDATE";
    sqlx::raw_sql(lock).execute(&mut mover).await.unwrap();
    let moving = async {
        wait_for(&url, WAITING).await;
        let fence = AssertSqlSafe(format!("{fence}; COMMIT"));
        sqlx::raw_sql(fence).execute(&mut mover).await.unwrap();
    };
    let (sealed, ()) = tokio::join!(seal(&store), moving);
    sealed.unwrap();
    assert_eq!(left(), (10, 0));
    // A move that looked at the records before would leave this one, and its object, to nobody.
    assert_eq!(keys(&url, &objects), Default::default(), "nothing is written without the dataset");
    // While it writes the object, also if the dataset went there and back: others may have changed it.
    let back = "UPDATE datasets.head SET place = NULL, generation = generation + 1";
    for fence in [fence, back] {
        run(&url, back);
        server.hold(true);
        let moving = async {
            wait_for(&url, COUNT_STAGED).await;
            run(&url, fence);
            server.hold(false);
        };
        let (sealed, ()) = tokio::join!(seal(&store), moving);
        sealed.unwrap();
        assert_eq!(left(), (10, 0));
        assert_eq!(number(&url, COUNT_STAGED), 0);
    }
    assert_eq!(number(&url, "SELECT count(*) FROM datasets.objects WHERE state = 'dead'"), 2);
    seal(&store).await.unwrap();
    assert_eq!(left(), (0, 1));
    contract::compare(&store, id, &want, &READS);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_dataset_is_sealed_a_minute_after_a_service_that_did_was_killed() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let store = open_cold(&url, eager(&objects));
    let (id, want) = create_long(&store, "killed").await;
    let staged = format!(
        "INSERT INTO datasets.objects VALUES (gen_random_uuid(), {id}, 9, '', 'staged',
             (extract(epoch FROM now()) * 1000000)::bigint - 50 * 1000000)"
    );
    run(&url, &staged);
    seal(&store).await.unwrap();
    assert_eq!(number(&url, COUNT_CHUNKS), 10, "it may be at work");
    run(&url, "UPDATE datasets.objects SET at = at - 11 * 1000000");
    seal(&store).await.unwrap();
    assert_eq!(number(&url, COUNT_CHUNKS), 0);
    contract::compare(&store, id, &want, &READS);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server, and takes as long as a service says that it is at work"]
async fn a_service_that_writes_an_object_for_long_is_left_to_it() {
    let (url, server) = (new_database(), TestServer::start(Conditions::Honored));
    let stores = [server.open(), server.open()].map(|objects| open_cold(&url, eager(&objects)));
    let (id, want) = create_long(&stores[0], "slow").await;
    server.hold(true);
    let others = async {
        wait_for(&url, COUNT_STAGED).await;
        run(&url, "UPDATE datasets.objects SET at = at - 120 * 1000000");
        let touched = "SELECT count(*) FROM datasets.objects
             WHERE at > (extract(epoch FROM now()) * 1000000)::bigint - 30 * 1000000";
        wait_for(&url, touched).await;
        seal(&stores[1]).await.unwrap();
        assert_eq!(number(&url, "SELECT count(*) FROM datasets.objects"), 1);
        server.hold(false);
    };
    let (sealed, ()) = tokio::join!(seal(&stores[0]), others);
    sealed.unwrap();
    assert_eq!((number(&url, COUNT_CHUNKS), number(&url, COUNT_SEGMENTS)), (0, 1));
    contract::compare(&stores[1], id, &want, &READS);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn objects_go_after_their_grace_period_and_downloads_under_way_end_well() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let store = open_cold(&url, eager(&objects));
    let (id, _) = create_long(&store, "deleted").await;
    let (kept, want) = create_long(&store, "kept").await;
    store.settle().await.unwrap();
    let (on_record, stored) = keys(&url, &objects);
    assert_eq!((on_record.len(), &on_record), (2, &stored));

    let (mut n_rows, all) = (0, Span { first: Timestamp::MIN, last: Timestamp::MAX });
    let mut delete = Some(async {
        assert!(store.delete(id).await.unwrap());
        store.settle().await.unwrap();
        assert_eq!(number(&url, COUNT_SEGMENTS), 1);
    });
    let visit = &mut |batch: row_batch::RowBatch<'_>| {
        if let Some(delete) = delete.take() {
            futures::executor::block_on(delete);
        }
        n_rows += batch.rows()?.len();
        Ok(ControlFlow::Continue(()))
    };
    store.scan(id, Resolution::Raw, all, visit).unwrap();
    assert_eq!(n_rows, 10_240);
    assert_eq!(keys(&url, &objects), (on_record, stored), "for a day they stay");
    // What a service that was killed before it made the segment of an object leaves.
    let staged = format!("{kept}/00000000-0000-4000-8000-000000000000");
    objects.put(&staged, "of no use".into()).await.unwrap();
    run(
        &url,
        &format!(
            "INSERT INTO datasets.objects VALUES ('{}', {kept}, 9, '', 'staged', 7);
             UPDATE datasets.objects SET at = at - 86400000000 WHERE state = 'dead'",
            staged.rsplit('/').next().unwrap()
        ),
    );
    store.settle().await.unwrap();
    let is_left = |keys: &BTreeSet<String>| keys.len() == 2 && keys.contains(&staged);
    let (on_record, stored) = keys(&url, &objects);
    assert!(is_left(&on_record) && is_left(&stored), "{on_record:?} {stored:?}");
    run(&url, "UPDATE datasets.objects SET at = at - 86400000000 WHERE state = 'dead'");
    store.settle().await.unwrap();
    let (on_record, stored) = keys(&url, &objects);
    assert_eq!((on_record.len(), &on_record), (1, &stored));
    contract::compare(&store, kept, &want, &READS);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server, and takes as long as a lost bucket is asked again"]
async fn without_its_bucket_sealing_waits() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let place = "s3://gone?endpoint=http://127.0.0.1:1&region=x".parse().unwrap();
    let lost = Objects::open(&place).unwrap();
    let store = open_cold(&url, eager(&lost));
    let (id, want) = create_long(&store, "waiting").await;
    seal(&store).await.unwrap();
    assert_eq!((number(&url, COUNT_CHUNKS), number(&url, COUNT_SEGMENTS)), (10, 0));
    contract::compare(&store, id, &want, &READS);
    seal(&open_cold(&url, eager(&objects))).await.unwrap();
    assert_eq!((number(&url, COUNT_CHUNKS), number(&url, COUNT_SEGMENTS)), (0, 1));
    let error = (&store as &dyn Store).newest(id, 5).unwrap_err();
    assert!(matches!(error, StoreError::Cold { .. }), "{error}");
    contract::append(&store, id, contract::block([(9_999_999, 7.0)])).await;
    let n_rows = (&store as &dyn Store).newest(id, 1).unwrap().0.len();
    assert_eq!(n_rows, 1);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_move_takes_segments_along_and_no_object_is_lost() {
    let (urls, objects) = ([new_database(), new_database()], Objects::in_memory());
    let options = ColdOptions { grace: Duration::ZERO, ..eager(&objects) };
    let store = open_cold(&urls[0], options);
    store.add_store("second", &urls[1]).await.unwrap();
    let (id, mut want) = create_long(&store, "moved along").await;
    store.settle().await.unwrap();
    for (late, to) in (0..).zip(["second", "first", "second", "first"]) {
        store.move_dataset(id, to, Arc::new(|_| {})).await.unwrap();
        contract::compare(&store, id, &want, &READS[..2]);
        // What is left behind is removed, and what nothing refers to.
        store.settle().await.unwrap();
        contract::compare(&store, id, &want, &READS);
        let second = 3_000_000 + late * 60_000;
        contract::append(&store, id, contract::block([(second, 7.0)])).await;
        want.insert(second, 7.0);
        store.settle().await.unwrap();
        contract::compare(&store, id, &want, &READS[..2]);
    }
    let left = urls.map(|url| number(&url, COUNT_CHUNKS));
    assert_eq!(left, [0, 0]);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn damaged_and_missing_objects_are_errors_and_new_rows_are_served() {
    let (url, objects) = (new_database(), Objects::in_memory());
    let store = open_cold(&url, ColdOptions { n_hot_chunks: 1, ..eager(&objects) });
    let (id, _) = create_long(&store, "damaged").await;
    seal(&store).await.unwrap();
    let (key, store) = (keys(&url, &objects).1.pop_first().unwrap(), &store as &dyn Store);
    let whole = number(&url, "SELECT bytes FROM datasets.objects");
    let whole = 0..u64::try_from(whole).unwrap();
    let bytes = objects.read_ranges(&key, std::slice::from_ref(&whole)).await.unwrap().concat();
    let digest = number(&url, "SELECT octet_length(sha256)::bigint FROM datasets.objects");
    assert_eq!((bytes.len() as u64, digest), (whole.end, 32));
    let mut flipped = bytes.clone();
    for byte in flipped.iter_mut().step_by(99) {
        *byte ^= 1;
    }
    for damaged in [Some(&bytes[..bytes.len() / 2]), Some(&flipped), None] {
        match damaged {
            Some(damaged) => objects.put(&key, damaged.to_vec().into()).await.unwrap(),
            None => objects.delete(&key).await.unwrap(),
        }
        let error = store.newest(id, 5_000).unwrap_err();
        let is_it = matches!(error, StoreError::Cold { .. } | StoreError::Damaged { .. });
        assert!(is_it, "{error}");
        let late = contract::block([(3_000_000, 7.0)]);
        contract::try_append(store, id, late).await.unwrap_err();
        assert_eq!(store.newest(id, 500).unwrap().0.len(), 500);
    }
    contract::append(store, id, contract::block([(9_999_999, 7.0)])).await;
    objects.put(&key, bytes.into()).await.unwrap();
    assert_eq!(store.newest(id, 99_999).unwrap().0.len(), 10_241);
}
