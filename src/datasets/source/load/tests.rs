//! The machine that runs the test is measured for real.

use std::{sync::Arc, time::Duration};

use model::{page::Limit, resolution::Resolution};
use task::group::Group;
use tempfile::tempdir;

use super::*;
use crate::{query::DatasetRef, store::sqlite::SqliteStore};

#[tokio::test]
async fn each_dataset_gets_a_row_a_tick_and_lets_go_of_old_ones() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
    let group = Group::default();
    let datasets = Datasets::new(Arc::new(store), clock.clone(), &group);
    let options = LoadOptions { every: Duration::from_millis(5), keep: Duration::from_mins(10) };
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
            let found = datasets.blocking(move |store| {
                let Some(dataset) = store.dataset(&which)? else { return Ok(None) };
                Ok(Some(store.newest(dataset.id, Limit::clamped(100).get())?.rows))
            });
            match found.await.unwrap() {
                Some(rows) if rows.len() >= at_least => Ok(rows),
                found => Err(found.map(|rows| rows.len())),
            }
        }
    };
    for description in DATASETS {
        let look = || n_rows(description.name, 3);
        let rows = task::wait::until(Duration::from_secs(20), look).await.unwrap();
        let newest = rows.row(rows.len() - 1).unwrap();
        let value = newest.values[0].as_ref().and_then(model::row::Value::as_f64);
        assert!(value.is_some_and(|value| value >= 0.0), "{}: {newest:?}", description.name);
    }
    let which = DatasetRef::Name("machine_cpu".to_owned());
    let cpu = datasets.blocking(move |store| store.dataset(&which)).await.unwrap().unwrap();
    clock.advance(Duration::from_hours(1));
    let pruned = || {
        let datasets = datasets.clone();
        async move {
            let first = datasets
                .blocking(move |store| {
                    let mut first = None;
                    let all = crate::query::Span { first: Timestamp::MIN, last: Timestamp::MAX };
                    store.scan(cpu.id, Resolution::Raw, all, &mut |piece| {
                        if let crate::block::Rows::Raw(block) = piece {
                            first = first.or(block.times.first().copied());
                        }
                        std::ops::ControlFlow::Continue(())
                    })?;
                    Ok(first)
                })
                .await
                .unwrap();
            let hour = Timestamp::from_seconds(1_800_003_000);
            if first.is_some_and(|first| first >= hour) { Ok(()) } else { Err(first) }
        }
    };
    task::wait::until(Duration::from_secs(20), pruned).await.unwrap();
    group.shutdown().await;
}
