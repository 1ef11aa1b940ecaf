//! The embedded store keeps the contract, and its own promises.

use std::{
    collections::BTreeMap,
    env,
    io::{BufRead as _, BufReader},
    process::{Command, Stdio},
};

use tempfile::tempdir;

use super::*;
use crate::store::contract;

#[tokio::test]
async fn it_keeps_the_contract() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("a folder/datasets.sqlite");
    contract::check_all(&|| Box::new(SqliteStore::open(&path).unwrap())).await;
}

#[test]
fn any_order_of_appends_gives_the_same_rows_and_buckets() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    contract::check_random_appends(&|| Box::new(SqliteStore::open(&path).unwrap()), 24);
}

#[test]
fn a_store_of_a_newer_version_is_refused() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    Connection::open(&path).unwrap().pragma_update(None, "user_version", 99).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found: 99, .. }), "{error}");
}

/// Names the store that [`a_writer_to_be_killed`] writes to.
const KILLED_STORE: &str = "TRIPTYCH_TEST_KILLED_STORE";

/// The rows of the append that makes revision `revision`: a few new ones, a late one, one that
/// replaces another; now and then more than a chunk.
fn batch(revision: i64) -> BTreeMap<i64, f64> {
    let n_new = if revision % 7 == 0 { 1500 } else { 20 };
    let value = |second: i64| f64::from(i32::try_from(second % 1000 + revision).unwrap());
    let first = revision * 2000;
    let late = [first - 3001, first - 2000].into_iter().filter(|second| *second > 0);
    (first..first + n_new).chain(late).map(|second| (second, value(second))).collect()
}

/// Does nothing in a run of the tests. Started by [`a_killed_writer_loses_nothing_acknowledged`] it
/// writes until it is killed.
#[tokio::test]
async fn a_writer_to_be_killed() {
    let Ok(path) = env::var(KILLED_STORE) else { return };
    let store = SqliteStore::open(Path::new(&path)).unwrap();
    let id = DatasetId::new(1).unwrap();
    let done = i64::try_from(store.newest(id, 1).unwrap().revision).unwrap();
    for revision in done + 1.. {
        let appended = contract::append(&store, id, contract::block(batch(revision))).await;
        println!("acknowledged {}", appended.revision);
    }
}

#[tokio::test]
async fn a_killed_writer_loses_nothing_acknowledged() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let store = SqliteStore::open(&path).unwrap();
    let id = contract::create(&store, contract::new_dataset("killed")).await;
    drop(store);
    let name = "store::sqlite::tests::a_writer_to_be_killed";
    for n_lines in [1, 9, 30, 4, 17, 50] {
        let mut writer = Command::new(env::current_exe().unwrap())
            .args([name, "--exact", "--nocapture"])
            .env(KILLED_STORE, &path)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
        let acknowledged = lines.filter_map(|line| {
            let line = line.unwrap();
            line.split_once("acknowledged ").map(|(_, number)| number.parse::<u64>().unwrap())
        });
        let last = acknowledged.take(n_lines).last().unwrap();
        writer.kill().unwrap();
        writer.wait().unwrap();

        let store = SqliteStore::open(&path).unwrap();
        let revision = store.newest(id, 1).unwrap().revision;
        assert!(revision >= last, "{last} was acknowledged, {revision} is there");
        let revisions = 1..=i64::try_from(revision).unwrap();
        let want: BTreeMap<i64, f64> = revisions.flat_map(batch).collect();
        contract::compare(&store, id, &want, &[(0, 3000, 1, 100_000)]);
    }
}
