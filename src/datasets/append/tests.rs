//! Tests that appends share transactions, and that each caller gets the outcome of its own append.

use std::path::Path;
use std::time::Duration;

use futures::future::join_all;
use model::block::Series;
use model::dataset::Dtype;
use model::key::KeyId;
use model::row::Value;
use model::timestamp::Timestamp;
use task::clock::Clock;
use task::group::Group;
use tempfile::tempdir;
use tsdb::catalog::{DatasetRef, NewDataset};
use tsdb::store::sqlite::SqliteStore;

use super::*;

/// Opens a store and creates a dataset with a single integer column.
async fn open(folder: &Path) -> (Datasets, DatasetId, Vec<Column>) {
    let store = SqliteStore::open(&folder.join("datasets.sqlite")).unwrap();
    let datasets = Datasets::new(Arc::new(store), Clock::system(), &Group::default());
    let new = NewDataset {
        name: "numbers".to_owned(),
        description: String::new(),
        metadata: std::collections::BTreeMap::new(),
        columns: vec![("n".to_owned(), Dtype::Integer)],
        tags: Vec::new(),
        owner: Some(KeyId::new(1)),
    };
    let dataset = datasets.create(new).await.unwrap().id;
    let columns = datasets.sight(KeyId::new(1), DatasetRef::Id(dataset)).await.unwrap().columns;
    (datasets, dataset, columns)
}

/// Returns rows at these seconds, all with the value `n`.
fn block(seconds: &[i64], n: i64) -> Block {
    let mut block = Block::new(&[Dtype::Integer]);
    block.times = seconds.iter().copied().map(Timestamp::from_seconds).collect();
    let Some(Series::Integer(values)) = block.columns.first_mut() else { panic!("no column") };
    values.extend(seconds.iter().map(|_| Some(n)));
    block
}

/// Appends all `blocks` concurrently. Returns the number of rows and the revision that each caller
/// received.
async fn append_at_once(
    datasets: &Datasets,
    dataset: DatasetId,
    columns: &[Column],
    blocks: Vec<Block>,
) -> Vec<Result<(u64, u64), String>> {
    let append = |block| datasets.append(dataset, AppendMode::Replace, columns, block, None);
    let done = join_all(blocks.into_iter().map(append)).await;
    let done = done.into_iter();
    done.map(|appended| match appended {
        Ok(Appended { n_rows, revision }) => Ok((n_rows, revision)),
        Err(error) => Err(error.to_string()),
    })
    .collect()
}

async fn stored_rows(datasets: &Datasets, dataset: DatasetId) -> Vec<(i64, Option<Value>)> {
    let read = datasets.read_store(move |store| {
        assert!(store.sight(None, &DatasetRef::Id(dataset))?.is_some());
        store.newest(dataset, 100)
    });
    let rows = read.await.unwrap().0.rows();
    rows.into_iter().map(|row| (row.timestamp.seconds(), row.values[0].clone())).collect()
}

#[tokio::test]
async fn waiting_appends_are_sorted_and_stored_in_one_transaction() {
    let folder = tempdir().unwrap();
    let (datasets, dataset, columns) = open(folder.path()).await;
    let blocks =
        vec![block(&[1, 2], 1), block(&[7, 8], 2), block(&[5], 3), block(&[3, 4, 5, 6], 4)];
    let done = append_at_once(&datasets, dataset, &columns, blocks).await;
    assert_eq!(done, [Ok((2, 1)), Ok((2, 2)), Ok((1, 2)), Ok((4, 2))]);
    let want = [1, 1, 4, 4, 4, 4, 2, 2].map(|n| Some(Value::Integer(n)));
    let want: Vec<_> = (1..=8).zip(want).collect();
    assert_eq!(stored_rows(&datasets, dataset).await, want);
    assert!(datasets.appends.queues.lock().is_empty(), "nothing is left behind");
}

#[tokio::test]
async fn rejected_append_does_not_affect_other_appends_of_its_transaction() {
    let folder = tempdir().unwrap();
    let (datasets, dataset, columns) = open(folder.path()).await;
    let day = 86_400;
    let rows = vec![block(&[0, 10 * day], 1)];
    append_at_once(&datasets, dataset, &columns, rows).await;
    let before = Timestamp::from_seconds(0) + Duration::from_hours(24);
    datasets.store.prune(dataset, before, 100, Arc::new(|_| {})).await.unwrap();
    let blocks =
        vec![block(&[11 * day], 2), block(&[1], 3), block(&[12 * day], 4), block(&[13 * day], 5)];
    let done = append_at_once(&datasets, dataset, &columns, blocks).await;
    assert!(done[1].as_ref().unwrap_err().contains("were deleted by retention"), "{done:?}");
    assert_eq!(done.iter().filter(|appended| appended.is_ok()).count(), 3);
    let seconds: Vec<_> =
        stored_rows(&datasets, dataset).await.into_iter().map(|(at, _)| at).collect();
    assert_eq!(seconds, [10, 11, 12, 13].map(|days| days * day));
}

#[test]
fn sorting_drops_all_but_the_last_row_of_each_timestamp() {
    let mut block = Block::new(&[Dtype::Integer]);
    block.times = [3, 1, 3, 2].map(Timestamp::from_seconds).to_vec();
    block.columns = vec![Series::Integer(vec![Some(1), Some(2), Some(3), None])];
    let sorted = sort_rows(&block, AppendMode::Replace);
    assert_eq!(sorted.times, [1, 2, 3].map(Timestamp::from_seconds));
    assert_eq!(sorted.columns, [Series::Integer(vec![Some(2), None, Some(3)])]);
}
