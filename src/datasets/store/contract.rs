//! What every store must hold, tested against the trait.
//!
//! An engine calls [`check_all`] and [`check_random_appends`] with a way to open itself anew on the
//! same files.

use std::collections::BTreeMap;

use model::{
    row::{Bucket, Value},
    timestamp::Timestamp,
};
use proptest::{
    prelude::*,
    test_runner::{Config, TestRunner},
};

use super::*;
use crate::{
    block::Series,
    rollup::{Fold, coarser},
};

/// Opens the store on the files it had before.
pub(crate) type Open<'a> = &'a (dyn Fn() -> Box<dyn Store> + Sync);

/// A page to be read: rows to skip, rows at most, first second, seconds covered.
pub(crate) type Read = (u64, usize, i64, i64);

const ALL: Span = Span { first: Timestamp::MIN, last: Timestamp::MAX };

fn now() -> Timestamp {
    Timestamp::from_seconds(1_800_000_000)
}

fn key(number: i64) -> KeyId {
    KeyId::new(number)
}

fn at(second: i64) -> Timestamp {
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
    match store.create(dataset, now()).await.unwrap() {
        Created::New(dataset) => dataset.id,
        Created::NameTaken => panic!("the name is taken"),
    }
}

/// A block of rows of one value each, in order.
pub(crate) fn block(rows: impl IntoIterator<Item = (i64, f64)>) -> Block {
    let rows: BTreeMap<i64, f64> = rows.into_iter().collect();
    let mut block = Block::new(&[Dtype::Float]);
    for (second, value) in rows {
        block.times.push(at(second));
        block.columns[0].push(Value::Float(value)).unwrap();
    }
    block
}

pub(crate) async fn append(store: &dyn Store, dataset: DatasetId, rows: Block) -> Appended {
    store.append(dataset, rows, now(), Box::new(|_, _| ())).await.unwrap()
}

fn values(rows: &Block) -> Vec<(i64, f64)> {
    let Series::Float(values) = &rows.columns[0] else { panic!("not floats") };
    rows.times.iter().zip(values).map(|(time, value)| (time.seconds(), value.unwrap())).collect()
}

fn read(resolution: Resolution, order: Order, skip: u64, limit: usize) -> PageRead {
    PageRead { resolution, span: ALL, order, skip, limit, count: Count::All }
}

fn raw_page(store: &dyn Store, dataset: DatasetId, read: &PageRead) -> (u64, Vec<(i64, f64)>) {
    let page = store.page(dataset, read).unwrap();
    let Rows::Raw(block) = page.rows else { panic!("not rows") };
    assert!(block.ids.len() == block.len() && block.created.len() == block.len());
    (page.count.unwrap(), values(&block))
}

fn buckets(store: &dyn Store, dataset: DatasetId, resolution: Resolution) -> Vec<Bucket> {
    let read = read(resolution, Order::Ascending, 0, usize::MAX);
    match store.page(dataset, &read).unwrap().rows {
        Rows::Buckets(buckets) => buckets,
        Rows::Raw(_) => panic!("not buckets"),
    }
}

/// Checks all but the appends at random.
pub(crate) async fn check_all(open: Open<'_>) {
    catalogue(open).await;
    visibility(open).await;
    listing(open).await;
    commits(open).await;
    long_appends(open).await;
    letting_go(open).await;
}

async fn catalogue(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("catalogue")).await;
    let again = store.create(new_dataset("catalogue"), now()).await.unwrap();
    assert_eq!(again, Created::NameTaken);
    let more = vec![("value".to_owned(), Dtype::Float), ("note".to_owned(), Dtype::String)];
    store.add_columns(id, more, now()).await.unwrap();
    drop(store);
    let store = open();
    let dataset = store.dataset(&DatasetRef::Name("catalogue".to_owned())).unwrap().unwrap();
    assert_eq!((dataset.id, dataset.description.as_str()), (id, "About catalogue"));
    assert_eq!(dataset.metadata.get("ticker").unwrap(), "CATALOGUE");
    assert_eq!(store.dataset(&DatasetRef::Id(id)).unwrap().unwrap(), dataset);
    let columns = store.columns(id).unwrap();
    let names: Vec<_> = columns.iter().map(|column| (column.name.as_str(), column.dtype)).collect();
    assert_eq!(names, [("value", Dtype::Float), ("note", Dtype::String)]);
}

