//! Tests of the source that measures the load. They run with the load of the current machine.

use std::sync::Arc;
use std::time::Duration;

use model::block::Rows;
use model::page::Limit;
use model::resolution::Resolution;
use task::group::Group;
use tempfile::tempdir;
use tsdb::catalog::DatasetRef;
use tsdb::span::Span;
use tsdb::store::sqlite::SqliteStore;

use super::*;

#[tokio::test]
async fn each_dataset_of_the_machine_load_gets_a_row_per_tick_and_is_retained_for_a_day() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
    let group = Group::default();
    let datasets = Datasets::new(Arc::new(store), clock.clone(), &group);
    let options = LoadOptions { every: Duration::from_millis(5) };
    group.spawn("load", run(datasets.clone(), options, clock.clone()));
    let seconds = clock.clone();
    group.spawn("clock", async move {
        let mut ticks = interval(Duration::from_millis(5));
        loop {
            ticks.tick().await;
            seconds.advance(Duration::from_secs(1));
        }
    });
    let n_rows = |name: &'static str, at_least: usize| {
        let datasets = datasets.clone();
        async move {
            let which = DatasetRef::Name(name.to_owned());
            let found = datasets.read_store(move |store| {
                let Some(found) = store.sight(None, &which)? else { return Ok(None) };
                Ok(Some(store.newest(found.dataset.id, Limit::clamp(100).get())?.0))
            });
            match found.await.unwrap() {
                Some(rows) if rows.len() >= at_least => Ok(rows),
                found => Err(found.map(|rows| rows.len())),
            }
        }
    };
    for (name, ..) in DATASETS {
        let look = || n_rows(name, 3);
        let rows = task::wait::until(Duration::from_secs(20), look).await.unwrap();
        let newest = rows.row(rows.len() - 1).unwrap();
        let value = newest.values[0].as_ref().and_then(model::row::Value::as_f64);
        assert!(value.is_some_and(|value| value >= 0.0), "{name}: {newest:?}");
    }
    let which = DatasetRef::Name("machine_cpu".to_owned());
    let found = datasets.read_store(move |store| store.sight(None, &which)).await.unwrap();
    assert_eq!(found.unwrap().dataset.metadata["keep_days"], "1");
    group.shutdown().await;
}

/// Returns the seconds of all rows of `machine_cpu`, in ascending order.
async fn seconds_of_rows(datasets: &Datasets) -> Vec<i64> {
    let read = datasets.read_store(|store| {
        let mut seconds = Vec::new();
        let which = DatasetRef::Name("machine_cpu".to_owned());
        let Some(cpu) = store.sight(None, &which)? else { return Ok(seconds) };
        let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        store.scan(cpu.dataset.id, Resolution::Raw, all, &mut |piece| {
            if let Rows::Raw(block) = piece.rows()? {
                seconds.extend(block.times.iter().map(|time| time.seconds()));
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        Ok(seconds)
    });
    read.await.unwrap()
}

async fn put_seconds(store: &mut LoadStore, clock: &Clock, n_seconds: u32) {
    for _ in 0..n_seconds {
        clock.advance(Duration::from_secs(1));
        store
            .put([vec![Some(1.0); 3], vec![Some(1.0); 3], vec![Some(1.0); 2], vec![None; 3]])
            .await;
    }
}

#[tokio::test]
async fn no_rows_are_lost_when_the_clock_leaps_ahead() {
    const START: i64 = 1_800_000_000;
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let clock = Clock::manual(Timestamp::from_seconds(START));
    let group = Group::default();
    let datasets = Datasets::new(Arc::new(store), clock.clone(), &group);
    let leap = Duration::from_hours(48);
    let mut store = LoadStore::open(&datasets, &clock).await.unwrap();
    put_seconds(&mut store, &clock, 65).await;
    clock.set(clock.now() + leap);
    put_seconds(&mut store, &clock, 59).await;
    clock.set(clock.now() - leap);
    put_seconds(&mut store, &clock, 65).await;
    let rows = seconds_of_rows(&datasets).await;
    assert!(
        rows.iter().copied().eq((1..=65).chain(125..190).map(|second| START + second)),
        "{rows:?}"
    );

    // If the clock is wrong from the start, rows are stored nevertheless.
    clock.set(clock.now() + leap);
    let mut store = LoadStore::open(&datasets, &clock).await.unwrap();
    put_seconds(&mut store, &clock, 65).await;
    clock.set(clock.now() - leap);
    put_seconds(&mut store, &clock, 65).await;
    assert_eq!(seconds_of_rows(&datasets).await.len(), rows.len() + 130);

    // A leap that persists becomes the new date.
    clock.set(clock.now() + leap);
    put_seconds(&mut store, &clock, 61).await;
    assert_eq!(seconds_of_rows(&datasets).await.last(), Some(&clock.now().seconds()));
    group.shutdown().await;
}
