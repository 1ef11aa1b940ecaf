//! Moves lose nothing, whoever writes meanwhile and whichever step they were interrupted in.

mod cancel;
mod stalled;

use std::{collections::BTreeMap, time::Duration};

use model::{dataset::Dtype, timestamp::Timestamp};
use task::wait;

use super::{
    super::{
        maintenance::{Unsettled, settle_all},
        tests::{WAITING, await_waiting, new_database, number, open, run},
    },
    copy::{ChunkCopies, LOGS, SMALL},
    retries::{Retries, resume_abandoned},
    *,
};
use crate::{
    catalog::{DatasetChange, DatasetRef},
    store::{SharedStore as _, Store as _, tests as contract},
};

/// Rows by their seconds.
type Rows = BTreeMap<i64, f64>;

/// The addresses of three databases, which are the servers `first`, `second` and `third` of one store.
fn new_servers() -> [String; 3] {
    let urls = [new_database(), new_database(), new_database()];
    let store = open(&urls[0]);
    for (name, url) in [("second", &urls[1]), ("third", &urls[2])] {
        futures::executor::block_on(store.add_store(name, url)).unwrap();
        // New datasets are on the first one.
        let full = store.set_store_state(name, super::super::stores::StoreState::Full);
        futures::executor::block_on(full).unwrap();
    }
    urls
}

/// Makes a dataset with chunks of rows and buckets, late rows in the tail, and a batch.
async fn create_unsettled(store: &PostgresStore, name: &str) -> (DatasetId, Rows) {
    let id = contract::create(store, contract::new_dataset(name)).await;
    let mut want: Rows = (0..9000).map(|n| (n * 600, 1.0)).collect();
    contract::append(store, id, contract::block(want.clone())).await;
    for part in 0..20_i64 {
        let late: Rows = (0..60).map(|n| ((n * 50 + part) * 700 + 7, 2.0)).collect();
        contract::append(store, id, contract::block(late.clone())).await;
        want.extend(late);
    }
    let batch = contract::repeats::named(contract::repeats::id(1, name), 6_000_000);
    contract::repeats::put(store, id, batch).await.unwrap();
    want.extend([(6_000_000, 1.0), (6_000_001, 1.0)]);
    (id, want)
}

fn ignore_progress() -> OnProgress {
    Arc::new(|_| {})
}

/// What a database has of a dataset, but for the catalog.
fn count_records(url: &str, id: DatasetId) -> i64 {
    let tables = ["chunks", "tail", "buckets", "feed", "batches", "unsettled", "doomed"];
    let counts =
        tables.map(|table| format!("(SELECT count(*) FROM datasets.{table} WHERE dataset = {id})"));
    number(url, &format!("SELECT {}", counts.join(" + ")))
}

/// Waits until nothing of a dataset is left in a database, but for the catalog: each store removes some.
async fn await_no_records(url: &str, id: DatasetId) {
    let look = || async {
        let n_left = count_records(url, id);
        if n_left == 0 { Ok(()) } else { Err(n_left) }
    };
    wait::until(Duration::from_secs(30), look).await.unwrap();
}