async fn visibility(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("visibility")).await;
    let which = DatasetRef::Id(id);
    let grant = store.grant(key(1), &which).unwrap().unwrap();
    assert!(grant.is_owner && grant.matching_tags.is_empty());
    assert_eq!(store.grant(key(2), &which).unwrap(), None);
    assert_eq!(store.grant(key(2), &DatasetRef::Name("nothing".to_owned())).unwrap(), None);

    assert!(store.add_tag(id, "public".to_owned()).await.unwrap());
    assert!(!store.add_tag(id, "public".to_owned()).await.unwrap());
    assert!(store.add_tag(id, "members".to_owned()).await.unwrap());
    assert_eq!(store.grant(key(2), &which).unwrap(), None, "it has to acquire the tag first");
    for (tag, want) in [
        ("public", Acquired::New),
        ("public", Acquired::Held),
        ("members", Acquired::Private),
        ("nothing", Acquired::Unknown),
    ] {
        assert_eq!(store.acquirable(key(2), tag).unwrap(), want, "{tag}");
        assert_eq!(store.acquire(key(2), tag.to_owned()).await.unwrap(), want, "{tag}");
    }
    let grant = store.grant(key(2), &which).unwrap().unwrap();
    assert_eq!((grant.is_owner, grant.matching_tags), (false, vec!["public".to_owned()]));
    let tag = |name: &str, is_public| Tag { name: name.to_owned(), is_public };
    assert_eq!(store.dataset_tags(id).unwrap(), [tag("members", false), tag("public", true)]);
    assert_eq!(store.tags().unwrap(), [tag("members", false), tag("public", true)]);
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
        (listed.count, names)
    };
    let all = list(&Filter::All, 1, 2);
    assert_eq!(all, (5, vec!["other_btcusd_1min".to_owned(), "btcusd_1min".to_owned()]));
    let text = |text: &str| Filter::Text(text.to_owned());
    let (count, best) = list(&text("BTCUSD_1min"), 0, 9);
    assert_eq!(count, 4);
    let want = ["btcusd_1min", "btcusd_1min_50%", "other_btcusd_1min", "pair_btcusd_1min"];
    assert_eq!(best, want, "exact, then at the start, then within");
    assert_eq!(list(&text("50%"), 0, 9).1, ["btcusd_1min_50%"]);
    assert_eq!(list(&text("about eur"), 0, 9).1, ["eurusd"], "the description, too");
    let field = Filter::Metadata("ticker".to_owned(), "EURUSD".to_owned());
    assert_eq!(list(&field, 0, 9), (1, vec!["eurusd".to_owned()]));
    assert_eq!(store.list(key(51), &Filter::All, 0, 9).unwrap().count, 0);
}

