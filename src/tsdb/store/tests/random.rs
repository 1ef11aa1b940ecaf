//! Compares a store after random writes with a simple model.

use std::cell::Cell;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};

use super::*;

/// A row: its second, its value and its volume.
type Row = (i64, (Option<f64>, f64));

/// A random write to a dataset, or a step between writes.
#[derive(Debug, Clone)]
enum Operation {
    Append(Vec<Row>),
    DeleteRows(i64, i64),
    Prune(i64),
    Settle,
    Reopen,
}

/// A dataset as a list of rows.
#[derive(Debug, Default)]
struct Model {
    rows: BTreeMap<i64, (Option<f64>, f64)>,
    /// Buckets of five minutes of pruned rows, which no longer change.
    frozen: BTreeMap<Timestamp, Bucket>,
    kept_from: Option<i64>,
}

fn row() -> impl Strategy<Value = (Option<f64>, f64)> {
    let value = (-1e6..1e6_f64).prop_map(|value| (value * 1e3).round() / 1e3);
    (prop::option::weighted(0.9, value), 0.0..9.0_f64)
}

fn operation() -> impl Strategy<Value = Operation> {
    prop_oneof![
        // A few rows at random timestamps, at some of which a row exists.
        6 => prop::collection::vec((0..400_i64, row()), 1..20).prop_map(|rows| {
            Operation::Append(rows.into_iter().map(|(n, row)| (n * 577, row)).collect())
        }),
        // A run of consecutive rows.
        3 => (0..200_000_i64, prop::collection::vec(row(), 1..300))
            .prop_map(|(start, rows)| Operation::Append((start..).zip(rows).collect())),
        // More rows than fit into a chunk.
        2 => (0..200_000_i64, 1..90_i64, prop::collection::vec(row(), 400..2600)).prop_map(
            |(start, step, rows)| {
                Operation::Append((0..).zip(rows).map(|(n, row)| (start + n * step, row)).collect())
            }
        ),
        2 => (0..220_000_i64, 0..50_000_i64).prop_map(|(from, n)| Operation::DeleteRows(from, from + n)),
        1 => (0..100_000_i64).prop_map(Operation::Prune),
        2 => Just(Operation::Settle),
        1 => Just(Operation::Reopen),
    ]
}

/// Makes random writes to `n_cases` datasets and checks the results.
pub(crate) fn check(open: Open<'_>, n_cases: u32) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let config = Config::with_cases(n_cases);
    let n_datasets = Cell::new(0);
    let reads = (0..6000_u64, 1..3000_usize, -99..300_000_i64, 0..200_000_i64);
    let strategy = (prop::collection::vec(operation(), 1..14), prop::collection::vec(reads, 3));
    let check = |(operations, reads): (Vec<Operation>, Vec<Read>)| {
        n_datasets.set(n_datasets.get() + 1);
        let name = format!("random_{}", n_datasets.get());
        runtime.block_on(async {
            let mut store = open();
            let columns = ["value", "volume"].map(|name| (name.to_owned(), Dtype::Float));
            let new = NewDataset { columns: columns.to_vec(), ..new_dataset(&name) };
            let id = create(&*store, new).await;
            let mut model = Model::default();
            for operation in operations {
                match operation {
                    Operation::Reopen => {
                        drop(store);
                        store = open();
                    }
                    Operation::Settle => store.settle().await.unwrap(),
                    operation => model.follow(&*store, id, operation).await,
                }
            }
            model.compare(&*store, id, &reads);
        });
        Ok(())
    };
    TestRunner::new(config).run(&strategy, check).unwrap();
}

