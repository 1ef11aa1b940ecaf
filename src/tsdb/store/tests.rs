//! Tests that every store must pass, written for the trait.
//!
//! An engine calls [`check_all`], [`random::check`] and [`catalog::check_random_sharing`] with a
//! function that opens the store again on the same files.

pub(crate) mod archived;
pub(crate) mod catalog;
pub(crate) mod random;
pub(crate) mod repeats;
pub(crate) mod row_changes;
pub(crate) mod stored;

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use model::block::Series;
use model::dataset::Dtype;
use model::row::{Bucket, Value};
use model::timestamp::Timestamp;

use super::row_batch::RowBatch;
use super::*;
use crate::rollup::{Fold, coarser};

/// Opens the store again on its existing files.
pub(crate) type Open<'a> = &'a (dyn Fn() -> Box<dyn Store> + Sync);

/// Page to read: number of rows to skip, maximum number of rows, first second, number of seconds.
pub(crate) type Read = (u64, usize, i64, i64);

fn now() -> Timestamp {
    Timestamp::from_seconds(1_800_000_000)
}

fn key(number: i64) -> KeyId {
    KeyId::new(number)
}

fn at_second(second: i64) -> Timestamp {
    Timestamp::from_seconds(second)
}

pub(crate) fn new_dataset(name: &str) -> NewDataset {
    NewDataset {
        name: name.to_owned(),
        description: format!("About {name}"),
        metadata: BTreeMap::from([("ticker".to_owned(), name.to_uppercase())]),
        columns: vec![("value".to_owned(), Dtype::Float)],
        tags: Vec::new(),
        owner: Some(key(1)),
    }
}

pub(crate) async fn create(store: &dyn Store, dataset: NewDataset) -> DatasetId {
    store.create(vec![dataset], now()).await.unwrap()[0].id
}

/// Returns the latest rows, at most `limit`, and the revision.
pub(crate) fn newest(store: &dyn Store, dataset: DatasetId, limit: usize) -> (Block, u64) {
    store.newest(dataset, limit).unwrap()
}

/// Returns the dataset as it is visible to the service.
fn read_sight(store: &dyn Store, dataset: DatasetId) -> Option<Sight> {
    store.sight(None, &DatasetRef::Id(dataset)).unwrap()
}

/// Checks the timestamp of the latest row of the dataset.
#[track_caller]
fn check_newest(store: &dyn Store, dataset: DatasetId, want: Option<Timestamp>) {
    assert_eq!(read_sight(store, dataset).and_then(|seen| seen.newest), want);
}

/// Scans with a visitor that reads every batch.
pub(crate) fn scan(
    store: &dyn Store,
    dataset: DatasetId,
    resolution: Resolution,
    span: Span,
    visit: &mut dyn FnMut(Rows) -> ControlFlow<()>,
) -> Result<(), StoreError> {
    store.scan(dataset, resolution, span, &mut |batch| Ok(visit(batch.rows()?)))
}

/// Returns a block of rows with one value each, sorted by timestamp.
pub(crate) fn block(rows: impl IntoIterator<Item = (i64, f64)>) -> Block {
    let rows: BTreeMap<i64, f64> = rows.into_iter().collect();
    let mut block = Block::new(&[Dtype::Float]);
    for (second, value) in rows {
        block.times.push(at_second(second));
        block.columns[0].push(Value::Float(value)).unwrap();
    }
    block
}

pub(crate) async fn append(store: &dyn Store, dataset: DatasetId, rows: Block) -> Appended {
    try_append(store, dataset, rows).await.unwrap()
}

/// Appends rows and returns the outcome, which can be a rejection.
pub(crate) async fn try_append(
    store: &dyn Store,
    dataset: DatasetId,
    rows: Block,
) -> Result<Appended> {
    store.append(dataset, replace(rows), Arc::new(|_, _| ())).await
}

/// Returns an append of rows that replace stored rows.
pub(crate) fn replace(rows: Block) -> Append {
    Append { mode: AppendMode::Replace, rows, now: now(), batches: Vec::new(), beneath: None }
}

