//! Tests that several threads compute the same buckets as one thread, even from uncommitted rows.

use model::resolution::Resolution;
use tempfile::tempdir;

use super::*;
use crate::store::session::ready;
use crate::store::sqlite::series::{SeriesId, span};
use crate::store::sqlite::{append, bucket_reader, catalog, chunks, scan, singles, tables};
use crate::store::{AppendMode, datasets, tests as contract};

/// Number of hours with late rows, so far apart that each is read separately.
const HOURS: i64 = 300;

/// Creates a dataset with a row every ten minutes for several months, and an empty dataset.
fn months(connection: &mut Connection) -> [DatasetId; 2] {
    connection.execute_batch(tables::SCHEMA.pragmas).unwrap();
    connection.pragma_update(None, "journal_mode", "wal").unwrap();
    tables::SCHEMA.create_tables(connection).unwrap();
    let write = connection.transaction().unwrap();
    let new = ["late", "in order"].map(contract::new_dataset);
    let now = Timestamp::from_seconds(1);
    let made = ready(datasets::create(&mut &*write, &new, None, now)).unwrap();
    let ids = [made[0].id, made[1].id];
    append(&write, ids[0], base());
    write.commit().unwrap();
    ids
}

fn append(connection: &Connection, dataset: DatasetId, mut rows: Block) {
    append::append(
        connection,
        dataset,
        &mut rows,
        AppendMode::Replace,
        Timestamp::from_seconds(1),
        None,
    )
    .unwrap();
}

fn base() -> Block {
    contract::block((0..12_000_i32).map(|n| (i64::from(n) * 600, f64::from(n))))
}

/// Returns a row in each of the hours. With an `offset` of 0, every other row replaces a stored row.
fn late(offset: i64, value: f64) -> Block {
    contract::block((0..HOURS).map(|n| (n * 21_600 + n % 2 * 60 + offset, value)))
}

#[test]
fn late_rows_result_in_the_same_buckets_as_ordered_rows() {
    let folder = tempdir().unwrap();
    let mut connection = Connection::open(folder.path().join("datasets.sqlite")).unwrap();
    let [mixed, ordered] = months(&mut connection);
    let batches = [late(0, -1.0), late(120, -2.0), late(240, 1e6), late(0, 5.0)];
    let mut all = base();
    // The last three appends share a transaction, in which each append must see the rows of the previous
    // appends.
    for shared in [&batches[..1], &batches[1..]] {
        let write = connection.transaction().unwrap();
        for rows in shared {
            append(&write, mixed, rows.clone());
            all = all.merge(rows);
        }
        write.commit().unwrap();
    }
    let write = connection.transaction().unwrap();
    append(&write, ordered, all.clone());
    for resolution in KEPT {
        let read = |dataset| {
            bucket_reader::read(&write, SeriesId { dataset, resolution }, Span::ALL).unwrap()
        };
        assert!(!read(mixed).is_empty());
        assert_eq!(read(mixed), read(ordered), "{resolution:?}");
    }
    let n_rows = u64::try_from(all.len()).unwrap();
    assert_eq!(
        scan::count(&write, SeriesId::rows(mixed), Span::ALL).unwrap(),
        n_rows,
        "what a late row replaces"
    );
    let end = chunks::end(&write, SeriesId::rows(mixed)).unwrap().unwrap();
    let late = Span { last: end, ..Span::ALL };
    let n_new = singles::new_times(&write, SeriesId::rows(mixed), late).unwrap().len();
    assert_eq!(n_new, all.len() - 12_000);
}

#[test]
fn datasets_changed_in_the_transaction_are_not_computed_on_other_threads() {
    let folder = tempdir().unwrap();
    let path = folder.path().join("datasets.sqlite");
    let mut connection = Connection::open(&path).unwrap();
    let [dataset, _] = months(&mut connection);
    let rows = late(0, 7.0);
    let fold = catalog::fold(&connection, dataset).unwrap().unwrap();
    let refold = BucketRebuild::new(&connection, dataset, fold, Some(&rows), None).unwrap();
    let hour = |n: i64| span(Resolution::Hour, Timestamp::from_seconds(n * 21_600));
    let spans: Vec<Span> = (0..HOURS).map(hour).collect();
    let write = connection.transaction().unwrap();
    let now = version(&write, dataset).unwrap();
    let here = refold.spans(&write, &spans).unwrap();
    let read = |connection: &Connection| refold.spans(connection, &spans);
    let there = read_last_commit(&path, dataset, now, read).unwrap().unwrap();
    let starts: Vec<Timestamp> = spans.iter().map(|span| span.first).collect();
    let both = refold.runs(&write, Resolution::Hour, &starts, 1).unwrap();
    assert_eq!([&there, &both], [&here, &here]);
    assert_eq!(here.1.len(), spans.len() / 2);
    append(&write, dataset, late(60, 8.0));
    let changed = version(&write, dataset).unwrap();
    assert!(read_last_commit(&path, dataset, changed, read).unwrap().is_none());
}
