//! Tests of copies between embedded stores. The tests of databases cover copies to and from them.

use std::time::Duration;

use model::block::Series;
use model::key::KeyId;
use model::row::Value;
use tempfile::{TempDir, tempdir};

use super::*;
use crate::catalog::{ColumnChange, NewDataset, TagFilter};
use crate::store::sqlite::SqliteStore;
use crate::store::{Append, AppendMode, Store};

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

/// Returns a row of each type of value, some of them missing.
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
    let append =
        Append { mode: AppendMode::Replace, rows, now: time(created), batches: Vec::new() };
    block_on(store.append(id(dataset), append, Box::new(|_, _| {}))).unwrap();
}

/// Fills a store with datasets of every kind: with late and corrected rows, with pruned rows, with
/// a deleted column, without rows, of no number, and a deleted one.
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
    // Some rows before the end of the last bucket that lost a row remain.
    assert!(block_on(store.prune(id(3), time(31_333), 99_999, Box::new(|_| {}))).unwrap() > 0);
    for change in [
        TagChange::Acquire { tag: "public".to_owned(), key: reader },
        TagChange::Give { owner, tag: "desk".to_owned(), key: reader },
    ] {
        assert!(block_on(store.change_tag(change)).unwrap());
    }
}

/// Changes rows and columns that were copied before: late rows and corrections, deleted and pruned
/// rows, renamed, deleted and added columns.
pub(crate) fn change(store: &dyn Store) {
    let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
    append(store, 2, block([1, 7, 90_001], &columns), 30);
    append(store, 2, block((0..3000).map(|row| 90_002 + row * 7), &columns), 31);
    let span = Span { first: time(200_000), last: time(200_100) };
    assert!(block_on(store.delete_rows(id(2), span, time(32), Box::new(|_| {}))).unwrap() > 0);
    assert!(block_on(store.prune(id(3), time(45_000), 99_999, Box::new(|_| {}))).unwrap() > 0);
    let (name, new_name) = ("note".to_owned(), "remark".to_owned());
    for change in [
        ColumnChange::Rename { name, new_name },
        ColumnChange::Delete("is_final".to_owned()),
        ColumnChange::Add("is_final".to_owned(), Dtype::Integer),
    ] {
        block_on(store.change(id(2), DatasetChange::Column(change), time(33))).unwrap();
    }
}

/// Returns the copied datasets with their checksums.
pub(crate) fn copy_all(from: &dyn CopyStore, to: &dyn CopyStore) -> Vec<CopiedDataset> {
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
    copied
}