fn values(rows: &Block) -> Vec<(i64, f64)> {
    let Series::Float(values) = &rows.columns[0] else { panic!("not floats") };
    rows.times.iter().zip(values).map(|(time, value)| (time.seconds(), value.unwrap())).collect()
}

fn read(resolution: Resolution, order: Order, skip: u64, limit: usize) -> PageRead {
    PageRead { resolution, span: Span::ALL, order, skip, limit, count: Count::All }
}

fn raw_page(store: &dyn Store, dataset: DatasetId, read: &PageRead) -> (u64, Vec<(i64, f64)>) {
    let page = store.page(dataset, read).unwrap();
    let Rows::Raw(block) = page.rows else { panic!("not rows") };
    assert!(block.ids.len() == block.len() && block.created.len() == block.len());
    (page.count.unwrap(), values(&block))
}

/// Reads a page of `limit` rows after the first `skip`. Returns the number of all rows and the seconds
/// of the page.
pub(crate) fn seconds_of_page(
    store: &dyn Store,
    dataset: DatasetId,
    skip: u64,
    limit: usize,
) -> (u64, Vec<i64>) {
    let (count, rows) =
        raw_page(store, dataset, &read(Resolution::Raw, Order::Ascending, skip, limit));
    (count, rows.into_iter().map(|(second, _)| second).collect())
}

fn buckets(store: &dyn Store, dataset: DatasetId, resolution: Resolution) -> Vec<Bucket> {
    let read = read(resolution, Order::Ascending, 0, usize::MAX);
    match store.page(dataset, &read).unwrap().rows {
        Rows::Buckets(buckets) => buckets,
        Rows::Raw(_) => panic!("not buckets"),
    }
}

/// Runs all checks except the checks of random writes.
pub(crate) async fn check_all(open: Open<'_>) {
    catalogue(open).await;
    visibility(open).await;
    listing(open).await;
    commits(open).await;
    following(open).await;
    row_changes::check(open).await;
    long_appends(open).await;
    writes_during_a_scan(open).await;
    repeats::check(open).await;
    repeats::check_at_once(open).await;
    pruning_rows(open).await;
    deleting_rows(open).await;
    deleting_a_dataset(open).await;
    catalog::changing(open).await;
    catalog::appending_fewer_columns(open).await;
    catalog::naming_public_datasets(open).await;
}

async fn catalogue(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("catalogue")).await;
    let again = store.create(vec![new_dataset("catalogue")], now()).await;
    catalog::check_refused(&again, &Refusal::NameTaken { name: "catalogue".to_owned() });
    let more = vec![("value".to_owned(), Dtype::Float), ("note".to_owned(), Dtype::String)];
    store.change(id, DatasetChange::NewColumns(more), now()).await.unwrap();
    drop(store);
    let store = open();
    let which = DatasetRef::Name("catalogue".to_owned());
    let Sight { dataset, columns, .. } = store.sight(None, &which).unwrap().unwrap();
    assert_eq!((dataset.id, dataset.description.as_str()), (id, "About catalogue"));
    assert_eq!(dataset.metadata.get("ticker").unwrap(), "CATALOGUE");
    assert_eq!(read_sight(&*store, id).unwrap().dataset, dataset);
    let names: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.dtype)).collect();
    assert_eq!(names, [("value", Dtype::Float), ("note", Dtype::String)]);
}

