//! Tests of reads and writes while months are archived.

use super::*;
use crate::archive::months::BATCH_ROWS;

#[test]
fn reads_while_months_are_archived_are_complete() {
    check_meanwhile(&open_file);
}

/// Runs all checks of reads and writes of an engine while months are archived.
pub(crate) fn check_meanwhile(open: OpenIn<'_>) {
    for n_before in 0..3 {
        check_scan(open, n_before);
    }
    check_scan_is_bounded(open);
    check_late_append(open);
    check_writes_meanwhile(open);
    check_paused_archiver(open);
}

/// Checks a scan of an engine. After `n_before` batches were visited, its months are archived and then
/// rewritten.
fn check_scan(open: OpenIn<'_>, n_before: usize) {
    let folder = tempdir().unwrap();
    let store = open_archived(folder.path(), open);
    let id = new_pair(&store);
    append(&store, id, AppendMode::Replace, &hours(0, 7_000));
    let check = |now: Timestamp| {
        let want = scanned(&store, id, Span::ALL);
        let (mut found, mut n_batches) = (rows(&[]), 0);
        let mut visit = |batch: RowBatch<'_>| {
            let Rows::Raw(block) = batch.rows()? else { panic!("not rows") };
            found.extend_from(&block, 0..block.len());
            if n_batches == n_before {
                assert!(store.archive(now)?.unwrap().n_files > 0);
            }
            n_batches += 1;
            Ok(ControlFlow::Continue(()))
        };
        store.scan(id, Resolution::Raw, Span::ALL, &mut visit).unwrap();
        assert_eq!(found, want);
        assert_eq!(scanned(&store, id, Span::ALL), want);
    };
    check(LATE);
    let corrected: Vec<(i64, u8)> = (0..7_100).step_by(100).map(|step| (step + 3, 255)).collect();
    append(&store, id, AppendMode::Replace, &corrected);
    check(LATE + Duration::from_hours(48));
}

/// Checks that the batches of a scan are not too large if a span has few stored and many archived rows.
fn check_scan_is_bounded(open: OpenIn<'_>) {
    let folder = tempdir().unwrap();
    let store = open_archived(folder.path(), open);
    let id = new_pair(&store);
    append(&store, id, AppendMode::Replace, &hours(0, 7_000));
    store.archive(LATE).unwrap();
    let late = [(1, 7), (299, 8), (300, 8), (3_000, 8), (6_999, 9), (7_001, 1)];
    append(&store, id, AppendMode::Replace, &late);
    let mut batches = Vec::new();
    let mut visit = |batch: RowBatch<'_>| {
        batches.push(batch.n_rows);
        Ok(ControlFlow::Continue(()))
    };
    store.scan(id, Resolution::Raw, Span::ALL, &mut visit).unwrap();
    assert_eq!(batches.iter().sum::<usize>(), 7_001);
    assert!(batches.iter().all(|n_rows| *n_rows <= BATCH_ROWS), "{batches:?}");
    // A month has more than two batches.
    assert!(batches.len() > 2 * 7_000 / 744, "{batches:?}");
    let found = scanned(&store, id, Span::ALL);
    assert_eq!(found.len(), 7_001);
    assert!(found.times.is_sorted_by(|earlier, later| earlier < later));
    for (step, value) in late {
        let row = found.times.iter().position(|time| *time == at(step)).unwrap();
        assert_eq!(found.columns[0].number(row), Some(f64::from(value) / 4.0));
    }
}

/// Checks an append to a month that another process has just archived.
fn check_late_append(open: OpenIn<'_>) {
    let folder = tempdir().unwrap();
    let inner = open(folder.path());
    let [store, other] = [(); 2]
        .map(|()| ArchivedStore::new(Arc::clone(&inner), objects_in(folder.path()), OPTIONS));
    let id = new_pair(&store);
    append(&store, id, AppendMode::Replace, &hours(0, 100));
    other.archive(LATE).unwrap();
    append(&store, id, AppendMode::Merge, &[(5, 77)]);
    append(&store, id, AppendMode::Replace, &[(6, 78)]);
    assert_eq!(scanned(&store, id, Span::ALL).len(), 100);
    assert_eq!(scanned(&store, id, Span::ALL), scanned(&other, id, Span::ALL));
}