/// Copies until `n_commits` were made, then stops.
pub(crate) fn copy_some(from: &dyn CopyStore, to: &dyn CopyStore, n_commits: usize) {
    let mut n_left = n_commits;
    let stopped = copy(from, to, &|_| true, &mut |progress| {
        n_left -= usize::from(matches!(progress, CopyProgress::Rows { .. }));
        if n_left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    assert!(matches!(stopped, Err(CopyError::Stopped)), "{stopped:?}");
}

#[test]
fn copy_equals_its_source() {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    let copied = copy_all(&from, &to);
    let names: Vec<_> = copied.iter().map(|copied| (copied.id.get(), &*copied.name)).collect();
    assert_eq!(names, [(2, "long"), (3, "pruned"), (4, "empty"), (5, "texts")]);
    assert_eq!(copied[0].n_rows, 40_000 + 500);
    assert!(copied[1].n_buckets > 200 && copied[3].n_buckets == 0, "{copied:?}");
    let mut after = None;
    while let Some(source) = from.next_entry(after).unwrap() {
        after = Some(source.dataset.id);
        let copy = to.next_entry(DatasetId::new(source.dataset.id.get() - 1)).unwrap().unwrap();
        assert_eq!((&copy.dataset, copy.owner), (&source.dataset, source.owner));
        assert_eq!((&copy.tags, copy.kept_from), (&source.tags, source.kept_from));
        let times = |entry: &CatalogEntry| -> Vec<_> {
            let shown = entry.columns.iter().filter(|column| !column.is_deleted());
            shown.map(|column| (column.name.clone(), column.created_at)).collect()
        };
        assert_eq!(times(&copy), times(&source));
    }
    let sight = to.sight(Some(KeyId::new(4)), &crate::catalog::DatasetRef::Id(id(2))).unwrap();
    assert_eq!(sight.unwrap().matching_tags, ["desk", "public"]);
    assert!(
        to.tags(TagFilter::KnownTo(KeyId::new(3))).unwrap().iter().any(|tag| tag.name == "desk")
    );
    drop((from, to));
    let report =
        crate::admin::verify(&folder.path().join("to/datasets.db"), None, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
}

#[test]
fn stopped_copy_resumes_and_a_complete_one_adds_new_rows() {
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
    assert_eq!(first, again);
    let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
    append(&from, 2, block([ROWS * 7, ROWS * 7 + 1], &columns), 30);
    let grown = copy_all(&from, &to);
    assert_eq!(grown[0].n_rows, first[0].n_rows + 2);
    assert_eq!(grown[1..], first[1..]);
}

/// Returns the number of the latest row of dataset 2, which changes if the row is copied again.
fn newest_number(store: &dyn Store) -> Vec<i64> {
    store.newest(id(2), 1).unwrap().0.ids
}

/// Checks that a copy follows the changes that `change` makes without copying anything else.
#[track_caller]
fn check_followed(change: impl FnOnce(&SqliteStore)) -> Vec<CopiedDataset> {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    let first = copy_all(&from, &to);
    let number = newest_number(&to);
    change(&from);
    let second = copy_all(&from, &to);
    assert_ne!(first, second, "nothing was changed");
    assert_eq!(newest_number(&to), number, "what is equal is not copied again");
    assert_eq!(copy_all(&from, &to), second);
    drop((from, to));
    let report =
        crate::admin::verify(&folder.path().join("to/datasets.db"), None, &mut |_| {}).unwrap();
    assert!(report.is_sound(), "{report:?}");
    second
}

#[test]
fn changes_of_every_kind_are_copied_together() {
    check_followed(|from| change(from));
}

#[test]
fn late_rows_and_corrections_are_copied_by_the_next_run() {
    let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
    check_followed(|from| {
        append(from, 2, block([1, 7, 90_001], &columns), 30);
        append(from, 2, block((0..3000).map(|row| 90_002 + row * 7), &columns), 31);
    });
    check_followed(|from| append(from, 3, block([58_001], &columns), 30));
}

#[test]
fn rows_deleted_at_the_source_are_deleted_in_the_copy() {
    check_followed(|from| {
        for (first, last) in [(0, 13), (80_000, 190_000), (200_004, 200_004)] {
            let span = Span { first: time(first), last: time(last) };
            let gone = from.delete_rows(id(2), span, time(30), Box::new(|_| {}));
            assert!(block_on(gone).unwrap() > 0);
        }
    });
}

#[test]
fn rows_pruned_at_the_source_are_pruned_in_the_copy() {
    let followed = check_followed(|from| {
        for (dataset, before) in [(2, 100_000), (3, 45_000)] {
            let pruned = from.prune(id(dataset), time(before), 99_999, Box::new(|_| {}));
            assert!(block_on(pruned).unwrap() > 0);
        }
    });
    assert!(followed[0].n_rows < 30_000 && followed[0].n_buckets > 900, "{followed:?}");
    // No rows are left.
    check_followed(|from| {
        let pruned = from.prune(id(3), time(999_999), 999_999, Box::new(|_| {}));
        assert!(block_on(pruned).unwrap() > 0);
    });
}

#[test]
fn columns_are_renamed_deleted_and_added_like_those_of_the_source() {
    let change = |from: &SqliteStore, change| {
        block_on(from.change(id(2), DatasetChange::Column(change), time(30))).unwrap();
    };
    let rename = |name: &str, new_name: &str| ColumnChange::Rename {
        name: name.to_owned(),
        new_name: new_name.to_owned(),
    };
    check_followed(|from| {
        change(from, rename("note", "remark"));
        change(from, ColumnChange::Delete("is_final".to_owned()));
        change(from, ColumnChange::Add("is_final".to_owned(), Dtype::Integer));
    });
    check_followed(|from| {
        change(from, ColumnChange::Delete("note".to_owned()));
        let mut rows = block([8, 300_001], &[Dtype::Float, Dtype::Integer]);
        for series in [Dtype::String, Dtype::Boolean].map(Series::new) {
            rows.columns.push(series);
        }
        rows.columns[2].push_missing(2);
        rows.columns[3].push_missing(2);
        // The latest earlier row is not copied again, only the one after it.
        let day = Span { first: time(300_000), last: time(300_002) };
        append(from, 2, rows, 31);
        block_on(from.delete_rows(id(2), day, time(32), Box::new(|_| {}))).unwrap();
    });
}

#[test]
fn dataset_with_the_same_id_is_not_written() {
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
        entry(&to, id(7)).unwrap().unwrap().dataset.name,
        "after",
        "it keeps no others back"
    );
}

#[test]
fn copy_that_cannot_follow_its_source_is_made_again() {
    let check = |change: &dyn Fn(&SqliteStore)| {
        let folder = tempdir().unwrap();
        let (from, to) = (open(&folder, "from"), open(&folder, "to"));
        fill(&from);
        copy_all(&from, &to);
        change(&from);
        let copied = copy_all(&from, &to);
        assert_eq!(copy_all(&from, &to), copied);
    };
    let rename = |from: &SqliteStore, name: &str, new_name: &str| {
        let (name, new_name) = (name.to_owned(), new_name.to_owned());
        let change = DatasetChange::Column(ColumnChange::Rename { name, new_name });
        block_on(from.change(id(5), change, time(30))).unwrap();
    };
    // Columns that changed places.
    check(&|from| {
        for (name, new_name) in [("note", "x"), ("is_final", "note"), ("x", "is_final")] {
            rename(from, name, new_name);
        }
    });
    // Buckets without rows.
    check(&|from| {
        let span = Span { first: Timestamp::MIN, last: time(9000) };
        block_on(from.delete_rows(id(3), span, time(30), Box::new(|_| {}))).unwrap();
    });
}

#[test]
fn copy_that_was_written_after_its_source_is_not_changed() {
    let folder = tempdir().unwrap();
    let (from, to) = (open(&folder, "from"), open(&folder, "to"));
    fill(&from);
    copy_all(&from, &to);
    let columns = [Dtype::Float, Dtype::Integer, Dtype::String, Dtype::Boolean];
    append(&to, 2, block([999_999], &columns), 30);
    let outcome = copy(&from, &to, &|_| true, &mut |_| ControlFlow::Continue(())).unwrap();
    let [FailedCopy { error: CopyError::CopyIsNewer { copy, .. }, .. }] = &outcome.failed[..]
    else {
        panic!("{outcome:?}")
    };
    assert_eq!((*copy, outcome.n_copied), (time(30), 3));
    assert_eq!(entry(&to, id(2)).unwrap().unwrap().newest, Some(time(999_999)));
}

#[test]
fn pruned_copy_and_copy_with_other_tags_are_not_deleted() {
    let check = |of: i64, change: &dyn Fn(&SqliteStore)| {
        let folder = tempdir().unwrap();
        let (from, to) = (open(&folder, "from"), open(&folder, "to"));
        fill(&from);
        copy_all(&from, &to);
        change(&to);
        let before = entry(&to, id(of)).unwrap();
        // A change that requires another copy of the whole dataset.
        for (name, new_name) in [("note", "x"), ("is_final", "note"), ("x", "is_final")] {
            let (name, new_name) = (name.to_owned(), new_name.to_owned());
            let change = DatasetChange::Column(ColumnChange::Rename { name, new_name });
            block_on(from.change(id(of), change, time(30))).unwrap();
        }
        let mut outcome = copy(&from, &to, &|_| true, &mut |_| ControlFlow::Continue(())).unwrap();
        assert_eq!((outcome.n_copied, outcome.failed.len()), (3, 1), "{outcome:?}");
        let after = entry(&to, id(of)).unwrap();
        assert_eq!(after.unwrap().newest, before.unwrap().newest);
        outcome.failed.remove(0).error
    };
    let pruned = check(2, &|to| {
        let pruned = to.prune(id(2), time(100_000), 99_999, Box::new(|_| {}));
        assert!(block_on(pruned).unwrap() > 0);
    });
    assert!(matches!(pruned, CopyError::CopyIsPruned { .. }), "{pruned:?}");
    let tagged = check(5, &|to| {
        assert!(block_on(to.change_tag(TagChange::Attach(id(5), "own".to_owned()))).unwrap());
    });
    assert!(matches!(tagged, CopyError::Differs { what: "tags" }), "{tagged:?}");
}