async fn visibility(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("visibility")).await;
    let which = DatasetRef::Id(id);
    let grant = store.sight(Some(key(1)), &which).unwrap().unwrap();
    assert!(grant.is_owner && grant.matching_tags.is_empty());
    assert_eq!(store.sight(Some(key(2)), &which).unwrap(), None);
    assert_eq!(store.sight(Some(key(2)), &DatasetRef::Name("nothing".to_owned())).unwrap(), None);

    assert!(store.change_tag(TagChange::Attach(id, "public".to_owned())).await.unwrap());
    assert!(!store.change_tag(TagChange::Attach(id, "public".to_owned())).await.unwrap());
    assert!(store.change_tag(TagChange::Attach(id, "members".to_owned())).await.unwrap());
    assert_eq!(store.sight(Some(key(2)), &which).unwrap(), None, "it has to acquire the tag first");
    for (tag, want) in [("public", true), ("public", false), ("members", false)] {
        let change = TagChange::Give { owner: None, tag: tag.to_owned(), key: key(2) };
        assert_eq!(store.change_tag(change).await.unwrap(), want, "{tag}");
    }
    let grant = store.sight(Some(key(2)), &which).unwrap().unwrap();
    assert_eq!((grant.is_owner, grant.matching_tags), (false, vec!["public".to_owned()]));
    let tag = |name: &str, owner: Option<KeyId>, is_held| {
        let is_public = owner.is_none();
        Tag { name: name.to_owned(), is_public, owner, is_held }
    };
    let both = [tag("members", Some(key(1)), false), tag("public", None, false)];
    assert_eq!(store.tags(TagFilter::OfDataset(id)).unwrap(), both);
    assert_eq!(store.tags(TagFilter::KnownTo(key(1))).unwrap(), both);
    assert_eq!(store.tags(TagFilter::KnownTo(key(2))).unwrap(), [tag("public", None, true)]);
}

async fn listing(open: Open<'_>) {
    let store = open();
    let owner = Some(key(50));
    for name in
        ["pair_btcusd_1min", "other_btcusd_1min", "btcusd_1min", "btcusd_1min_50%", "eurusd"]
    {
        create(&*store, NewDataset { owner, ..new_dataset(name) }).await;
    }
    let list = |filter: &Filter, skip, limit| {
        let listed = store.list(key(50), filter, skip, limit).unwrap();
        let names = listed.datasets.into_iter().map(|dataset| dataset.name).collect::<Vec<_>>();
        (listed.count.unwrap(), names)
    };
    let all = list(&Filter::All, 1, 2);
    assert_eq!(all, (5, vec!["other_btcusd_1min".to_owned(), "btcusd_1min".to_owned()]));
    let text = |text: &str| Filter::Text(text.to_owned());
    let (count, best) = list(&text("BTCUSD_1min"), 0, 9);
    assert_eq!(count, 4);
    let want = ["btcusd_1min", "btcusd_1min_50%", "pair_btcusd_1min", "other_btcusd_1min"];
    assert_eq!(best, want, "exact, then at the start, then within");
    assert_eq!(list(&text("50%"), 0, 9).1, ["btcusd_1min_50%"]);
    assert_eq!(list(&text("about eur"), 0, 9).1, ["eurusd"], "the description, too");
    let field = Filter::Metadata(vec![("ticker".to_owned(), "EURUSD".to_owned())]);
    assert_eq!(list(&field, 0, 9), (1, vec!["eurusd".to_owned()]));
    assert_eq!(store.list(key(51), &Filter::All, 0, 9).unwrap().count, Some(0));
}

async fn commits(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("commits")).await;
    let (sender, receiver) = std::sync::mpsc::sync_channel(9);
    for revision in 1..=3_i64 {
        let sender = sender.clone();
        let seen: OnCommit = Arc::new(move |appended, rows| {
            sender.send((appended.revision, rows.ids.clone())).unwrap();
        });
        let rows = block([(revision, 1.0), (revision + 1, 2.0)]);
        let appended = store.append(id, replace(rows), seen).await.unwrap();
        assert_eq!((appended.n_rows, appended.revision), (2, u64::try_from(revision).unwrap()));
        let (seen_revision, ids) = receiver.try_recv().expect("called before the append returns");
        assert_eq!((seen_revision, ids.len()), (appended.revision, 2));
    }
    check_newest(&*store, id, Some(at_second(4)));
    let (rows, revision) = newest(&*store, id, 3);
    assert_eq!((values(&rows), revision), (vec![(2, 1.0), (3, 1.0), (4, 2.0)], 3));
    drop(store);
    let store = open();
    assert_eq!(newest(&*store, id, 9).0.len(), 4);
    assert_eq!(append(&*store, id, block([(9, 9.0)])).await.revision, 4);
    let gone = DatasetId::new(999).unwrap();
    let refused = try_append(&*store, gone, block([(1, 1.0)])).await;
    assert!(matches!(refused, Err(StoreError::NoDataset { .. })), "{refused:?}");
}