impl Model {
    async fn follow(&mut self, store: &dyn Store, id: DatasetId, operation: Operation) {
        match operation {
            Operation::Append(rows) => {
                let rows: BTreeMap<_, _> = rows.into_iter().collect();
                let appended = try_append(store, id, block_of(&rows)).await;
                let first = rows.keys().next().copied();
                if first.zip(self.kept_from).is_some_and(|(first, kept_from)| first < kept_from) {
                    assert!(matches!(appended, Err(StoreError::Pruned { .. })), "{appended:?}");
                } else {
                    appended.unwrap();
                    self.rows.extend(rows);
                }
            }
            Operation::DeleteRows(first, last) => {
                let n_before = self.rows.len();
                self.rows.retain(|second, _| !(first..=last).contains(second));
                self.frozen.retain(|start, _| {
                    let start = start.seconds();
                    start < first || start + 299 >= last
                });
                let span = Span { first: at_second(first), last: at_second(last) };
                let n_gone = store
                    .delete_rows(id, RowDeletion::new(span, now()), Arc::new(|_| {}))
                    .await
                    .unwrap();
                assert_eq!(n_gone.n_rows, u64::try_from(n_before - self.rows.len()).unwrap());
            }
            Operation::Prune(before) => {
                let before = before / 300 * 300;
                let finest = self.finest();
                if store.prune(id, at_second(before), 3000, Arc::new(|_| {})).await.unwrap().n_rows
                    > 0
                {
                    // The engine decides how many rows it removes, but all rows from `before` on must
                    // remain.
                    let left = rows_of(store, id);
                    let is_gone = |second: &i64| *second < before && !left.contains_key(second);
                    let newest_gone = self.rows.keys().copied().rfind(is_gone).unwrap();
                    self.rows.retain(|second, _| !is_gone(second));
                    let bucket_end = newest_gone / 300 * 300 + 300;
                    self.kept_from = self.kept_from.max(Some(bucket_end.min(before)));
                    let kept_from = at_second(self.kept_from.unwrap());
                    let old = finest.into_iter().filter(|bucket| bucket.timestamp < kept_from);
                    self.frozen = old.map(|bucket| (bucket.timestamp, bucket)).collect();
                }
            }
            Operation::Settle | Operation::Reopen => {}
        }
    }

    /// Returns the expected buckets of five minutes.
    fn finest(&self) -> Vec<Bucket> {
        let kept_from = self.kept_from.unwrap_or(i64::MIN);
        let kept = self.rows.range(kept_from..).map(|(second, row)| (*second, *row)).collect();
        let fold = Fold::of_value(0, Some(1));
        let folded = fold.buckets(&block_of(&kept), Resolution::FiveMinutes, None);
        self.frozen.values().copied().chain(folded).collect()
    }

    fn compare(&self, store: &dyn Store, id: DatasetId, reads: &[Read]) {
        assert_eq!(rows_of(store, id), self.rows);
        compare_pages(store, id, &self.rows.keys().copied().collect::<Vec<_>>(), reads);
        compare_all_buckets(store, id, &self.finest(), reads);
        let newest = self.rows.keys().last().copied().map(at_second);
        check_newest(store, id, newest);
    }
}

fn compare_pages(store: &dyn Store, id: DatasetId, seconds: &[i64], reads: &[Read]) {
    for (skip, limit, start, length) in reads {
        let span = Span { first: at_second(*start), last: at_second(start + length) };
        let is_within = |second: &&i64| (*start..=start + length).contains(*second);
        let within: Vec<i64> = seconds.iter().filter(is_within).copied().collect();
        for order in [Order::Ascending, Order::Descending] {
            let read = PageRead { span, ..read(Resolution::Raw, order, *skip, *limit) };
            let page = store.page(id, &read).unwrap();
            let Rows::Raw(block) = page.rows else { panic!("not rows") };
            let mut want = within.clone();
            if order == Order::Descending {
                want.reverse();
            }
            let skip = usize::try_from(*skip).unwrap();
            let want: Vec<_> = want.into_iter().skip(skip).take(*limit).collect();
            let got: Vec<_> = block.times.iter().map(|time| time.seconds()).collect();
            assert_eq!((page.count, got), (Some(within.len() as u64), want));
        }
    }
}

fn block_of(rows: &BTreeMap<i64, (Option<f64>, f64)>) -> Block {
    let mut block = Block::new(&[Dtype::Float, Dtype::Float]);
    for (second, (value, volume)) in rows {
        block.times.push(at_second(*second));
        match value {
            Some(value) => block.columns[0].push(Value::Float(*value)).unwrap(),
            None => block.columns[0].push_missing(1),
        }
        block.columns[1].push(Value::Float(*volume)).unwrap();
    }
    block
}

fn rows_of(store: &dyn Store, id: DatasetId) -> BTreeMap<i64, (Option<f64>, f64)> {
    let mut rows = BTreeMap::new();
    let visit = &mut |batch| {
        let Rows::Raw(block) = batch else { panic!("not rows") };
        assert!(block.ids.len() == block.len() && block.created.len() == block.len());
        let [Series::Float(values), Series::Float(volumes)] = &block.columns[..] else {
            panic!("not two columns of floats")
        };
        for ((time, value), volume) in block.times.iter().zip(values).zip(volumes) {
            let last = rows.last_key_value().map(|(second, _)| *second);
            assert!(last.is_none_or(|last| last < time.seconds()), "in order");
            rows.insert(time.seconds(), (*value, volume.unwrap()));
        }
        ControlFlow::Continue(())
    };
    scan(store, id, Resolution::Raw, Span::ALL, visit).unwrap();
    rows
}