#[test]
#[ignore = "needs a PostgreSQL server"]
fn every_table_with_a_part_of_a_dataset_is_moved() {
    let url = new_database();
    drop(open(&url));
    // Those that the target makes itself, or that are the catalog's.
    let others =
        ["chunks", "columns", "dataset_tags", "doomed", "head", "metadata", "moves", "unsettled"];
    let known = [&LOGS[..], &SMALL[..], &others[..]].concat().join("', '");
    let sql = format!(
        "SELECT count(*) FROM information_schema.columns c JOIN information_schema.tables t
             USING (table_schema, table_name)
         WHERE table_schema = 'datasets' AND column_name = 'dataset' AND table_type = 'BASE TABLE'
         AND table_name NOT IN ('{known}')"
    );
    assert_eq!(number(&url, &sql), 0, "name the new table in `moves`");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_moved_dataset_is_as_it_was() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    let (id, mut want) = create_unsettled(&store, "moved").await;
    let which = DatasetRef::Id(id);
    let mut at = 0;
    for (nth, to) in [(1, "second"), (2, "third"), (1, "second"), (0, "first")] {
        let sight = store.sight(None, &which).unwrap();
        let commits = store.commits(id, 0, 99).unwrap();
        let since = store.since(id, 9000, 20_000).unwrap();
        assert!(store.move_dataset(id, to, ignore_progress()).await.unwrap());
        assert!(!store.move_dataset(id, to, ignore_progress()).await.unwrap(), "it is there");
        for store in [&store, &other] {
            assert_eq!(store.sight(None, &which).unwrap(), sight);
            assert_eq!(store.commits(id, 0, 99).unwrap(), commits);
            assert_eq!(store.since(id, 9000, 20_000).unwrap(), since);
            assert_eq!(
                store.heads(&[id]).unwrap().revisions[&id],
                sight.as_ref().unwrap().revision
            );
            assert!(contract::repeats::find(store, 1, "moved").is_some());
            contract::compare(store, id, &want, &[(9, 99, 3_000, 200_000)]);
        }
        // Writers that know it from before, and new columns.
        let second = 7_000_000 + i64::try_from(nth).unwrap() + i64::try_from(want.len()).unwrap();
        contract::append(&other, id, contract::block([(second, 3.0)])).await;
        contract::append(&store, id, contract::block([(second + 1, 3.0)])).await;
        want.extend([(second, 3.0), (second + 1, 3.0)]);
        store.settle().await.unwrap();
        await_no_records(&urls[at], id).await;
        assert_eq!(number(&urls[0], "SELECT count(*) FROM datasets.moves"), 0);
        at = nth;
    }
    let column = DatasetChange::NewColumns(vec![("later".to_owned(), Dtype::Float)]);
    store.change(id, column, Timestamp::default()).await.unwrap();
    assert!(store.move_dataset(id, "third", ignore_progress()).await.unwrap());
    assert_eq!(contract::newest(&store, id, 1).0.columns.len(), 2);
    assert_eq!(store.datasets_on("third").unwrap(), [id]);
    assert!(store.delete(id).await.unwrap());
    store.settle().await.unwrap();
    await_no_records(&urls[2], id).await;
    assert_eq!(contract::repeats::find(&store, 1, "moved"), None);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn writers_that_go_on_lose_nothing_and_keep_their_order() {
    let urls = new_servers();
    let stores = [open(&urls[0]), open(&urls[0]), open(&urls[0])];
    let (id, mut want) = create_unsettled(&stores[0], "written").await;
    let before = stores[0].commits(id, 0, 99).unwrap().len();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    let write = async |idx: i64| {
        let store = &stores[usize::try_from(idx).unwrap()];
        let (mut rows, mut revisions) = (Rows::new(), Vec::new());
        let mut n = 0;
        while !is_done.load(std::sync::atomic::Ordering::Relaxed) || n < 20 {
            let row = [(8_000_000 + n * 3 + idx, 4.0)];
            match contract::try_append(store, id, contract::block(row)).await {
                Ok(appended) => {
                    rows.extend(row);
                    revisions.push(appended.revision);
                }
                // It is refused as a whole.
                Err(error) => assert!(matches!(error, StoreError::Moved { .. }), "{error}"),
            }
            n += 1;
            tokio::task::yield_now().await;
        }
        assert!(revisions.is_sorted());
        (rows, revisions)
    };
    let moves = async {
        for to in ["second", "third", "first", "third"] {
            assert!(stores[2].move_dataset(id, to, ignore_progress()).await.unwrap());
            settle_all(&stores[2].servers.route(id).connections, None, Unsettled::Any)
                .await
                .unwrap();
        }
        is_done.store(true, std::sync::atomic::Ordering::Relaxed);
    };
    let ((a, first), (b, second), ()) = tokio::join!(write(0), write(1), moves);
    want.extend(a.into_iter().chain(b));
    let mut revisions = [first, second].concat();
    revisions.sort_unstable();
    let from = u64::try_from(before).unwrap() + 1;
    assert!(revisions.iter().copied().eq((from..).take(revisions.len())), "each number once");
    for store in &stores {
        contract::compare(store, id, &want, &[]);
    }
    let commits = stores[0].commits(id, 0, usize::MAX).unwrap();
    assert_eq!(commits.len(), before + revisions.len(), "the feed has each commit");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn an_interrupted_move_is_finished_by_another_service() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    for (n_steps, to) in (0..=6).zip(["second", "third", "first"].into_iter().cycle()) {
        let name = format!("interrupted-{n_steps}");
        let (id, mut want) = create_unsettled(&store, &name).await;
        // To the first one from another one.
        if to == "first" {
            store.move_dataset(id, "second", ignore_progress()).await.unwrap();
        }
        let (moved, chunks) = store.run_steps(id, to, n_steps).await;
        let target = moved.target.place;
        let found = other.find_dataset(&DatasetRef::Name(name.clone())).unwrap();
        assert_eq!(found, Some(id), "to go on with the move");
        if n_steps < 4 {
            // What is on the target by now is not all, nor all as it is by now.
            let late: Rows = (0..500).map(|n| (n * 613 + 1, 5.0)).collect();
            contract::append(&store, id, contract::block(late.clone())).await;
            want.extend(late);
        }
        if n_steps == 3 {
            let url = &urls[usize::try_from(target).unwrap()];
            run(url, &format!("DELETE FROM datasets.chunks WHERE dataset = {id} AND id % 2 = 0"));
        }
        run(&urls[0], "UPDATE datasets.moves SET touched_at = 0");
        other.wait(resume_abandoned(&other.servers, &mut Retries::default())).unwrap();
        assert_eq!(number(&urls[0], "SELECT count(*) FROM datasets.moves"), 0, "{n_steps} steps");
        for store in [&store, &other] {
            contract::compare(store, id, &want, &[]);
            assert_eq!(store.datasets_on(to).unwrap().last(), Some(&id));
        }
        store.settle().await.unwrap();
        let url = &urls[usize::try_from(moved.source.place).unwrap()];
        await_no_records(url, id).await;
        // The one that was interrupted changes nothing any more.
        if let Some(mut chunks) = chunks {
            let late = other.wait(chunks.copy(&moved, &ignore_progress()));
            assert!(matches!(late, Err(StoreError::Moved { .. })), "{late:?}");
            contract::compare(&store, id, &want, &[]);
        }
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn services_back_off_from_a_move_that_fails() {
    let urls = new_servers();
    let store = open(&urls[0]);
    let mut retries = Retries::default();
    let mut resume = || {
        run(&urls[0], "UPDATE datasets.moves SET touched_at = 0");
        store.wait(resume_abandoned(&store.servers, &mut retries)).unwrap();
    };
    for name in ["failing", "next"] {
        let (id, want) = create_unsettled(&store, name).await;
        store.run_steps(id, "second", 3).await;
        // The target has lost it.
        run(&urls[1], &format!("DELETE FROM datasets.datasets WHERE id = {id}"));
        for whole in [60, 120, 240, 300, 300] {
            resume();
            // Until it is taken for abandoned.
            let sql = "SELECT 60 + touched_at / 1000000 - extract(epoch FROM now())::bigint
                 FROM datasets.moves";
            let pause = number(&urls[0], sql);
            assert!(((whole / 2 - 3)..=whole + 1).contains(&pause), "{pause} s, not {whole}");
        }
        run(&urls[0], "UPDATE datasets.moves SET step = 'purge'");
        resume();
        assert_eq!(number(&urls[0], "SELECT count(*) FROM datasets.moves"), 0);
        contract::compare(&store, id, &want, &[]);
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_move_that_was_paused_changes_nothing_after_others() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    for n_steps in 0..=6 {
        let (id, want) = create_unsettled(&store, &format!("paused-{n_steps}")).await;
        for n_more in 0..3 {
            // From the first one and back, once more and once more fenced.
            let (mut stale, _) = store.run_steps(id, "second", n_steps).await;
            assert!(other.move_dataset(id, "second", ignore_progress()).await.unwrap());
            if n_more > 0 {
                assert!(other.move_dataset(id, "first", ignore_progress()).await.unwrap());
            }
            if n_more > 1 {
                other.run_steps(id, "second", 4).await;
            }
            other.wait(async {
                drop(stale.purge().await);
                drop(stale.record(Step::Copy).await);
                drop(stale.fence().await);
                drop(stale.copy(&ignore_progress()).await);
                drop(stale.record(Step::Clean).await);
                drop(stale.clean().await);
            });
            if n_more > 1 {
                assert!(other.move_dataset(id, "second", ignore_progress()).await.unwrap());
            }
            store.settle().await.unwrap();
            for store in [&store, &other] {
                contract::compare(store, id, &want, &[]);
            }
            // A row that is there already.
            contract::append(&store, id, contract::block([(0, 1.0)])).await;
            other.move_dataset(id, "first", ignore_progress()).await.unwrap();
        }
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_dataset_of_many_commits_in_the_hour_before_is_moved() {
    let urls = new_servers();
    let store = open(&urls[0]);
    let (id, want) = create_unsettled(&store, "busy").await;
    // Each server reads its clock at a time of its own; meanwhile some of these are an hour old.
    let sql = format!(
        "INSERT INTO datasets.feed (dataset, revision, first_row_id, rows, at)
         SELECT {id}, 1000 + n, 1, 1,
             (extract(epoch FROM now()) * 1000000)::bigint - 3600000000 + n * 100
         FROM generate_series(1, 400000) AS n"
    );
    run(&urls[0], &sql);
    assert!(store.move_dataset(id, "second", ignore_progress()).await.unwrap());
    contract::compare(&store, id, &want, &[]);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_dataset_is_moved_to_where_its_creation_was_interrupted() {
    let urls = new_servers();
    let store = open(&urls[0]);
    let (id, want) = create_unsettled(&store, "left").await;
    let left = format!(
        "INSERT INTO datasets.datasets (id, name, folded, description, searched, created_at)
             OVERRIDING SYSTEM VALUE VALUES ({id}, '{id}', '{id}', '', '', 0);
         INSERT INTO datasets.head (dataset, updated_at) VALUES ({id}, 0)"
    );
    run(&urls[1], &left);
    assert!(store.move_dataset(id, "second", ignore_progress()).await.unwrap());
    contract::compare(&store, id, &want, &[]);
}

impl PostgresStore {
    /// Does the first steps of a move; what it knows of the chunks by then.
    async fn run_steps(
        &self,
        id: DatasetId,
        to: &str,
        n_steps: i32,
    ) -> (Move, Option<ChunkCopies>) {
        let (servers, progress) = (Arc::clone(&self.servers), ignore_progress());
        let (reply, answer) = tokio::sync::oneshot::channel();
        let target = find_server(self, to).place;
        let steps = async move {
            begin(&servers, id, target).await.unwrap();
            let (mut moved, _) = Move::find(&servers, id).await.unwrap().unwrap();
            let mut chunks = None;
            if n_steps >= 1 {
                moved.purge().await.unwrap();
            }
            if n_steps >= 2 {
                moved.record(Step::Copy).await.unwrap();
            }
            if n_steps >= 3 {
                let mut copies = ChunkCopies::find(&moved).await.unwrap();
                copies.copy(&moved, &progress).await.unwrap();
                chunks = Some(copies);
            }
            if n_steps >= 4 {
                moved.fence().await.unwrap();
            }
            if n_steps >= 5 {
                moved.copy(&progress).await.unwrap();
            }
            if n_steps >= 6 {
                moved.record(Step::Clean).await.unwrap();
            }
            drop(reply.send((moved, chunks)));
        };
        self.within(|| self.group.spawn("steps", steps));
        answer.await.unwrap()
    }
}

/// The server of a name.
fn find_server(store: &PostgresStore, name: &str) -> Arc<Server> {
    let further = store.servers.further().into_iter().find(|server| server.name == name);
    further.unwrap_or_else(|| Arc::clone(store.servers.first()))
}