async fn following(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("following")).await;
    append(&*store, id, block((0..3000).map(|n| (n * 60, 1.0)))).await;
    let last_number = || newest(&*store, id, 1).0.ids[0];
    let start = last_number();
    let seconds = |after: i64, limit: usize| {
        let since = store.since(id, after, limit).unwrap().unwrap();
        assert!(since.rows.ids.iter().all(|number| *number > after));
        assert!(since.rows.ids.is_sorted_by(|a, b| a < b), "in the order of their commits");
        let rows: Vec<i64> = since.rows.times.iter().map(|time| time.seconds()).collect();
        (rows, since.is_all, since.revision, since.rows.ids.last().copied())
    };
    assert_eq!(seconds(start, 9), (vec![], true, 1, None));
    append(&*store, id, block([(200_000, 1.0), (200_060, 1.0)])).await;
    append(&*store, id, block([(60, 2.0), (61, 2.0), (100_000, 2.0)])).await;
    append(&*store, id, block([(61, 3.0), (300_000, 3.0)])).await;
    let span = Span { first: at_second(200_060), last: at_second(200_060) };
    store.delete_rows(id, RowDeletion::new(span, now()), Arc::new(|_| {})).await.unwrap();
    append(&*store, id, block([(300_060, 4.0)])).await;
    let (rows, is_all, revision, _) = seconds(start, 99);
    assert_eq!(rows, [200_000, 60, 100_000, 61, 300_000, 300_060], "without what is gone");
    assert_eq!((is_all, revision), (true, 6));
    let (mut after, mut found) = (start, Vec::new());
    loop {
        let (mut rows, is_all, _, last) = seconds(after, 2);
        found.append(&mut rows);
        if is_all {
            break;
        }
        after = last.unwrap();
    }
    assert_eq!(found, [200_000, 60, 100_000, 61, 300_000, 300_060], "page by page");
    assert_eq!(store.since(id, last_number() + 1, 9).unwrap(), None, "an unknown number");
}

async fn writes_during_a_scan(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("scanned")).await;
    append(&*store, id, block((0..9000).map(|n| (n * 60, 1.0)))).await;
    let mut found = BTreeMap::new();
    let mut n_batches = 0;
    store
        .scan(id, Resolution::Raw, Span::ALL, &mut |batch| {
            let Rows::Raw(rows) = batch.rows()? else { panic!("not rows") };
            for (second, value) in values(&rows) {
                assert_eq!(found.insert(second, value), None, "each row once");
            }
            n_batches += 1;
            if n_batches == 2 {
                let changed = block([(0, 2.0), (8999 * 60, 2.0), (9000 * 60, 2.0)]);
                std::thread::scope(|scope| {
                    let write = || futures::executor::block_on(append(&*store, id, changed));
                    scope.spawn(write).join().unwrap();
                });
            }
            Ok(ControlFlow::Continue(()))
        })
        .unwrap();
    assert!(n_batches > 2, "{n_batches}");
    found.remove(&(9000 * 60));
    assert!(found.keys().copied().eq((0..9000).map(|n| n * 60)), "all that there were");
}

async fn long_appends(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("long")).await;
    let minute = |n: i64| (n * 60, f64::from(i32::try_from(n % 100).unwrap()));
    append(&*store, id, block((0..5000).map(minute))).await;
    append(&*store, id, block((5000..5100).map(minute))).await;
    append(&*store, id, block((5100..12_000).map(minute))).await;
    let (count, page) = raw_page(&*store, id, &read(Resolution::Raw, Order::Ascending, 6000, 3));
    assert_eq!((count, page), (12_000, (6000..6003).map(minute).collect()));
    let (_, page) = raw_page(&*store, id, &read(Resolution::Raw, Order::Descending, 6000, 3));
    assert_eq!(page, (5997..6000).rev().map(minute).collect::<Vec<_>>());
    let mut scanned = Vec::new();
    let half = Span { first: at_second(60 * 1000), last: at_second(60 * 7000) };
    scan(&*store, id, Resolution::Raw, half, &mut |batch| {
        let Rows::Raw(block) = batch else { panic!("not rows") };
        scanned.extend(values(&block));
        ControlFlow::Continue(())
    })
    .unwrap();
    assert_eq!(scanned, (1000..=7000).map(minute).collect::<Vec<_>>());
    let mut n_pieces = 0;
    let visit = &mut |_| {
        n_pieces += 1;
        ControlFlow::Break(())
    };
    scan(&*store, id, Resolution::Raw, Span::ALL, visit).unwrap();
    assert_eq!(n_pieces, 1, "a scan ends when the visitor stops");
    let mut n_buckets = 0;
    let visit = &mut |batch| {
        let Rows::Buckets(batch) = batch else { panic!("not buckets") };
        n_buckets += batch.len();
        ControlFlow::Continue(())
    };
    scan(&*store, id, Resolution::FiveMinutes, Span::ALL, visit).unwrap();
    assert_eq!(n_buckets, 2400);
}

