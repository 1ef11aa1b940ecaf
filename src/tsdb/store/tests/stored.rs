//! Stored files of earlier formats, which every later version must be able to open.
//!
//! Each engine has such files next to its tests. For a new format, leave the older files and add a new
//! file: run the tests with `TRIPTYCH_WRITE_STORED_FILE=1`.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::timestamp::Timestamp;

use super::{append, block, compare, create, new_dataset};
use crate::catalog::DatasetRef;
use crate::span::Span;
use crate::store::{RowDeletion, Store};

/// Rows that replace a stored row, lie between stored rows, and come after all of them.
const LATE: [(i64, f64); 3] = [(0, 3.0), (61, 5.0), (120_000, 7.0)];

/// Returns a row for each minute. The first values have full mantissas, later values two decimals.
fn minutes(minutes: std::ops::Range<i32>) -> impl Iterator<Item = (i64, f64)> {
    minutes.map(|n| {
        let value =
            if n < 1024 { f64::from(n % 97) / 7.0 } else { f64::from(n * 7919 % 1013) / 100.0 };
        (i64::from(n) * 60, value)
    })
}

/// Returns a row for each minute: first decimals, then sums of decimals.
fn decimals() -> impl Iterator<Item = (i64, f64)> {
    let cents = (0..1024).map(|n| f64::from(n * 7919 % 1013) / 100.0);
    let sums = (1024..2048).map(|n| f64::from(n * 7919 % 1013).mul_add(0.1, 0.2));
    cents.chain(sums).zip(0..).map(|(value, minute)| (minute * 60, value))
}

/// Returns true if this run is to write the stored files.
pub(crate) fn is_written() -> bool {
    std::env::var_os("TRIPTYCH_WRITE_STORED_FILE").is_some_and(|value| value == "1")
}

/// Fills a store with rows in every form in which it stores them.
pub(crate) async fn fill(store: &dyn Store) {
    let id = create(store, new_dataset("stored")).await;
    for n in [0..1500, 1500..2000] {
        append(store, id, block(minutes(n))).await;
    }
    store.settle().await.unwrap();
    for n in [2000..2600, 2600..2700] {
        append(store, id, block(minutes(n))).await;
    }
    append(store, id, block(LATE)).await;
    let id = create(store, new_dataset("decimals")).await;
    append(store, id, block(decimals())).await;
    store.settle().await.unwrap();
}

/// Reads a store that [`fill`] filled, appends to it and deletes from it.
pub(crate) async fn check(store: &dyn Store) {
    let mut want: BTreeMap<i64, f64> = minutes(0..2700).chain(LATE).collect();
    let which = DatasetRef::Name("stored".to_owned());
    let id = store.sight(None, &which).unwrap().unwrap().dataset.id;
    // Files before format 13 do not have this dataset.
    if let Some(sight) = store.sight(None, &DatasetRef::Name("decimals".to_owned())).unwrap() {
        compare(store, sight.dataset.id, &decimals().collect(), &[(5, 40, 30, 90_000)]);
    }
    compare(store, id, &want, &[(5, 40, 30, 90_000)]);
    store.settle().await.unwrap();
    compare(store, id, &want, &[(5, 40, 30, 90_000)]);
    let more = [(62, 6.0), (170_000, 8.0)];
    append(store, id, block(more)).await;
    want.extend(more);
    compare(store, id, &want, &[(5, 40, 30, 90_000)]);
    let span = Span { first: Timestamp::MIN, last: Timestamp::from_seconds(99_999) };
    store
        .delete_rows(id, RowDeletion::new(span, Timestamp::from_seconds(1)), Arc::new(|_| {}))
        .await
        .unwrap();
    compare(store, id, &want.split_off(&100_000), &[]);
}
