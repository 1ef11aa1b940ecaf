//! Tests that stores with and without an archive return the same.

mod objects;
mod races;
mod row_groups;
mod server;

use std::fs;
use std::io::{Seek as _, Write as _};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures::executor::block_on;
use model::block::{Block, Rows};
use model::dataset::{DatasetId, Dtype};
use model::resolution::Resolution;
use model::row::Value;
use model::timestamp::Timestamp;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use tempfile::{TempDir, tempdir};

pub(crate) use self::races::check_meanwhile;
use self::server::TestServer;
use super::month::Month;
use super::objects::{ObjectError, Objects};
use super::{ArchiveOptions, ArchivedStore};
use crate::admin::copy::copy;
use crate::admin::{self};
use crate::catalog::{ColumnChange, DatasetChange, DatasetRef};
use crate::span::{Order, Span};
use crate::store::engine::Engine;
use crate::store::row_batch::RowBatch;
use crate::store::sqlite::SqliteStore;
use crate::store::tests::{create, new_dataset};
use crate::store::{Append, AppendMode, Count, PageRead, RowDeletion, Store, StoreError};

/// Seconds between two rows of a test. A hundred days have 2 400 rows.
const STEP: i64 = 3_600;

/// Current time of the tests, at which all rows are old enough to be archived.
const LATE: Timestamp = Timestamp::from_seconds(900 * 86_400);

const OPTIONS: ArchiveOptions =
    ArchiveOptions { after: Duration::from_hours(24), grace: Duration::ZERO };

fn at(step: i64) -> Timestamp {
    Timestamp::from_seconds(step * STEP)
}

/// Opens the store in a directory. Creates the store if it does not exist.
pub(crate) type OpenIn<'a> = &'a dyn Fn(&Path) -> Arc<dyn Engine>;

fn open_file(folder: &Path) -> Arc<dyn Engine> {
    Arc::new(SqliteStore::open(&folder.join("datasets.sqlite")).unwrap())
}

fn open(folder: &Path) -> ArchivedStore {
    open_archived(folder, &open_file)
}

fn open_archived(folder: &Path, open: OpenIn<'_>) -> ArchivedStore {
    let mut store = ArchivedStore::new(open(folder), objects_in(folder), OPTIONS);
    // A month of the tests has several row groups.
    Arc::get_mut(&mut store.archive).unwrap().group_rows = 200;
    store
}

/// Opens the directory `archive` in `folder`, which is created if it is missing.
fn objects_in(folder: &Path) -> Objects {
    let folder = folder.join("archive");
    fs::create_dir_all(&folder).unwrap();
    Objects::open(&format!("file://{}", folder.display()).parse().unwrap()).unwrap()
}

/// Ends the lease of a store immediately.
fn end_lease(store: &ArchivedStore) {
    block_on(store.archive.store.lease_archive(store.archive.holder, Duration::ZERO)).unwrap();
}

/// Returns rows with two columns, given as pairs of a step and a value. The value 0 is a missing value.
fn rows(steps: &[(i64, u8)]) -> Block {
    let mut block = Block::new(&[Dtype::Float, Dtype::String]);
    for (step, value) in steps {
        block.times.push(at(*step));
        let number = Value::Float(f64::from(*value) / 4.0);
        match value {
            0 => block.columns[0].push_missing(1),
            _ => block.columns[0].push(number).unwrap(),
        }
        block.columns[1].push(Value::String(format!("{step} {value}"))).unwrap();
    }
    block
}

fn append(store: &dyn Store, dataset: DatasetId, mode: AppendMode, steps: &[(i64, u8)]) {
    let now = Timestamp::from_seconds(1);
    let append = Append { mode, rows: rows(steps), now, batches: Vec::new(), beneath: None };
    block_on(store.append(dataset, append, Arc::new(|_, _| ()))).unwrap();
}

fn delete(store: &dyn Store, dataset: DatasetId, first: i64, last: i64) -> u64 {
    let span = Span { first: at(first), last: at(last) };
    let deletion = RowDeletion::new(span, at(0));
    block_on(store.delete_rows(dataset, deletion, Arc::new(|_| ()))).unwrap().n_rows
}