/// Checks that no rows or columns are lost that are added while their month is written to a file.
fn check_writes_meanwhile(open: OpenIn<'_>) {
    let (folder, server) = (tempdir().unwrap(), TestServer::start());
    let inner = open(folder.path());
    let store = Arc::new(ArchivedStore::new(Arc::clone(&inner), server.open(), OPTIONS));
    let id = new_pair(&*store);
    append(&*store, id, AppendMode::Replace, &hours(0, 100));
    let writer = Arc::clone(&store);
    server.before_write(move || {
        let add = ColumnChange::Add("extra".to_owned(), Dtype::Integer);
        block_on(writer.catalog().change(id, DatasetChange::Column(add), at(0))).unwrap();
        append(&*writer, id, AppendMode::Replace, &[(7, 70), (200, 3)]);
        let mut late = Block::new(&[Dtype::Float, Dtype::String, Dtype::Integer]);
        late.times.push(at(8));
        late.columns[0].push_missing(1);
        late.columns[1].push_missing(1);
        late.columns[2].push(Value::Integer(41)).unwrap();
        let late = Append {
            mode: AppendMode::Merge,
            rows: late,
            now: at(0),
            batches: Vec::new(),
            beneath: None,
        };
        block_on(writer.append(id, late, Arc::new(|_, _| ()))).unwrap();
    });
    assert_eq!(store.archive(LATE).unwrap().unwrap().n_rows, 100);
    let stored = inner.page(id, &read(Span::ALL, Order::Ascending, 0, 99)).unwrap();
    assert_eq!(stored.rows.len(), 3, "newer rows stay");
    let check = || {
        let page = store.page(id, &read(Span::ALL, Order::Ascending, 0, 999)).unwrap();
        let Rows::Raw(rows) = page.rows else { panic!("not rows") };
        let values = |step: i64| {
            let row = rows.times.iter().position(|time| *time == at(step)).unwrap();
            let number = rows.columns[0].number(row);
            (number, rows.columns[2].number(row))
        };
        assert_eq!(rows.len(), 101);
        assert_eq!((values(7), values(8)), ((Some(17.5), None), (Some(2.25), Some(41.0))));
        assert_eq!(values(200), (Some(0.75), None));
    };
    check();
    assert_eq!(store.archive(LATE + Duration::from_hours(48)).unwrap().unwrap().n_files, 1);
    assert_eq!(inner.page(id, &read(Span::ALL, Order::Ascending, 0, 99)).unwrap().rows.len(), 0);
    check();
}

/// Checks that a process with a lost lease does not overwrite a file of another process. The process was
/// paused just before it wrote its own file.
fn check_paused_archiver(open: OpenIn<'_>) {
    let (folder, server) = (tempdir().unwrap(), TestServer::start());
    let inner = open(folder.path());
    let new = || ArchivedStore::new(Arc::clone(&inner), server.open(), OPTIONS);
    let (paused, other) = (new(), Arc::new(new()));
    let id = new_pair(&paused);
    append(&paused, id, AppendMode::Replace, &hours(0, 100));
    for (now, late) in [(LATE, 7), (LATE + Duration::from_hours(48), 8)] {
        let (rival, records, holder) =
            (Arc::clone(&other), Arc::clone(&inner), paused.archive.holder);
        server.before_write(move || {
            assert!(block_on(records.lease_archive(holder, Duration::ZERO)).unwrap());
            append(&*rival, id, AppendMode::Replace, &[(late, 99)]);
            assert_eq!(rival.archive(now).unwrap().unwrap().n_files, 1);
        });
        append(&paused, id, AppendMode::Replace, &[(1, 98)]);
        let error = paused.archive(now).unwrap_err();
        assert!(matches!(error, StoreError::Archive { .. }), "{error:?}");
        for store in [&paused, &*other, &new()] {
            let found = scanned(store, id, Span::ALL);
            let row = usize::try_from(late).unwrap();
            assert_eq!((found.len(), found.columns[0].number(row)), (100, Some(24.75)));
        }
    }
}
