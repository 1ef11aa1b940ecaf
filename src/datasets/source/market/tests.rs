//! Bars that could be a market's, and their way into the datasets.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{block::Rows, resolution::Resolution};
use task::group::Group;
use tempfile::tempdir;
use tsdb::{catalog::DatasetRef, span::Span, store::sqlite::SqliteStore};

use super::{generator::DELAY_MAX, *};

const DAY: i64 = 1440;

fn generator() -> Generator {
    Generator::new(TICKERS[0], 7)
}

#[test]
fn bars_are_bars_and_hang_together() {
    let generator = generator();
    let mut last: Option<Bar> = None;
    let (mut lowest, mut highest) = (f64::MAX, 0.0_f64);
    for minute in 0..30 * DAY {
        let bar = generator.bar(minute);
        let (top, bottom) = (bar.open.max(bar.close), bar.open.min(bar.close));
        assert!(bar.low <= bottom && top <= bar.high && bar.low > 0.0, "{bar:?}");
        assert!(bar.volume > 0.0 && bar.trades >= 1.0 && bar.trades.fract() == 0.0, "{bar:?}");
        assert!(last.is_none_or(|last| (last.close - bar.open).abs() < 1e-9), "{last:?} {bar:?}");
        last = Some(bar);
        (lowest, highest) = (lowest.min(bar.low), highest.max(bar.high));
    }
    let swing = highest / lowest;
    assert!((1.05..2.5).contains(&swing), "a month swings by {swing}");
}

#[test]
fn a_bar_follows_from_the_seed_and_its_minute() {
    assert_eq!(generator().bar(12_345), generator().bar(12_345));
    assert_ne!(generator().bar(12_345), Generator::new(TICKERS[0], 8).bar(12_345));
    assert_ne!(generator().bar(12_345), Generator::new(TICKERS[1], 7).bar(12_345));
}

#[test]
fn some_minutes_are_missing_some_late_and_some_corrected() {
    let generator = generator();
    let (mut n_late, mut n_corrected) = (0, 0);
    let mut rows: BTreeMap<i64, Bar> = BTreeMap::new();
    for minute in 0..10 * DAY {
        for (bar_minute, bar) in generator.arrivals(minute) {
            match rows.insert(bar_minute, bar) {
                Some(before) => {
                    assert_ne!(before, bar, "a correction corrects something");
                    n_corrected += 1;
                }
                None if bar_minute < minute => n_late += 1,
                None => {}
            }
        }
    }
    let whole = 0..10 * DAY - DELAY_MAX;
    let missing: BTreeSet<i64> =
        whole.clone().filter(|minute| !rows.contains_key(minute)).collect();
    assert!((20..400).contains(&missing.len()), "{} minutes are missing", missing.len());
    assert!(missing.iter().all(|minute| generator.is_missing(*minute)));
    assert!(n_late > 50 && n_corrected > 50, "{n_late} late, {n_corrected} corrected");
    let is_final = |minute: &i64| rows.get(minute).is_none_or(|bar| *bar == generator.bar(*minute));
    assert!(whole.clone().all(|minute| is_final(&minute)), "in the end all bars are right");
}

