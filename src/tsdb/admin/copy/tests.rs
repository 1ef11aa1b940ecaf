//! Tests of copies between embedded stores. The tests of PostgreSQL stores cover copies to and from
//! databases.

use std::time::Duration;

use model::dataset::Dtype;
use model::key::KeyId;
use model::row::Value;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::admin::{remove_log, verify};
use crate::catalog::{ColumnChange, DatasetChange, DatasetRef, NewDataset, Tag, TagFilter};
use crate::store::sqlite::SqliteStore;
use crate::store::{Catalog as _, RowDeletion};

/// Number of rows of the long dataset, one every 7 seconds.
const ROWS: i64 = 40_000;

fn time(second: i64) -> Timestamp {
    Timestamp::from_seconds(1_700_000_000 + second)
}

fn id(number: i64) -> DatasetId {
    DatasetId::new(number).unwrap()
}

fn open(folder: &TempDir, name: &str) -> SqliteStore {
    SqliteStore::open(&folder.path().join(name).join("datasets.db")).unwrap()
}

/// Returns rows with values of each type, some of which are missing.
fn block(seconds: impl IntoIterator<Item = i64>, columns: &[Dtype]) -> Block {
    let mut block = Block::new(columns);
    for second in seconds {
        block.times.push(time(second));
        for (series, dtype) in block.columns.iter_mut().zip(columns) {
            let value = match dtype {
                Dtype::Float => Value::Float(f64::from(i32::try_from(second).unwrap()) / 7.0),
                Dtype::Integer => Value::Integer(second),
                Dtype::String => Value::String(format!("row {second} \"ä\"")),
                Dtype::Boolean => Value::Boolean(second % 2 == 0),
            };
            if second % 5 == 0 && *dtype != Dtype::Float {
                series.push_missing(1);
            } else {
                series.push(value).unwrap();
            }
        }
    }
    block
}

fn append(store: &dyn Store, dataset: i64, rows: Block, created: i64) {
    let append = Append {
        mode: AppendMode::Replace,
        rows,
        now: time(created),
        batches: Vec::new(),
        beneath: None,
    };
    block_on(store.append(id(dataset), append, Arc::new(|_, _| {}))).unwrap();
}

/// Fills a store with datasets of every kind: with late and corrected rows, with pruned rows, with a
/// deleted column, without rows, and without numeric columns. Also deletes a dataset.
pub(crate) fn fill(store: &dyn Store) {
    let all = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
    let names = ["close", "trades", "note", "is_final"].map(str::to_owned);
    let columns: Vec<_> = names.into_iter().zip(all).collect();
    let new = |name: &str, columns: &[(String, Dtype)], owner| NewDataset {
        name: name.to_owned(),
        description: format!("All of {name}"),
        metadata: [("ticker".to_owned(), name.to_owned())].into(),
        columns: columns.to_vec(),
        tags: vec!["public".to_owned(), "desk".to_owned()],
        owner,
    };
    let (owner, reader) = (KeyId::new(3), KeyId::new(4));
    let datasets = vec![
        new("deleted", &columns, Some(owner)),
        new("long", &columns, Some(owner)),
        new("pruned", &columns, None),
        new("empty", &columns, Some(owner)),
        new("texts", &columns[2..], Some(reader)),
    ];
    block_on(store.create(datasets, time(1))).unwrap();
    assert!(block_on(store.delete(id(1))).unwrap());
    for part in 0..10 {
        let seconds = (part * ROWS / 10..(part + 1) * ROWS / 10).map(|row| row * 7);
        append(store, 2, block(seconds, &all), 2 + part);
        append(store, 3, block((part * 3000..part * 3000 + 3000).map(|row| row * 2), &all), part);
    }
    append(store, 2, block((0..500).map(|row| row * 70 + 3), &all), 20);
    append(store, 2, block((0..300).map(|row| row * 7), &all), 21);
    append(store, 5, block(0..50, &all[2..]), 22);
    let column = ColumnChange::Delete("trades".to_owned());
    block_on(store.change(id(2), DatasetChange::Column(column), time(23))).unwrap();
    // Ends the pruning within a bucket, so that the bucket retains some of its rows.
    assert!(
        block_on(store.prune(id(3), time(31_333), 99_999, Arc::new(|_| {}))).unwrap().n_rows > 0
    );
    for change in [
        TagChange::Give { owner: None, tag: "public".to_owned(), key: reader },
        TagChange::Give { owner: Some(owner), tag: "desk".to_owned(), key: reader },
    ] {
        assert!(block_on(store.change_tag(change)).unwrap());
    }
}