/// Checks the ids of chunks, for stores that have chunks.
pub(crate) async fn check_chunk_ids(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("batches")).await;
    let minute = |n: i64| (n * 60, 1.0);
    append(&*store, id, block((0..5000).map(minute))).await;
    append(&*store, id, block((5000..5010).map(minute))).await;
    let names = |store: &dyn Store, span: Span| {
        let (mut names, mut n_rows) = (Vec::new(), 0);
        let visit = &mut |batch: RowBatch<'_>| {
            n_rows += batch.n_rows;
            let (name, n) = (batch.chunk_id, batch.n_rows);
            if n_rows % 2 == 0 || name.is_none() {
                let Rows::Raw(block) = batch.rows()? else { panic!("not rows") };
                assert_eq!(block.len(), n);
            }
            names.extend(name);
            Ok(ControlFlow::Continue(()))
        };
        store.scan(id, Resolution::Raw, span, visit).unwrap();
        (names, n_rows)
    };
    let (all, n_rows) = names(&*store, Span::ALL);
    assert!(all.len() >= 4 && n_rows == 5010, "{all:?} {n_rows}");
    let (part, n_rows) = names(&*store, Span { first: at_second(60), last: at_second(60 * 4900) });
    assert_eq!((part.iter().all(|name| all.contains(name)), n_rows), (true, 4900));
    assert!(part.len() < all.len(), "batches at the ends are not whole");
    // A late row removes the id of the chunk with which it overlaps.
    append(&*store, id, block([(61, 2.0), (5011 * 60, 1.0)])).await;
    let (left, n_rows) = names(&*store, Span::ALL);
    assert_eq!((&left[..], n_rows), (&all[1..], 5012));
    drop(store);
    assert_eq!(names(&*open(), Span::ALL).0, left, "names outlive a run of the program");
}

async fn pruning_rows(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("short")).await;
    append(&*store, id, block((0..3000).map(|second| (second, 1.0)))).await;
    append(&*store, id, block((3000..3500).map(|second| (second, 1.0)))).await;
    let before = buckets(&*store, id, Resolution::FiveMinutes);
    let n_gone = store.prune(id, at_second(2500), 99_999, Arc::new(|_| {})).await.unwrap().n_rows;
    assert!((1000..=2400).contains(&n_gone), "most of them, whole chunks at a time: {n_gone}");
    let (count, page) = raw_page(&*store, id, &read(Resolution::Raw, Order::Ascending, 0, 1));
    assert_eq!((count, page), (3500 - n_gone, vec![(n_gone.cast_signed(), 1.0)]));
    assert_eq!(buckets(&*store, id, Resolution::FiveMinutes), before, "buckets stay");
    let gone = n_gone.cast_signed() - 1;
    let refused = try_append(&*store, id, block([(gone, 1.0)])).await;
    assert!(matches!(refused, Err(StoreError::Pruned { .. })), "{refused:?}");
    append(&*store, id, block([(2400, 1.0)])).await;
    assert_eq!(buckets(&*store, id, Resolution::FiveMinutes), before);
    let n_left = store.prune(id, at_second(99_999), 99_999, Arc::new(|_| {})).await.unwrap().n_rows;
    assert!((3500..=3501).contains(&(n_left + n_gone)), "the replaced row counts where it is kept");
    check_newest(&*store, id, None);
    // The prune had a date in the far future. Still, only rows before the end of the last pruned bucket
    // are rejected.
    append(&*store, id, block([(3_600, 1.0)])).await;
    check_newest(&*store, id, Some(at_second(3_600)));
}