async fn commits(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("commits")).await;
    let (sender, receiver) = std::sync::mpsc::sync_channel(9);
    for revision in 1..=3_i64 {
        let sender = sender.clone();
        let seen: OnCommit = Box::new(move |appended, rows| {
            sender.send((appended.revision, rows.ids.clone())).unwrap();
        });
        let rows = block([(revision, 1.0), (revision + 1, 2.0)]);
        let appended = store.append(id, rows, now(), seen).await.unwrap();
        assert_eq!((appended.n_rows, appended.revision), (2, u64::try_from(revision).unwrap()));
        let (seen_revision, ids) = receiver.try_recv().expect("called before the append returns");
        assert_eq!((seen_revision, ids.len()), (appended.revision, 2));
    }
    assert_eq!(store.newest_moment(id).unwrap(), Some(at(4)));
    let newest = store.newest(id, 3).unwrap();
    assert_eq!((values(&newest.rows), newest.revision), (vec![(2, 1.0), (3, 1.0), (4, 2.0)], 3));
    drop(store);
    let store = open();
    assert_eq!(store.newest(id, 9).unwrap().rows.len(), 4);
    assert_eq!(append(&*store, id, block([(9, 9.0)])).await.revision, 4);
    let gone = DatasetId::new(999).unwrap();
    let refused = store.append(gone, block([(1, 1.0)]), now(), Box::new(|_, _| ())).await;
    assert!(matches!(refused, Err(StoreError::NoDataset { .. })), "{refused:?}");
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
    let half = Span { first: at(60 * 1000), last: at(60 * 7000) };
    store
        .scan(id, Resolution::Raw, half, &mut |piece| {
            let Rows::Raw(block) = piece else { panic!("not rows") };
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
    store.scan(id, Resolution::Raw, ALL, visit).unwrap();
    assert_eq!(n_pieces, 1, "a scan ends where it is told to");
    let mut n_buckets = 0;
    let visit = &mut |piece| {
        let Rows::Buckets(piece) = piece else { panic!("not buckets") };
        n_buckets += piece.len();
        ControlFlow::Continue(())
    };
    store.scan(id, Resolution::FiveMinutes, ALL, visit).unwrap();
    assert_eq!(n_buckets, 2400);
}

async fn letting_go(open: Open<'_>) {
    let store = open();
    let id = create(&*store, new_dataset("short")).await;
    append(&*store, id, block((0..3000).map(|second| (second, 1.0)))).await;
    append(&*store, id, block((3000..3500).map(|second| (second, 1.0)))).await;
    let before = buckets(&*store, id, Resolution::FiveMinutes);
    assert_eq!(store.prune(id, at(2500), 99_999).await.unwrap(), 2048, "whole chunks");
    let (count, page) = raw_page(&*store, id, &read(Resolution::Raw, Order::Ascending, 0, 1));
    assert_eq!((count, page), (1452, vec![(2048, 1.0)]));
    assert_eq!(buckets(&*store, id, Resolution::FiveMinutes), before, "buckets stay");
    let refused = store.append(id, block([(2399, 1.0)]), now(), Box::new(|_, _| ())).await;
    assert!(matches!(refused, Err(StoreError::LetGo { .. })), "{refused:?}");
    append(&*store, id, block([(2400, 1.0)])).await;
    assert_eq!(buckets(&*store, id, Resolution::FiveMinutes), before);
    let n_gone = store.prune(id, at(99_999), 99_999).await.unwrap();
    assert_eq!(n_gone, 1453, "the replaced row, too");
    assert_eq!(store.newest_moment(id).unwrap(), None);
    append(&*store, id, block([(120_000, 1.0)])).await;
    assert_eq!(store.newest_moment(id).unwrap(), Some(at(120_000)));
}

/// One append: rows at seconds, within a few days.
fn batch() -> impl Strategy<Value = Vec<(i64, f64)>> {
    let value = (-1e6..1e6_f64).prop_map(|value| (value * 1e3).round() / 1e3);
    prop_oneof![
        // A few rows anywhere, some of them where rows are already.
        4 => prop::collection::vec((0..400_i64, value.clone()), 1..20)
            .prop_map(|rows| rows.into_iter().map(|(n, value)| (n * 577, value)).collect()),
        // A run of rows close together.
        2 => (0..200_000_i64, prop::collection::vec(value.clone(), 1..300))
            .prop_map(|(start, values)| (start..).zip(values).collect()),
        // More than a chunk.
        1 => (0..200_000_i64, 1..90_i64, prop::collection::vec(value, 1024..2600)).prop_map(
            |(start, step, values)| (0..).zip(values).map(|(n, v)| (start + n * step, v)).collect()
        ),
    ]
}

/// Checks that any order of inserts, late rows and replacements leaves the rows and the buckets that
/// a plain recomputation gives, in any page of them, and after opening anew.
pub(crate) fn check_random_appends(open: Open<'_>, n_cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let config = Config { cases: n_cases, failure_persistence: None, ..Config::default() };
    let mut n_datasets = 0;
    let names = std::cell::RefCell::new(&mut n_datasets);
    let strategy = (
        prop::collection::vec(batch(), 1..12),
        prop::collection::vec((0..6000_u64, 1..3000_usize, -99..300_000_i64, 0..200_000_i64), 4),
    );
    let check = |(batches, reads): (Vec<Vec<(i64, f64)>>, Vec<Read>)| {
        **names.borrow_mut() += 1;
        let name = format!("random_{}", names.borrow());
        runtime.block_on(async {
            let store = open();
            let id = create(&*store, new_dataset(&name)).await;
            let mut want: BTreeMap<i64, f64> = BTreeMap::new();
            for batch in &batches {
                append(&*store, id, block(batch.iter().copied())).await;
                want.extend(batch.iter().copied());
            }
            drop(store);
            let store = open();
            compare(&*store, id, &want, &reads);
        });
        Ok(())
    };
    TestRunner::new(config).run(&strategy, check).unwrap();
}

/// Checks that a dataset holds exactly these rows, and the buckets made of them.
pub(crate) fn compare(store: &dyn Store, id: DatasetId, want: &BTreeMap<i64, f64>, reads: &[Read]) {
    let rows: Vec<(i64, f64)> = want.iter().map(|(second, value)| (*second, *value)).collect();
    let (count, page) =
        raw_page(store, id, &read(Resolution::Raw, Order::Ascending, 0, usize::MAX));
    assert_eq!((count, &page), (u64::try_from(rows.len()).unwrap(), &rows));
    for (skip, limit, start, length) in reads {
        let span = Span { first: at(*start), last: at(start + length) };
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
    let fold = Fold::Value { value: 0, volume: None };
    let mut plain = fold.buckets(&block(rows), Resolution::FiveMinutes, None);
    for resolution in Resolution::BUCKETED {
        plain = plain
            .chunk_by(|a, b| {
                resolution.bucket_start(a.timestamp) == resolution.bucket_start(b.timestamp)
            })
            .map(|run| coarser(resolution.bucket_start(run[0].timestamp), run.to_vec()).unwrap())
            .collect();
        assert_eq!(buckets(store, id, resolution), plain, "{resolution}");
    }
}