fn change_column(store: &dyn Store, dataset: i64, change: ColumnChange) {
    block_on(store.change(id(dataset), DatasetChange::Column(change), time(30))).unwrap();
}

/// Changes of datasets after they were copied: late rows and corrections, deleted and pruned rows,
/// renamed, deleted and added columns.
pub(crate) const CHANGES: [fn(&dyn Store); 5] = [
    |store| {
        let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
        append(store, 2, block([1, 7, 90_001], &columns), 30);
        append(store, 3, block([58_001], &columns), 30);
    },
    |store| {
        let span = Span { first: time(200_000), last: time(200_100) };
        assert!(
            block_on(store.delete_rows(id(2), RowDeletion::new(span, time(32)), Arc::new(|_| {})))
                .unwrap()
                .n_rows
                > 0
        );
        // Deletes buckets of pruned rows.
        let span = Span { first: Timestamp::MIN, last: time(9000) };
        block_on(store.delete_rows(id(3), RowDeletion::new(span, time(30)), Arc::new(|_| {})))
            .unwrap();
    },
    |store| {
        for (dataset, before) in [(2, 100_000), (3, 45_000)] {
            let pruned = store.prune(id(dataset), time(before), 99_999, Arc::new(|_| {}));
            assert!(block_on(pruned).unwrap().n_rows > 0);
        }
    },
    |store| {
        // Prunes all rows.
        let pruned = store.prune(id(3), time(999_999), 999_999, Arc::new(|_| {}));
        assert!(block_on(pruned).unwrap().n_rows > 0);
    },
    |store| {
        let (name, new_name) = ("note".to_owned(), "remark".to_owned());
        change_column(store, 2, ColumnChange::Rename { name, new_name });
        change_column(store, 2, ColumnChange::Delete("is_final".to_owned()));
        change_column(store, 2, ColumnChange::Add("is_final".to_owned(), Dtype::Integer));
    },
];

/// Name, columns, tags, rows and buckets of a dataset.
#[derive(Debug, PartialEq)]
pub(crate) struct Contents {
    entry: (String, Vec<(String, Dtype)>, Vec<Tag>),
    rows: Block,
    buckets: Vec<Bucket>,
}