async fn rows_of(datasets: &Datasets, name: &str) -> Vec<i64> {
    let which = DatasetRef::Name(name.to_owned());
    let read = datasets.read_store(move |store| {
        let mut minutes = Vec::new();
        let Some(found) = store.sight(None, &which)? else { return Ok(minutes) };
        let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        store.scan(found.dataset.id, Resolution::Raw, all, &mut |piece| {
            if let Rows::Raw(block) = piece.rows()? {
                minutes.extend(block.times.into_iter().map(minute_of));
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        Ok(minutes)
    });
    read.await.unwrap()
}

/// Runs the market until its newest bar is that of `minute`, and stops it.
async fn run_until(datasets: &Datasets, options: MarketOptions, clock: &Clock, minute: i64) {
    let group = Group::default();
    group.spawn("market", run(datasets.clone(), options, clock.clone()));
    let seen = || async {
        let newest = rows_of(datasets, "synthetic_eurusd_1min").await.last().copied();
        if newest >= Some(minute) { Ok(()) } else { Err(newest) }
    };
    task::wait::until(Duration::from_mins(1), seen).await.unwrap();
    group.shutdown().await;
}

#[tokio::test]
async fn history_is_written_time_runs_on_and_a_restart_goes_on() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
    let now = minute_of(clock.now());
    let datasets = Datasets::new(Arc::new(store), clock.clone(), &Group::default());
    let (lag, history) = (Duration::from_hours(2), Duration::from_hours(48));
    let options = MarketOptions { seed: 7, lag, history, speed: 60_000 };
    run_until(&datasets, options, &clock, now - 100).await;
    let first = rows_of(&datasets, "synthetic_btcusd_1min").await;
    assert!(first.first().is_some_and(|minute| *minute <= now - 3000 + DELAY_MAX));
    assert!(first.len() > 2600, "{} of at most 2780 minutes", first.len());

    run_until(&datasets, options, &clock, now - 6).await;
    let minutes = rows_of(&datasets, "synthetic_btcusd_1min").await;
    assert!(minutes.starts_with(&first[..first.len() - 30]), "the history is the same");
    assert!(minutes.iter().all(|minute| *minute < now), "no bar of a minute that is not over");
    let generator = Generator::new(TICKERS[0], 7);
    let gaps = (now - 3000..now - 40).filter(|minute| minutes.binary_search(minute).is_err());
    assert!(gaps.into_iter().all(|minute| generator.is_missing(minute)));
}

#[tokio::test]
async fn a_leap_of_the_clock_makes_no_bars_of_the_future() {
    let folder = tempdir().unwrap();
    let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
    let clock = Clock::manual(Timestamp::from_seconds(1_800_000_000));
    let now = minute_of(clock.now());
    let datasets = Datasets::new(Arc::new(store), clock.clone(), &Group::default());
    let (lag, history) = (Duration::from_mins(5), Duration::from_hours(1));
    let options = MarketOptions { seed: 7, lag, history, speed: 60_000 };
    let group = Group::default();
    group.spawn("market", run(datasets.clone(), options, clock.clone()));
    let newest = async || rows_of(&datasets, "synthetic_eurusd_1min").await.last().copied();
    let is_at = async |minute: i64| {
        let seen = async || match newest().await {
            newest if newest >= Some(minute) => Ok(()),
            newest => Err(newest),
        };
        task::wait::until(Duration::from_mins(1), seen).await.unwrap();
    };
    is_at(now - 3).await;
    clock.set(clock.now() + Duration::from_hours(48));
    // Many ticks, each a bar if there were one to write.
    let mut ticks = interval(Duration::from_millis(1));
    for _ in 0..300 {
        ticks.tick().await;
    }
    assert!(newest().await < Some(now), "no bar is of a minute that is not over");
    clock.set(clock.now() - Duration::from_hours(48));
    clock.advance(Duration::from_mins(10));
    is_at(now + 6).await;
    group.shutdown().await;
}

/// How a move of 30 minutes goes on over the next 30: above 0 it goes on, below it returns.
fn autocorrelation(generator: &Generator, regime: fn(&Generator, i64) -> bool) -> f64 {
    let close = |minute: i64| generator.bar(minute).close.ln();
    let (mut product, mut square) = (0.0, 0.0);
    for minute in (0..200 * DAY).step_by(15).filter(|minute| regime(generator, *minute)) {
        let before = close(minute) - close(minute - 30);
        product += before * (close(minute + 30) - close(minute));
        square += before * before;
    }
    product / square
}

#[test]
fn moves_go_on_in_a_trend_and_return_in_a_range() {
    let generator = generator();
    let trend = autocorrelation(&generator, Generator::is_trending);
    assert!(trend > 0.5, "{trend}");
    let range = autocorrelation(&generator, Generator::is_ranging);
    assert!(range < -0.2, "{range}");
}
