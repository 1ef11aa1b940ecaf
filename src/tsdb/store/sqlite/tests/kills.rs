//! Tests that a store contains all rows that a killed writer had acknowledged.

use std::env;
use std::hint::spin_loop;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use super::*;

/// Environment variable with the path of the store that [`writer_appends_until_it_is_killed`] writes to.
const KILLED_STORE: &str = "TRIPTYCH_TEST_KILLED_STORE";

/// Number of times that the writer is killed.
const KILLS: usize = 120;

/// Number of kills after which all rows and buckets are compared.
const COMPARE_EVERY: usize = 30;

/// Datasets that the writer writes concurrently, so that they share commits.
const DATASETS: [i64; 2] = [1, 2];

/// Write that leads to a certain revision of a dataset.
enum Operation {
    /// Appends a few new rows, a late row, a replacement, and sometimes a whole chunk.
    Append(BTreeMap<i64, f64>),
    /// Deletes the rows from the first to the second timestamp, in seconds.
    Delete(i64, i64),
}

fn operation(revision: i64) -> Operation {
    let first = revision * 700;
    if revision % 11 == 5 {
        return Operation::Delete(first - 2_000, first - 1_700);
    }
    let n_new = if revision % 23 == 3 { 600 } else { 9 };
    let value = |second: i64| f64::from(i32::try_from(second % 1000 + revision).unwrap()) / 7.0;
    let late = [first - 3001, first - 1400].into_iter().filter(|second| *second > 0);
    Operation::Append(
        (first..first + n_new).chain(late).map(|second| (second, value(second))).collect(),
    )
}

fn rows_after(revision: u64) -> BTreeMap<i64, f64> {
    let mut rows = BTreeMap::new();
    for revision in 1..=i64::try_from(revision).unwrap() {
        match operation(revision) {
            Operation::Append(new) => rows.extend(new),
            Operation::Delete(first, last) => {
                rows.retain(|second, _| !(first..=last).contains(second));
            }
        }
    }
    rows
}

async fn write(store: &SqliteStore, id: DatasetId) {
    let done = i64::try_from(contract::newest(store, id, 1).1).unwrap();
    for revision in done + 1.. {
        match operation(revision) {
            Operation::Append(rows) => {
                contract::append(store, id, contract::block(rows)).await;
            }
            Operation::Delete(first, last) => {
                let span = Span {
                    first: Timestamp::from_seconds(first),
                    last: Timestamp::from_seconds(last),
                };
                store
                    .delete_rows(
                        id,
                        RowDeletion::new(span, Timestamp::from_seconds(1)),
                        Arc::new(|_| {}),
                    )
                    .await
                    .unwrap();
            }
        }
        println!("acknowledged {id} {revision}");
        if revision % 17 == 0 {
            store.settle().await.unwrap();
        }
    }
}

/// Appends rows until its process is killed. [`killed_process_loses_no_acknowledged_rows`] starts this
/// process. Does nothing in a normal run of the tests.
#[tokio::test]
async fn writer_appends_until_it_is_killed() {
    let Ok(path) = env::var(KILLED_STORE) else { return };
    let store = SqliteStore::open(Path::new(&path)).unwrap();
    let [one, two] = DATASETS.map(|id| DatasetId::new(id).unwrap());
    futures::join!(write(&store, one), write(&store, two));
}

/// Starts the writer and kills it shortly after it has printed `n_lines` lines. Returns the latest
/// revision of each dataset that it acknowledged.
fn killed(path: &Path, n_lines: usize, n_spins: usize) -> [u64; 2] {
    let mut writer = Command::new(env::current_exe().unwrap())
        .args([
            "store::sqlite::tests::kills::writer_appends_until_it_is_killed",
            "--exact",
            "--nocapture",
        ])
        .env(KILLED_STORE, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
    let acknowledged = lines.map_while(Result::ok).filter_map(|line| {
        let (_, numbers) = line.split_once("acknowledged ")?;
        let (dataset, revision) = numbers.split_once(' ')?;
        Some((dataset.parse::<usize>().unwrap(), revision.parse::<u64>().unwrap()))
    });
    let mut last = [0, 0];
    for (dataset, revision) in acknowledged.take(n_lines) {
        last[dataset - 1] = revision;
    }
    (0..n_spins).for_each(|_| spin_loop());
    writer.kill().unwrap();
    writer.wait().unwrap();
    last
}

#[tokio::test]
async fn killed_process_loses_no_acknowledged_rows() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    for id in DATASETS {
        let made = contract::create(&store, contract::new_dataset(&format!("killed {id}"))).await;
        assert_eq!(made.get(), id);
    }
    drop(store);
    let mut state = 0x2545_F491_u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        usize::try_from((state >> 33) % below).unwrap()
    };
    for n_kills in 1..=KILLS {
        let last = killed(&path, 1 + draw(7), draw(400_000));
        let store = SqliteStore::open(&path).unwrap();
        for (id, last) in DATASETS.into_iter().zip(last) {
            let id = DatasetId::new(id).unwrap();
            let (_, revision) = contract::newest(&store, id, 1);
            assert!(revision >= last, "{last} was acknowledged, {revision} is there");
            if n_kills % COMPARE_EVERY == 0 {
                contract::compare(&store, id, &rows_after(revision), &[(0, 3000, 1, 100_000)]);
            }
        }
    }
    assert!(crate::admin::verify(&path, None, &mut |_| {}).unwrap().is_sound());
}