fn contents(store: &dyn Engine, id: DatasetId) -> Contents {
    let entry = CatalogEntry::read(store, id).unwrap().unwrap();
    let columns: Vec<_> = entry.visible().collect();
    let dtypes: Vec<Dtype> = columns.iter().map(|(_, column)| column.dtype).collect();
    let (mut rows, mut buckets) = (Block::new(&dtypes), Vec::new());
    for resolution in [Resolution::Raw, Resolution::FiveMinutes, Resolution::Day] {
        store
            .scan(id, resolution, Span::ALL, &mut |batch| {
                match batch.rows()? {
                    Rows::Raw(block) => {
                        rows.extend_from(&select(block.clone(), &columns), 0..block.len());
                    }
                    Rows::Buckets(more) => buckets.extend(more),
                }
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
    }
    rows.ids.clear();
    let names = columns.iter().map(|(_, column)| (column.name.clone(), column.dtype)).collect();
    Contents { entry: (entry.dataset.name, names, entry.tags), rows, buckets }
}

/// Copies all datasets. Returns their outcomes and contents, which are checked to be equal in both
/// stores.
pub(crate) fn copy_all(from: &dyn Engine, to: &dyn Engine) -> Vec<(CopiedDataset, Contents)> {
    let mut copied = Vec::new();
    let outcome = copy(from, to, &|_| true, &mut |progress| {
        if let CopyProgress::Copied(dataset) = progress {
            copied.push(dataset.clone());
        }
        ControlFlow::Continue(())
    });
    let outcome = outcome.unwrap();
    assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    assert_eq!(outcome.n_copied, 4);
    assert_eq!(from.grants().unwrap(), to.grants().unwrap());
    let with_contents = |copied: CopiedDataset| {
        let contents = [from, to].map(|store| contents(store, copied.id));
        assert!(contents[0] == contents[1], "{copied:?}");
        let [_, contents] = contents;
        (copied, contents)
    };
    copied.into_iter().map(with_contents).collect()
}

/// Stops a copy after `n_commits` commits.
pub(crate) fn copy_some(from: &dyn Engine, to: &dyn Engine, n_commits: usize) {
    let mut n_left = n_commits;
    let stopped = copy(from, to, &|_| true, &mut |progress| {
        n_left -= usize::from(matches!(progress, CopyProgress::Rows { .. }));
        if n_left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(CopyError::Stopped)), "{stopped:?}");
}

#[test]
fn copied_store_equals_its_source() {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    let copied = copy_all(&from, &to);
    let names: Vec<_> = copied.iter().map(|(copied, _)| (copied.id.get(), &*copied.name)).collect();
    assert_eq!(names, [(2, "long"), (3, "pruned"), (4, "empty"), (5, "texts")]);
    assert_eq!(copied[0].0.n_rows, 40_000 + 500);
    assert!(copied[1].0.n_buckets > 200 && copied[3].0.n_buckets == 0);
    let mut after = None;
    while let Some(id) = from.next_dataset(after).unwrap() {
        let source = CatalogEntry::read(&from, id).unwrap().unwrap();
        after = Some(id);
        let copy = CatalogEntry::read(&to, id).unwrap().unwrap();
        assert_eq!((&copy.dataset, copy.owner), (&source.dataset, source.owner));
        assert_eq!((&copy.tags, copy.kept_from), (&source.tags, source.kept_from));
        let times = |entry: &CatalogEntry| -> Vec<_> {
            let shown = entry.columns.iter().filter(|column| !column.is_deleted());
            shown.map(|column| (column.name.clone(), column.created_at)).collect()
        };
        assert_eq!(times(&copy), times(&source));
    }
    let sight = to.sight(Some(KeyId::new(4)), &DatasetRef::Id(id(2))).unwrap();
    assert_eq!(sight.unwrap().matching_tags, ["desk", "public"]);
    assert!(
        to.tags(TagFilter::KnownTo(KeyId::new(3))).unwrap().iter().any(|tag| tag.name == "desk")
    );
    drop((from, to));
    let report = verify(&folder.path().join("to/datasets.db"), None, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn stopped_copy_resumes_and_a_complete_copy_adds_only_new_rows() {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    for n_commits in 1..4 {
        copy_some(&from, &to, n_commits);
    }
    drop(to);
    let to = open(&folder, "to");
    let first = copy_all(&from, &to);
    let again = copy_all(&from, &to);
    assert!(first == again);
    let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
    append(&from, 2, block([ROWS * 7, ROWS * 7 + 1], &columns), 30);
    let grown = copy_all(&from, &to);
    assert_eq!(grown[0].0.n_rows, first[0].0.n_rows + 2);
    assert!(grown[1..] == first[1..]);
}

#[test]
fn changes_of_the_source_are_copied_by_the_next_run() {
    for change in CHANGES {
        let folder = tempdir().unwrap();
        let (from, to) = (open(&folder, "from"), open(&folder, "to"));
        fill(&from);
        let first = copy_all(&from, &to);
        change(&from);
        let second = copy_all(&from, &to);
        assert!(first != second, "nothing was changed");
        assert!(copy_all(&from, &to) == second);
        drop((from, to));
        let path = folder.path().join("to/datasets.db");
        let report = verify(&path, None, &mut |_| {}).unwrap();
        assert!(report.is_sound(), "{report:?}");
    }
}

#[test]
fn target_dataset_with_the_same_id_is_not_overwritten() {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    fill(&to);
    block_on(to.delete(id(2))).unwrap();
    let new = |name: &str| NewDataset {
        name: name.to_owned(),
        description: String::new(),
        metadata: [].into(),
        columns: Vec::new(),
        tags: Vec::new(),
        owner: None,
    };
    block_on(to.create(vec![new("other")], time(1) + Duration::from_secs(1))).unwrap();
    block_on(from.create(vec![new("mine")], time(1))).unwrap();
    block_on(from.create(vec![new("after")], time(1))).unwrap();
    let outcome = copy(&from, &to, &|_| true, &mut |_| ControlFlow::Continue(())).unwrap();
    let [FailedCopy { name, error: CopyError::NumberTaken { other }, .. }] = &outcome.failed[..]
    else {
        panic!("{outcome:?}")
    };
    assert_eq!((&**name, &**other, outcome.n_copied), ("mine", "other", 5));
    assert_eq!(
        CatalogEntry::read(&to, id(7)).unwrap().unwrap().dataset.name,
        "after",
        "it keeps no others back"
    );
}

#[test]
fn changed_copy_is_not_overwritten() {
    let changes: [fn(&SqliteStore); 3] = [
        |to| {
            let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
            append(to, 2, block([999_999], &columns), 30);
        },
        |to| {
            let pruned = to.prune(id(2), time(100_000), 99_999, Arc::new(|_| {}));
            assert!(block_on(pruned).unwrap().n_rows > 0);
        },
        |to| {
            let attach = TagChange::Attach(id(2), "own".to_owned());
            assert!(block_on(to.change_tag(attach)).unwrap());
        },
    ];
    for change in changes {
        let folder = tempdir().unwrap();
        let (from, to) = (open(&folder, "from"), open(&folder, "to"));
        fill(&from);
        copy_all(&from, &to);
        change(&to);
        let before = CatalogEntry::read(&to, id(2)).unwrap();
        let outcome = copy(&from, &to, &|_| true, &mut |_| ControlFlow::Continue(()));
        let outcome = outcome.unwrap();
        let [FailedCopy { error: CopyError::CopyChanged, .. }] = &outcome.failed[..] else {
            panic!("{outcome:?}")
        };
        assert_eq!((outcome.n_copied, CatalogEntry::read(&to, id(2)).unwrap()), (3, before));
    }
}

#[test]
fn repeated_copy_does_not_start_over_while_its_source_is_written() {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
    let mut second = ROWS * 7;
    let mut n_before = Vec::new();
    for _ in 0..2 {
        let outcome = copy(&from, &to, &|_| true, &mut |progress| {
            match progress {
                CopyProgress::Began { dataset, n_rows } if dataset.id == id(2) => {
                    n_before.push(n_rows);
                }
                CopyProgress::Compared { .. } => {
                    second += 1;
                    append(&from, 2, block([second], &columns), 30);
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
        let outcome = outcome.unwrap();
        assert!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    }
    assert_eq!(n_before, [0, 40_500]);
    let copied = copy_all(&from, &to);
    assert_eq!(copied[0].0.n_rows, 40_500 + u64::try_from(second - ROWS * 7).unwrap());
}

#[test]
fn copied_file_is_complete_without_its_log() {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    let copied = copy_all(&from, &to);
    let path = folder.path().join("to").join("datasets.db");
    drop(to);
    remove_log(&path).unwrap();
    assert!(!path.with_extension("db-wal").exists());
    let alone = folder.path().join("alone.db");
    std::fs::copy(&path, &alone).unwrap();
    let report = verify(&alone, None, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    assert_eq!(report.n_datasets, copied.len() as u64);
}