fn new_pair(store: &dyn Store) -> DatasetId {
    let mut new = new_dataset("rows");
    new.columns = vec![("value".to_owned(), Dtype::Float), ("note".to_owned(), Dtype::String)];
    block_on(create(store, new))
}

/// Returns `n` rows, one for each hour from `start` on. A month of 30 days has 720 rows.
fn hours(start: i64, n: i64) -> Vec<(i64, u8)> {
    (start..start + n).map(|step| (step, u8::try_from(step.rem_euclid(250)).unwrap() + 1)).collect()
}

fn read(span: Span, order: Order, skip: u64, limit: usize) -> PageRead {
    PageRead { resolution: Resolution::Raw, span, order, skip, limit, count: Count::All }
}

fn scanned(store: &dyn Store, dataset: DatasetId, span: Span) -> Block {
    let mut found = rows(&[]);
    store
        .scan(dataset, Resolution::Raw, span, &mut |batch| {
            let n_rows = batch.n_rows;
            let Rows::Raw(block) = batch.rows()? else { panic!("not rows") };
            assert_eq!(block.len(), n_rows);
            found.extend_from(&block, 0..n_rows);
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    found
}

/// Checks that all reads of two datasets have equal results.
fn compare(
    one: &dyn Store,
    other: &dyn Store,
    dataset: DatasetId,
    reads: &[(u64, usize, i64, i64)],
) {
    assert_eq!(scanned(one, dataset, Span::ALL), scanned(other, dataset, Span::ALL));
    for (skip, limit, start, length) in reads {
        let span = Span { first: at(*start), last: at(start + length) };
        assert_eq!(scanned(one, dataset, span), scanned(other, dataset, span));
        for order in [Order::Ascending, Order::Descending] {
            for (count, span) in [(Count::All, span), (Count::Nothing, Span::ALL)] {
                let read = PageRead { count, ..read(span, order, *skip, *limit) };
                let (one, other) = (one.page(dataset, &read), other.page(dataset, &read));
                let (one, other) = (one.unwrap(), other.unwrap());
                assert_eq!((one.count, one.rows), (other.count, other.rows), "{read:?}");
            }
        }
    }
    for resolution in Resolution::ALL.into_iter().skip(1) {
        let read = PageRead { resolution, ..read(Span::ALL, Order::Ascending, 0, usize::MAX) };
        let (one, other) = (one.page(dataset, &read).unwrap(), other.page(dataset, &read).unwrap());
        assert_eq!(one.rows, other.rows, "{resolution}");
    }
    let newest = |store: &dyn Store| {
        let sight = store.sight(None, &DatasetRef::Id(dataset)).unwrap().unwrap();
        sight.newest
    };
    assert_eq!(newest(one), newest(other));
    for after in [0, 5, 100, 4_000] {
        let since = |store: &dyn Store| {
            store.since(dataset, after, 50).unwrap().map(|since| (since.rows, since.is_all))
        };
        assert_eq!(since(one), since(other), "after {after}");
    }
}

/// A random write to a dataset, or a step between writes.
#[derive(Debug, Clone)]
enum Operation {
    Append(AppendMode, Vec<(i64, u8)>),
    Delete(i64, i64),
    Archive,
    Reopen,
}

fn operation() -> impl Strategy<Value = Operation> {
    let mode = || prop_oneof![3 => Just(AppendMode::Replace), 1 => Just(AppendMode::Merge)];
    prop_oneof![
        4 => (mode(), prop::collection::btree_map(0..2_400_i64, 0..9_u8, 1..20))
            .prop_map(|(mode, rows)| Operation::Append(mode, rows.into_iter().collect())),
        2 => (mode(), 0..2_000_i64, 600..1_500_i64)
            .prop_map(|(mode, start, n)| Operation::Append(mode, hours(start, n))),
        2 => (0..2_400_i64, 0..900_i64).prop_map(|(from, n)| Operation::Delete(from, from + n)),
        3 => Just(Operation::Archive),
        1 => Just(Operation::Reopen),
    ]
}

#[test]
fn archived_rows_are_read_like_rows_of_a_store_without_archive() {
    check_equal(&open_file, 24);
}

/// Makes the same random writes to a dataset with an archive and to a dataset without an archive, and
/// compares the reads.
pub(crate) fn check_equal(open: OpenIn<'_>, n_cases: u32) {
    let reads = (0..2_500_u64, 1..700_usize, -99..2_400_i64, 0..2_000_i64);
    let strategy = (prop::collection::vec(operation(), 1..10), prop::collection::vec(reads, 3));
    let check = |(operations, reads): (Vec<Operation>, Vec<_>)| {
        let (folder, plain_folder) = (tempdir().unwrap(), tempdir().unwrap());
        let plain = open(plain_folder.path());
        let plain: &dyn Store = &*plain;
        let mut store = open_archived(folder.path(), open);
        let id = new_pair(plain);
        assert_eq!(new_pair(&store), id);
        for operation in operations {
            match operation {
                Operation::Append(mode, rows) => {
                    append(plain, id, mode, &rows);
                    append(&store, id, mode, &rows);
                }
                Operation::Delete(first, last) => {
                    assert_eq!(delete(plain, id, first, last), delete(&store, id, first, last));
                }
                Operation::Archive => {
                    store.archive(LATE).unwrap().unwrap();
                }
                Operation::Reopen => {
                    drop(store);
                    store = open_archived(folder.path(), open);
                }
            }
            compare(&store, plain, id, &reads);
        }
        Ok(())
    };
    TestRunner::new(Config::with_cases(n_cases)).run(&strategy, check).unwrap();
}

/// Creates a store with three archived months. Also returns the path of the file of the second month.
fn archived() -> (TempDir, ArchivedStore, DatasetId, std::path::PathBuf) {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let id = new_pair(&store);
    append(&store, id, AppendMode::Replace, &hours(0, 2_000));
    let report = store.archive(LATE).unwrap().unwrap();
    assert_eq!((report.n_files, report.n_rows), (3, 2_000));
    let file = folder.path().join(format!("archive/dataset={id}/month=1970-02/part-0.parquet"));
    assert!(file.is_file());
    (folder, store, id, file)
}

/// Checks that the second month cannot be read, that the error names it, and that other months can be
/// read.
fn check_lost(folder: &Path, id: DatasetId) {
    let store = open(folder);
    let error = store.page(id, &read(Span::ALL, Order::Ascending, 0, 2_000)).unwrap_err();
    assert!(matches!(error, StoreError::Archive { .. }), "{error:?}");
    assert_eq!(error.to_string(), format!("archive of dataset {id} is unavailable for 1970-02"));
    let january = Span { first: at(0), last: at(743) };
    let page = PageRead { count: Count::Nothing, ..read(january, Order::Ascending, 0, 2_000) };
    assert_eq!(store.page(id, &page).unwrap().rows.len(), 744);
    let day = PageRead { resolution: Resolution::Day, ..read(Span::ALL, Order::Ascending, 0, 99) };
    assert_eq!(store.page(id, &day).unwrap().rows.len(), 84, "buckets need no archive");
    let counted = store.page(id, &read(Span::ALL, Order::Descending, 0, 10)).unwrap();
    assert_eq!((counted.count, counted.rows.len()), (Some(2_000), 10), "counted by the record");
    let (newest, _) = (&store as &dyn Store).newest(id, 1_000).unwrap();
    assert_eq!(newest.times.first(), Some(&at(59 * 24)), "rows after the lost month");
    let rows = Append {
        mode: AppendMode::Replace,
        rows: rows(&[(800, 1)]),
        now: at(0),
        batches: Vec::new(),
        beneath: None,
    };
    let late = block_on(store.append(id, rows, Arc::new(|_, _| ())));
    assert!(matches!(late, Err(StoreError::Archive { .. })), "{late:?}");
    append(&store, id, AppendMode::Replace, &[(3_000, 1)]);
}

#[test]
fn missing_archive_file_fails_only_reads_of_its_month() {
    let (folder, store, id, file) = archived();
    drop(store);
    let kept = fs::read(&file).unwrap();
    fs::remove_file(&file).unwrap();
    check_lost(folder.path(), id);
    fs::write(&file, kept).unwrap();
    assert_eq!(scanned(&open(folder.path()), id, Span::ALL).len(), 2_001);
}

#[test]
fn truncated_and_damaged_archive_files_are_never_read() {
    let (folder, store, id, file) = archived();
    drop(store);
    let sound = fs::read(&file).unwrap();
    fs::write(&file, &sound[..sound.len() - 9]).unwrap();
    check_lost(folder.path(), id);
    for at in (0..sound.len()).step_by(sound.len() / 24) {
        let mut flipped = sound.clone();
        flipped[at] ^= 4;
        fs::write(&file, flipped).unwrap();
        let error = open(folder.path()).page(id, &read(Span::ALL, Order::Ascending, 0, 2_000));
        let error = error.unwrap_err();
        assert!(matches!(error, StoreError::Archive { .. }), "byte {at}: {error:?}");
    }
}

#[test]
fn kill_between_write_and_commit_of_an_archive_file_loses_no_rows() {
    let (folder, store, id, file) = archived();
    append(&store, id, AppendMode::Replace, &[(800, 77)]);
    let want = scanned(&store, id, Span::ALL);
    let old = fs::read(&file).unwrap();
    // Writes the file without the commit, as a process does that is killed before the commit.
    let archive = &store.archive;
    let sight = archive.store.sight(None, &DatasetRef::Id(id)).unwrap().unwrap();
    let february = Month::of(at(800));
    let key = format!("dataset={id}/month=1970-02/part-0.parquet");
    let replaced = archive.objects.find(&key).unwrap();
    let (written, new) = archive.write_draft(&sight, february, key, LATE).unwrap().unwrap();
    assert!(archive.extend_lease().unwrap());
    let announced = archive.store.announce_file(id, new.clone(), archive.holder);
    assert!(block_on(announced).unwrap());
    assert_eq!(scanned(&store, id, Span::ALL), want, "announced, and not written");
    archive.objects.replace(&new.key, replaced, written, new.n_bytes).unwrap();
    assert_ne!(fs::read(&file).unwrap(), old);
    assert_eq!(scanned(&store, id, Span::ALL), want, "written, and not recorded");
    end_lease(&store);
    drop(store);
    let store = open(folder.path());
    assert_eq!(scanned(&store, id, Span::ALL), want);
    let later = LATE + Duration::from_hours(48);
    assert_eq!(
        store.archive(later).unwrap().unwrap().n_files,
        1,
        "a single correction after a day"
    );
    assert_eq!(scanned(&store, id, Span::ALL), want);
}

#[test]
fn files_of_pruned_months_and_deleted_datasets_are_deleted() {
    let (folder, store, id, file) = archived();
    let february = Timestamp::from_seconds(59 * 86_400);
    let prune = |before| {
        block_on(store.catalog().prune(id, before, 99_999, Arc::new(|_| ()))).unwrap().n_rows
    };
    assert_eq!(prune(february + Duration::from_hours(24)), 744 + 672);
    assert_eq!(prune(february + Duration::from_hours(24)), 0, "march stays as a whole");
    assert_eq!(scanned(&store, id, Span::ALL).len(), 2_000 - 744 - 672);
    let days = PageRead { resolution: Resolution::Day, ..read(Span::ALL, Order::Ascending, 0, 99) };
    assert_eq!(store.page(id, &days).unwrap().rows.len(), 84, "buckets stay");
    assert!(block_on(store.catalog().delete(id)).unwrap());
    assert_eq!(store.archive(LATE).unwrap().unwrap().n_deleted, 3);
    assert!(!file.exists());
    drop(folder);
}

#[test]
fn failed_deletion_of_an_obsolete_file_is_reported_with_its_month() {
    let (folder, server) = (tempdir().unwrap(), TestServer::start());
    let store = ArchivedStore::new(open_file(folder.path()), server.open(), OPTIONS);
    let id = new_pair(&store);
    append(&store, id, AppendMode::Replace, &hours(0, 100));
    assert_eq!(store.archive(LATE).unwrap().unwrap().n_files, 1);
    assert!(block_on(store.catalog().delete(id)).unwrap());
    server.lose(true);
    let error = store.archive(LATE).unwrap_err();
    let StoreError::Archive { dataset, month, .. } = error else { panic!("{error:?}") };
    assert_eq!((dataset, month), (id, Month::of(at(0))));
}

#[test]
fn archived_months_are_copied_and_verified() {
    let (folder, store, id, file) = archived();
    append(&store, id, AppendMode::Replace, &[(800, 77), (2_100, 5)]);
    let target = tempdir().unwrap();
    let to = open_file(target.path());
    let outcome = copy(&store, &*to, &|_| true, &mut |_| ControlFlow::Continue(())).unwrap();
    assert_eq!((outcome.n_copied, outcome.failed.len()), (1, 0));
    let (want, found) = (scanned(&store, id, Span::ALL), scanned(&*to, id, Span::ALL));
    assert_eq!((found.times, found.columns), (want.times, want.columns));
    drop(store);
    let objects = objects_in(folder.path());
    let verify = || {
        let path = folder.path().join("datasets.sqlite");
        admin::verify(&path, Some(&objects), &mut |_| {}).unwrap()
    };
    let report = verify();
    assert_eq!((report.n_archived, report.n_rows, report.n_faults), (3, 2_002, 0));
    let mut bytes = fs::read(&file).unwrap();
    bytes[99] ^= 1;
    fs::write(&file, bytes).unwrap();
    let report = verify();
    let month = Month::of(at(800));
    let [fault] = &*report.faults else { panic!("{:?}", report.faults) };
    assert!(fault.contains(&format!("the archived month {month}: ")), "{fault}");
    fs::remove_file(&file).unwrap();
    let from_records = admin::verify_archive(&*open_file(folder.path()), &objects).unwrap();
    assert_eq!((from_records.n_archived, from_records.n_faults), (3, 1));
}

#[test]
fn archive_of_another_store_is_not_overwritten() {
    let (folder, store, id, file) = archived();
    drop(store);
    let other_folder = tempdir().unwrap();
    fs::rename(folder.path().join("archive"), other_folder.path().join("archive")).unwrap();
    let file = other_folder.path().join(file.strip_prefix(folder.path()).unwrap());
    let kept = fs::read(&file).unwrap();
    let store = open(other_folder.path());
    let mut new = new_dataset("other");
    new.columns = vec![("value".to_owned(), Dtype::Float), ("note".to_owned(), Dtype::String)];
    let made = block_on(store.catalog().create(vec![new], Timestamp::from_seconds(77))).unwrap();
    assert_eq!(made[0].id, id);
    append(&store, id, AppendMode::Replace, &hours(0, 2_000));
    let error = store.archive(LATE).unwrap_err();
    assert!(matches!(error, StoreError::Archive { .. }), "{error:?}");
    assert_eq!(fs::read(&file).unwrap(), kept);
}

#[test]
fn damaged_month_does_not_stop_archiving_of_other_months() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let ids = [new_pair(&store), {
        let mut new = new_dataset("other");
        new.columns = vec![("value".to_owned(), Dtype::Float), ("note".to_owned(), Dtype::String)];
        block_on(create(&store, new))
    }];
    for id in ids {
        append(&store, id, AppendMode::Replace, &hours(0, 100));
    }
    let taken = folder.path().join(format!("archive/dataset={}/month=1970-01", ids[0]));
    fs::create_dir_all(&taken).unwrap();
    fs::write(taken.join("part-0.parquet"), "of somebody else").unwrap();
    let error = store.archive(LATE).unwrap_err();
    assert!(matches!(error, StoreError::Archive { dataset, .. } if dataset == ids[0]), "{error:?}");
    let archived = |id| store.archive.store.archived(id, Span::ALL).unwrap().len();
    assert_eq!((archived(ids[0]), archived(ids[1])), (0, 1));
}

#[test]
fn truncated_file_does_not_stop_archiving_of_other_months() {
    let (folder, store, id, file) = archived();
    drop(store);
    let n_bytes = fs::metadata(&file).unwrap().len();
    fs::File::options().write(true).open(&file).unwrap().set_len(n_bytes / 2).unwrap();
    let store = open(folder.path());
    append(&store, id, AppendMode::Replace, &hours(3_000, 10));
    // All files are rewritten because of the new column.
    let column = ColumnChange::Add("new".to_owned(), Dtype::Float);
    block_on(store.catalog().change(id, DatasetChange::Column(column), LATE)).unwrap();
    let error = store.archive(LATE).unwrap_err();
    assert!(super::months::is_damaged(&error), "{error:?}");
    assert_eq!(store.archive.store.archived(id, Span::ALL).unwrap().len(), 4);
}

#[test]
fn corrections_of_long_texts_leave_no_gap_in_a_page() {
    let folder = tempdir().unwrap();
    let store = open(folder.path());
    let id = new_pair(&store);
    let texts = |minutes: std::ops::Range<i64>, text: &str| {
        let mut block = rows(&[]);
        for minute in minutes {
            block.times.push(Timestamp::from_seconds(minute * 60));
            block.columns[0].push_missing(1);
            block.columns[1].push(Value::String(text.to_owned())).unwrap();
        }
        let append = Append {
            mode: AppendMode::Replace,
            rows: block,
            now: at(0),
            batches: Vec::new(),
            beneath: None,
        };
        block_on(store.append(id, append, Arc::new(|_, _| ()))).unwrap();
    };
    texts(0..5_000, &"long".repeat(1_024));
    texts(60_000..60_010, "of February");
    store.archive(LATE).unwrap();
    texts(0..4_200, "short");
    texts(4_900..5_000, "short");
    for order in [Order::Ascending, Order::Descending] {
        for count in [Count::All, Count::Nothing] {
            let read = PageRead { count, ..read(Span::ALL, order, 0, 6_000) };
            let page = store.page(id, &read).unwrap();
            let Rows::Raw(rows) = page.rows else { panic!("not rows") };
            assert_eq!(rows.len(), 5_010, "{order:?}");
        }
    }
}

#[test]
fn reads_fail_while_s3_is_overloaded_and_recover_afterwards() {
    let server = TestServer::start();
    let folder = tempdir().unwrap();
    let open = || ArchivedStore::new(open_file(folder.path()), server.open(), OPTIONS);
    let store = open();
    let id = new_pair(&store);
    append(&store, id, AppendMode::Replace, &hours(0, 900));
    let want = scanned(&store, id, Span::ALL);
    assert_eq!(store.archive(LATE).unwrap().unwrap().n_files, 2);
    let key = format!("dataset={id}/month=1970-01/part-0.parquet");
    assert!(server.keys().contains(&key), "{:?}", server.keys());
    assert_eq!(scanned(&store, id, Span::ALL), want);
    drop(store);
    let store = open();
    server.lose(true);
    let error = store.page(id, &read(Span::ALL, Order::Ascending, 0, 900)).unwrap_err();
    assert!(matches!(error, StoreError::Archive { .. }), "{error:?}");
    server.lose(false);
    assert_eq!(scanned(&store, id, Span::ALL), want);
    server.lose(true);
    assert_eq!(scanned(&store, id, Span::ALL), want, "cached");
}

#[test]
fn archived_bars_need_at_most_30_bytes_per_row() {
    let folder = tempdir().unwrap();
    let store = ArchivedStore::new(open_file(folder.path()), objects_in(folder.path()), OPTIONS);
    let mut new = new_dataset("bars");
    let names = ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"];
    new.columns = names.map(|name| (name.to_owned(), Dtype::Float)).to_vec();
    let id = block_on(create(&store, new));
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    let mut unit = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        f64::from(u32::try_from(state >> 32).unwrap()) / f64::from(u32::MAX)
    };
    let cents = |number: f64| (number * 100.0).round() / 100.0;
    let mut close = 400.0;
    let mut block = Block::new(&[Dtype::Float; 7]);
    for minute in 0..44_640_i64 {
        let open = close;
        close = cents(close + (unit() - 0.5) * 0.4);
        let high = cents(open.max(close) + unit() * 0.1);
        let low = cents(open.min(close) - unit() * 0.1);
        let volume = (unit() * 1_000.0).round();
        let row = [open, high, low, close, volume, cents(volume * close), (volume / 9.0).ceil()];
        block.times.push(Timestamp::from_seconds(minute * 60));
        for (series, number) in block.columns.iter_mut().zip(row) {
            series.push(Value::Float(number)).unwrap();
        }
    }
    let rows = Append {
        mode: AppendMode::Replace,
        rows: block,
        now: at(0),
        batches: Vec::new(),
        beneath: None,
    };
    block_on(store.append(id, rows, Arc::new(|_, _| ()))).unwrap();
    assert_eq!(store.archive(LATE).unwrap().unwrap().n_rows, 44_640);
    let file = folder.path().join(format!("archive/dataset={id}/month=1970-01/part-0.parquet"));
    let n_bytes = fs::metadata(file).unwrap().len();
    assert!(n_bytes <= 30 * 44_640, "{n_bytes} bytes for 44 640 rows");
}
