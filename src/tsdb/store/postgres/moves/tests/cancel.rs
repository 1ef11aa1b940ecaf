//! A move that is cancelled leaves the dataset as it was and nothing on the target, whatever its mover does.

use sqlx::Connection as _;

use super::{
    super::cancel::{CancelledMove, MoveEnd, find_end},
    *,
};

/// The refusal in the outcome of an operation.
#[track_caller]
fn refusal<T: fmt::Debug>(done: Result<T>) -> ServersRefusal {
    match done {
        Err(StoreError::Servers(refusal)) => refusal,
        done => panic!("{done:?}"),
    }
}

/// How many moves are on record, and records of a dataset on the server at `url`, with its entry there if
/// that is no server that has it.
fn count_left(urls: &[String; 3], place: i64, id: DatasetId) -> (i64, i64) {
    let url = &urls[usize::try_from(place).unwrap()];
    let entries = if place == FIRST {
        0
    } else {
        let sql = format!(
            "SELECT (SELECT count(*) FROM datasets.head WHERE dataset = {id})
                 + (SELECT count(*) FROM datasets.datasets WHERE id = {id})"
        );
        number(url, &sql)
    };
    (number(&urls[0], "SELECT count(*) FROM datasets.moves"), entries + count_records(url, id))
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_cancelled_move_leaves_nothing_and_its_mover_changes_nothing() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    for n_steps in 0..=3 {
        for (from, to) in [("first", "second"), ("second", "third"), ("second", "first")] {
            let name = format!("cancelled-{n_steps}-{from}-{to}");
            let (id, mut want) = create_unsettled(&store, &name).await;
            store.move_dataset(id, from, ignore_progress()).await.unwrap();
            let (mut stale, chunks) = store.run_steps(id, to, n_steps).await;
            // Some of it is a new chunk.
            let late: Rows = (0..2_000).map(|n| (9_000_000 + n, 1.0)).collect();
            contract::append(&store, id, contract::block(late.clone())).await;
            want.extend(late);
            assert_eq!(other.cancel_move(id).await.unwrap(), CancelledMove::Removed);
            // As one that was paused.
            let late = other.wait(async {
                let copied = match chunks {
                    Some(mut chunks) => chunks.copy(&stale, &ignore_progress()).await.map(drop),
                    None => stale.purge().await,
                };
                let recorded = stale.record(Step::Copy).await;
                let fenced = stale.fence().await;
                let activated = stale.copy(&ignore_progress()).await;
                let done = stale.record(Step::Clean).await;
                stale.clean().await.unwrap();
                [copied, recorded, fenced, activated, done]
            });
            assert!(late.iter().all(Result::is_err), "{n_steps} steps: {late:?}");
            assert_eq!(count_left(&urls, stale.target.place, id), (0, 0), "{n_steps} steps");
            assert_eq!(
                refusal(other.cancel_move(id).await),
                ServersRefusal::NotMoving { dataset: id }
            );
            assert!(other.datasets_on(from).unwrap().contains(&id));
            contract::append(&store, id, contract::block([(9_900_000, 1.0)])).await;
            want.extend([(9_900_000, 1.0)]);
            for store in [&store, &other] {
                contract::compare(store, id, &want, &[]);
            }
            assert!(other.move_dataset(id, to, ignore_progress()).await.unwrap());
            contract::compare(&store, id, &want, &[]);
        }
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_move_is_not_cancelled_once_it_is_fenced() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    for (n_steps, to) in (4..=6).zip(["second", "third", "first"]) {
        let (id, want) = create_unsettled(&store, &format!("fenced-{n_steps}")).await;
        if to == "first" {
            store.move_dataset(id, "second", ignore_progress()).await.unwrap();
        }
        store.run_steps(id, to, n_steps).await;
        let refused = refusal(other.cancel_move(id).await);
        assert_eq!(refused, ServersRefusal::Fenced { dataset: id }, "{n_steps} steps");
        assert!(other.move_dataset(id, to, ignore_progress()).await.unwrap());
        contract::compare(&store, id, &want, &[]);
        assert!(other.datasets_on(to).unwrap().contains(&id));
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_mover_at_work_stops_with_the_reason() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    // Where it makes the place on the target, and where it copies.
    for table in ["datasets", "chunks"] {
        let (id, want) = create_unsettled(&store, &format!("stopped-{table}")).await;
        let mut holder = PgConnection::connect(&urls[1]).await.unwrap();
        let hold = format!("BEGIN; LOCK TABLE datasets.{table} IN EXCLUSIVE MODE");
        sqlx::raw_sql(AssertSqlSafe(hold)).execute(&mut holder).await.unwrap();
        let moving = store.move_dataset(id, "second", ignore_progress());
        let await_waiting = async |n| {
            wait::until(Duration::from_secs(9), || async {
                let n_waiting = number(&urls[1], WAITING);
                if n_waiting == n { Ok(()) } else { Err(n_waiting) }
            })
            .await
            .unwrap();
        };
        await_waiting(1).await;
        let cancelling = [other.cancel_move(id), store.cancel_move(id)];
        await_waiting(3).await;
        sqlx::raw_sql("COMMIT").execute(&mut holder).await.unwrap();
        let (moved, cancelled) = tokio::join!(moving, futures::future::try_join_all(cancelling));
        assert_eq!(refusal(moved), ServersRefusal::Cancelled { dataset: id }, "{table}");
        assert_eq!(cancelled.unwrap(), [CancelledMove::Removed; 2], "{table}");
        assert_eq!(count_left(&urls, 1, id), (0, 0), "{table}");
        contract::compare(&store, id, &want, &[]);
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_move_and_its_cancellation_at_once_agree() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    let (id, mut want) = create_unsettled(&store, "raced").await;
    let mut at = "first";
    let (mut n_moved, mut n_cancelled) = (0, 0);
    for n in 0..30_u32 {
        let to = if at == "first" { "second" } else { "first" };
        let moving = store.move_dataset(id, to, ignore_progress());
        let cancelling = async {
            // From right at the beginning to after the end.
            tokio::time::sleep(Duration::from_millis(u64::from(n) * 10)).await;
            other.cancel_move(id).await
        };
        let row = [(9_000_000 + i64::from(n), 1.0)];
        let writing = contract::append(&store, id, contract::block(row));
        let (moved, cancelled, _) = tokio::join!(moving, cancelling, writing);
        want.extend(row);
        let is_moved = match cancelled {
            Ok(removed) => {
                assert_eq!(removed, CancelledMove::Removed);
                assert_eq!(refusal(moved), ServersRefusal::Cancelled { dataset: id });
                n_cancelled += 1;
                false
            }
            refused => {
                let refused = refusal(refused);
                let is_known = matches!(
                    refused,
                    ServersRefusal::Fenced { .. } | ServersRefusal::NotMoving { .. }
                );
                assert!(is_known, "{refused}");
                assert!(moved.unwrap());
                n_moved += 1;
                true
            }
        };
        at = if is_moved { to } else { at };
        assert_eq!(number(&urls[0], "SELECT count(*) FROM datasets.moves"), 0);
        assert_eq!(other.datasets_on(at).unwrap(), [id]);
        contract::compare(&other, id, &want, &[]);
    }
    assert!(n_moved > 0 && n_cancelled > 0, "{n_moved} moved, {n_cancelled} cancelled");
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_cancellation_that_was_interrupted_is_finished_by_another_service() {
    let urls = new_servers();
    let store = open(&urls[0]);
    let (id, want) = create_unsettled(&store, "interrupted").await;
    store.run_steps(id, "second", 3).await;
    let set_address = |address: &str| {
        run(&urls[0], &format!("UPDATE datasets.stores SET url = '{address}' WHERE id = 1"));
    };
    set_address("postgres://127.0.0.1:1/lost");
    let other = open(&urls[0]);
    assert_eq!(other.cancel_move(id).await.unwrap(), CancelledMove::Removing);
    for to in ["second", "third"] {
        let refused = refusal(other.move_dataset(id, to, ignore_progress()).await);
        assert_eq!(refused, ServersRefusal::Cancelled { dataset: id });
    }
    contract::compare(&other, id, &want, &[]);
    set_address(&urls[1]);
    run(&urls[0], "UPDATE datasets.moves SET touched_at = 0");
    other.wait(other.servers.refresh()).unwrap();
    other.wait(resume_abandoned(&other.servers, &mut Retries::default())).unwrap();
    assert_eq!(count_left(&urls, 1, id), (0, 0));
    assert!(other.move_dataset(id, "third", ignore_progress()).await.unwrap());
    contract::compare(&store, id, &want, &[]);
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_move_that_others_finished_is_not_taken_for_cancelled() {
    let urls = new_servers();
    let (store, other) = (open(&urls[0]), open(&urls[0]));
    let (id, _) = create_unsettled(&store, "finished").await;
    let (stale, _) = store.run_steps(id, "second", 3).await;
    for to in ["second", "third"] {
        assert!(other.move_dataset(id, to, ignore_progress()).await.unwrap());
        let end = find_end(&store.servers, id, stale.source.place);
        assert_eq!(store.wait(end).unwrap(), Some(MoveEnd::Done), "it is on {to}");
    }
}

#[tokio::test]
#[ignore = "needs a PostgreSQL server"]
async fn a_cancellation_waits_for_a_packer_and_not_the_packer_for_it() {
    let urls = new_servers();
    let store = open(&urls[0]);
    let (id, want) = create_unsettled(&store, "packed").await;
    store.run_steps(id, "second", 1).await;
    run(
        &urls[0],
        "INSERT INTO datasets.unsettled SELECT dataset FROM datasets.head ON CONFLICT DO NOTHING",
    );
    let mut packer = PgConnection::connect(&urls[0]).await.unwrap();
    let choose = "BEGIN; SELECT FROM datasets.unsettled FOR UPDATE";
    sqlx::raw_sql(choose).execute(&mut packer).await.unwrap();
    let cancel = store.cancel_move(id);
    await_waiting(&urls[0]).await;
    let lock = "SELECT FROM datasets.head FOR NO KEY UPDATE; COMMIT";
    sqlx::raw_sql(lock).execute(&mut packer).await.unwrap();
    assert_eq!(cancel.await.unwrap(), CancelledMove::Removed);
    contract::compare(&store, id, &want, &[]);
}