async fn deleting_rows(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("cut")).await;
    let mut want: BTreeMap<i64, f64> = (0..6000).map(|n| (n * 20, 1.5)).collect();
    append(&*store, id, block(want.clone())).await;
    // Appends late rows, which remain in the tail. One of them replaces another row.
    let late: BTreeMap<i64, f64> = (0..40).map(|n| (n * 1010 + 7, 2.5)).chain([(0, 9.0)]).collect();
    append(&*store, id, block(late.clone())).await;
    want.extend(late);
    let whole = newest(&*store, id, 1).1;
    for (n, (first, last)) in
        (1..).zip([(50, 70), (41, 41), (4_000, 60_001), (0, 0), (119_000, 999_999), (5, 4)])
    {
        let span = Span { first: at_second(first), last: at_second(last) };
        let n_gone =
            store.delete_rows(id, RowDeletion::new(span, now()), Arc::new(|_| {})).await.unwrap();
        let before = want.len();
        want.retain(|second, _| !(first..=last).contains(second));
        assert_eq!(n_gone.n_rows, u64::try_from(before - want.len()).unwrap(), "{first} to {last}");
        compare(&*store, id, &want, &[(0, 100, 3_900, 60_000), (9, 9, 0, 120_000)]);
        let (_, revision) = newest(&*store, id, 1);
        assert_eq!(revision, if first > last { whole + n - 1 } else { whole + n });
    }
    let newest = want.keys().last().copied().map(at_second);
    check_newest(&*store, id, newest);
    append(&*store, id, block([(10, 3.0), (130_000, 4.0)])).await;
    want.extend([(10, 3.0), (130_000, 4.0)]);
    compare(&*store, id, &want, &[]);
    assert_eq!(
        store
            .delete_rows(id, RowDeletion::new(Span::ALL, now()), Arc::new(|_| {}))
            .await
            .unwrap()
            .n_rows,
        want.len() as u64
    );
    compare(&*store, id, &BTreeMap::new(), &[]);
    check_newest(&*store, id, None);

    // Checks that buckets of pruned rows remain unless a deletion covers them completely.
    append(&*store, id, block((0..3000).map(|second| (second, 1.0)))).await;
    store.prune(id, at_second(2100), 99_999, Arc::new(|_| {})).await.unwrap();
    let before = buckets(&*store, id, Resolution::FiveMinutes);
    let span = Span { first: at_second(310), last: at_second(1_200) };
    assert_eq!(
        store
            .delete_rows(id, RowDeletion::new(span, now()), Arc::new(|_| {}))
            .await
            .unwrap()
            .n_rows,
        0
    );
    let left = buckets(&*store, id, Resolution::FiveMinutes);
    assert_eq!(left, [&before[..2], &before[4..]].concat());
}

async fn deleting_a_dataset(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("deleted")).await;
    append(&*store, id, block((0..3000).map(|second| (second, 1.0)))).await;
    append(&*store, id, block([(7, 2.0)])).await;
    store.change_tag(TagChange::Attach(id, "public".to_owned())).await.unwrap();
    let other = create(&*store, new_dataset("left alone")).await;
    append(&*store, other, block([(1, 1.0)])).await;

    assert!(store.delete(id).await.unwrap());
    assert!(!store.delete(id).await.unwrap(), "it is gone already");
    assert_eq!(read_sight(&*store, id), None);
    assert_eq!(store.sight(Some(key(1)), &DatasetRef::Id(id)).unwrap(), None);
    check_newest(&*store, id, None);
    let page = store.page(id, &read(Resolution::Raw, Order::Ascending, 0, 9));
    assert!(matches!(page, Err(StoreError::NoDataset { .. })), "{page:?}");
    let late = try_append(&*store, id, block([(1, 1.0)])).await;
    assert!(matches!(late, Err(StoreError::NoDataset { .. })), "{late:?}");

    let again = create(&*store, new_dataset("deleted")).await;
    assert!(again > other, "a number is never used again");
    compare(&*store, again, &BTreeMap::new(), &[]);
    compare(&*store, other, &BTreeMap::from([(1, 1.0)]), &[]);
}

/// Checks that a dataset has exactly these rows, with their buckets.
pub(crate) fn compare(store: &dyn Store, id: DatasetId, want: &BTreeMap<i64, f64>, reads: &[Read]) {
    let rows: Vec<(i64, f64)> = want.iter().map(|(second, value)| (*second, *value)).collect();
    let all = read(Resolution::Raw, Order::Ascending, 0, usize::MAX);
    let (count, page) = raw_page(store, id, &all);
    assert_eq!((count, &page), (u64::try_from(rows.len()).unwrap(), &rows));
    for (skip, limit, start, length) in reads {
        let span = Span { first: at_second(*start), last: at_second(start + length) };
        let within: Vec<_> =
            want.range(*start..=start + length).map(|(second, value)| (*second, *value)).collect();
        for order in [Order::Ascending, Order::Descending] {
            let read = PageRead { span, ..read(Resolution::Raw, order, *skip, *limit) };
            let (count, page) = raw_page(store, id, &read);
            let mut want = within.clone();
            if order == Order::Descending {
                want.reverse();
            }
            let skip = usize::try_from(*skip).unwrap();
            let want: Vec<_> = want.into_iter().skip(skip).take(*limit).collect();
            assert_eq!((count, page), (u64::try_from(within.len()).unwrap(), want));
        }
    }
    let fold = Fold::of_value(0, None);
    compare_all_buckets(
        store,
        id,
        &fold.buckets(&block(rows), Resolution::FiveMinutes, None),
        reads,
    );
}

/// Checks the buckets of all resolutions against those computed from the buckets of five minutes.
fn compare_all_buckets(store: &dyn Store, id: DatasetId, finest: &[Bucket], reads: &[Read]) {
    let mut plain: BTreeMap<Resolution, Vec<Bucket>> = BTreeMap::new();
    for resolution in Resolution::ALL.into_iter().skip(1) {
        let want: Vec<Bucket> = match plain.get(&resolution.source().unwrap()) {
            None => finest.to_vec(),
            Some(finer) => {
                let start = |bucket: &Bucket| resolution.bucket_start(bucket.timestamp);
                let runs = finer.chunk_by(|a, b| start(a) == start(b));
                runs.map(|run| coarser(start(&run[0]), run.to_vec()).unwrap()).collect()
            }
        };
        compare_buckets(store, id, resolution, &want, reads);
        plain.insert(resolution, want);
    }
}

fn compare_buckets(
    store: &dyn Store,
    id: DatasetId,
    resolution: Resolution,
    want: &[Bucket],
    reads: &[Read],
) {
    assert_eq!(buckets(store, id, resolution), want, "{resolution}");
    for (skip, limit, start, length) in reads {
        let (skip, limit) = (skip % 50, limit % 50);
        let span = Span { first: at_second(*start), last: at_second(start + length) };
        for order in [Order::Ascending, Order::Descending] {
            let read = PageRead { span, ..read(resolution, order, skip, limit) };
            let page = store.page(id, &read).unwrap();
            let is_within =
                |bucket: &&Bucket| span.first <= bucket.timestamp && bucket.timestamp <= span.last;
            let mut want: Vec<Bucket> = want.iter().filter(is_within).copied().collect();
            assert_eq!(page.count, Some(u64::try_from(want.len()).unwrap()), "{resolution}");
            if order == Order::Descending {
                want.reverse();
            }
            let skip = usize::try_from(skip).unwrap();
            want = want.into_iter().skip(skip).take(limit).collect();
            assert_eq!(page.rows, Rows::Buckets(want), "{resolution} {read:?}");
        }
        let mut scanned = Vec::new();
        let visit = &mut |batch| {
            let Rows::Buckets(batch) = batch else { panic!("not buckets") };
            scanned.extend(batch);
            ControlFlow::Continue(())
        };
        scan(store, id, resolution, span, visit).unwrap();
        let within =
            |bucket: &&Bucket| span.first <= bucket.timestamp && bucket.timestamp <= span.last;
        assert_eq!(scanned, want.iter().filter(within).copied().collect::<Vec<_>>());
    }
}
