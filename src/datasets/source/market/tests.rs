//! Tests that bars are valid and are stored in their datasets.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use model::block::Rows;
use model::resolution::Resolution;
use task::group::Group;
use tempfile::tempdir;
use tsdb::catalog::DatasetRef;
use tsdb::span::Span;
use tsdb::store::sqlite::SqliteStore;

use super::generator::DELAY_MAX;
use super::*;

const HOUR: i64 = 3_600;
const DAY: i64 = 24 * HOUR;

/// Interval at which the market checks the clock in tests.
const SHORT_TICK: Duration = Duration::from_millis(20);

/// Second at which the clock of the tests begins.
const NOW: i64 = 1_800_000_000;

fn generator() -> Generator {
    Generator::new(TICKERS[0], 7)
}

#[test]
fn synthetic_bars_are_valid_and_continuous() {
    let generator = generator();
    for length in [1, 60, 300] {
        let mut last: Option<Bar> = None;
        let (mut lowest, mut highest) = (f64::MAX, 0.0_f64);
        for first in (0..9_000).map(|place| place * length) {
            let bar = generator.bar(first, length);
            let (top, bottom) = (bar.open.max(bar.close), bar.open.min(bar.close));
            assert!(bar.low <= bottom && top <= bar.high && bar.low > 0.0, "{bar:?}");
            assert!(bar.volume > 0.0 && bar.trades >= 1.0 && bar.trades.fract() == 0.0, "{bar:?}");
            assert!(last.is_none_or(|last| (last.close - bar.open).abs() < 1e-9), "{bar:?}");
            last = Some(bar);
            (lowest, highest) = (lowest.min(bar.low), highest.max(bar.high));
        }
        let swing = highest / lowest;
        assert!(swing < 2.5 && (length < 300 || swing > 1.05), "a month swings by {swing}");
    }
}

#[test]
fn synthetic_bar_is_determined_by_seed_and_second() {
    assert_eq!(generator().bar(12_345, 1), generator().bar(12_345, 1));
    assert_ne!(generator().bar(12_345, 1), Generator::new(TICKERS[0], 8).bar(12_345, 1));
    assert_ne!(generator().bar(12_345, 1), Generator::new(TICKERS[1], 7).bar(12_345, 1));
}

#[test]
fn some_synthetic_bars_are_missing_late_or_corrected() {
    let generator = generator();
    let (mut n_late, mut n_corrected) = (0, 0);
    let mut rows: BTreeMap<i64, Bar> = BTreeMap::new();
    for second in 0..4 * HOUR {
        for (first, bar) in generator.arrivals(second) {
            match rows.insert(first, bar) {
                Some(before) => {
                    assert_ne!(before, bar, "a correction corrects something");
                    n_corrected += 1;
                }
                None if first < second => n_late += 1,
                None => {}
            }
        }
    }
    let whole = 0..4 * HOUR - DELAY_MAX;
    let missing: BTreeSet<i64> =
        whole.clone().filter(|second| !rows.contains_key(second)).collect();
    assert!((20..400).contains(&missing.len()), "{} seconds are missing", missing.len());
    assert!(missing.iter().all(|second| generator.is_missing(*second)));
    assert!(n_late > 50 && n_corrected > 50, "{n_late} late, {n_corrected} corrected");
    let is_final =
        |second: &i64| rows.get(second).is_none_or(|bar| *bar == generator.bar(*second, 1));
    assert!(whole.clone().all(|second| is_final(&second)), "in the end all bars are right");
}

#[test]
fn synthetic_bars_of_each_length_start_at_multiples_of_their_length_without_gaps() {
    let begin = NOW - 3 * DAY;
    let mut spans = Vec::new();
    let mut next = begin;
    loop {
        let batch = super::spans(next, NOW);
        let Some(last) = batch.last() else { break };
        next = last.end;
        spans.extend(batch);
    }
    assert_eq!(next, NOW, "up to now, and not beyond it");
    for pair in spans.windows(2) {
        assert_eq!(pair[0].end, pair[1].start);
    }
    for span in &spans {
        let (length, age) = (span.end - span.start, NOW - span.start);
        let want = if age >= DAY { 300 } else { i64::from(age >= HOUR) * 59 + 1 };
        assert_eq!(length, want, "{age} s ago");
        assert_eq!(span.start % length, 0);
    }
    // After a pause, the next bar begins at a multiple of its length.
    assert_eq!(super::spans(NOW - 2 * DAY + 1, NOW).first().map(|span| span.start % 300), Some(0));
    assert_eq!(super::spans(NOW, NOW), []);
    let history = super::spans(NOW - MarketOptions::USUAL.history.as_secs().cast_signed(), NOW);
    assert_eq!(history.last().map(|span| span.end), Some(NOW), "in one append");
}

async fn rows_of(datasets: &Datasets, name: &str) -> Vec<i64> {
    let which = DatasetRef::Name(name.to_owned());
    let read = datasets.read_store(move |store| {
        let mut seconds = Vec::new();
        let Some(found) = store.sight(None, &which)? else { return Ok(seconds) };
        let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        store.scan(found.dataset.id, Resolution::Raw, all, &mut |piece| {
            if let Rows::Raw(block) = piece.rows()? {
                seconds.extend(block.times.into_iter().map(Timestamp::seconds));
            }
            Ok(std::ops::ControlFlow::Continue(()))
        })?;
        Ok(seconds)
    });
    read.await.unwrap()
}

/// A store with a market that writes to it until the group stops.
struct Stage {
    _folder: tempfile::TempDir,
    datasets: Datasets,
    clock: Clock,
    options: MarketOptions,
}

impl Stage {
    fn new(history: Duration) -> Self {
        let folder = tempdir().unwrap();
        let store = SqliteStore::open(&folder.path().join("datasets.sqlite")).unwrap();
        let clock = Clock::manual(Timestamp::from_seconds(NOW));
        let datasets = Datasets::new(Arc::new(store), clock.clone(), &Group::default());
        let options = MarketOptions { seed: 7, history };
        Self { _folder: folder, datasets, clock, options }
    }

    fn start(&self) -> Group {
        let group = Group::default();
        let (datasets, clock) = (self.datasets.clone(), self.clock.clone());
        group.spawn("market", run_every(SHORT_TICK, datasets, self.options, clock));
        group
    }

    /// Returns the second up to which all pairs have bars.
    async fn newest(&self) -> Option<i64> {
        let mut newest = Vec::new();
        for ticker in TICKERS {
            let rows = rows_of(&self.datasets, &format!("synthetic_{}", ticker.name)).await;
            newest.push(rows.last().copied());
        }
        newest.into_iter().min().flatten()
    }

    /// Waits until all pairs have a bar at `second` or later.
    async fn reach(&self, second: i64) {
        let seen = || async {
            let newest = self.newest().await;
            if newest >= Some(second) { Ok(()) } else { Err(newest) }
        };
        task::wait::until(Duration::from_mins(1), seen).await.unwrap();
    }
}

#[tokio::test]
async fn market_writes_past_bars_first_then_new_bars_and_resumes_after_a_restart() {
    let stage = Stage::new(Duration::from_hours(48));
    let group = stage.start();
    stage.reach(NOW - 10).await;
    group.shutdown().await;
    let first = rows_of(&stage.datasets, "synthetic_btcusd").await;
    assert_eq!(first.first(), Some(&(NOW - 2 * DAY)));
    let n_bars = usize::try_from(DAY / 300 + 23 * 60 + HOUR).unwrap();
    assert!((n_bars - 300..=n_bars).contains(&first.len()), "{} of {n_bars}", first.len());

    // The service starts again two hours later. The first of these hours gets bars of one minute, the
    // second hour bars of one second.
    stage.clock.advance(Duration::from_hours(2));
    let group = stage.start();
    stage.reach(NOW + 2 * HOUR - 10).await;
    group.shutdown().await;
    let rows = rows_of(&stage.datasets, "synthetic_btcusd").await;
    assert!(rows.starts_with(&first[..first.len() - 30]), "the history is the same");
    assert!(rows.iter().all(|second| *second < NOW + 2 * HOUR), "no bar before its second is over");
    let n_minutes = rows.iter().filter(|second| (NOW..NOW + HOUR).contains(second)).count();
    assert!((59..=61).contains(&n_minutes), "{n_minutes} bars of an hour without the service");
    let generator = generator();
    // The last bar of one minute begins an hour before the restart. Bars of one second follow it.
    let seconds = NOW + HOUR + 60..NOW + 2 * HOUR - 40;
    let gaps = seconds.filter(|at| rows.binary_search(at).is_err());
    assert!(gaps.into_iter().all(|second| generator.is_missing(second)));
}

#[tokio::test]
async fn no_future_bars_are_created_when_the_clock_leaps_ahead() {
    let stage = Stage::new(Duration::from_mins(5));
    let (group, clock) = (stage.start(), &stage.clock);
    stage.reach(NOW - 10).await;
    clock.set(clock.now() + Duration::from_hours(48));
    // Waits for several ticks of the source, each of which could write a bar.
    let mut ticks = interval(SHORT_TICK);
    for _ in 0..4 {
        ticks.tick().await;
    }
    assert!(stage.newest().await < Some(NOW), "no bar is of a second that is not over");
    clock.set(clock.now() - Duration::from_hours(48));
    clock.advance(Duration::from_secs(5));
    stage.reach(NOW).await;
    group.shutdown().await;
}

/// Returns the correlation of moves within `before` seconds with the moves in the following 12 seconds,
/// all of them in swings or all in drifts. If it is positive, moves tend to continue. If it is negative,
/// they tend to reverse.
fn correlation(generator: &Generator, is_swing: bool, before: i64) -> f64 {
    let share = if is_swing { 1.0 } else { 0.0 };
    let is_whole = |second: i64| {
        let ends = [second - 20, second + 12].map(|at| generator.swing_share(at));
        ends.iter().all(|at| (at - share).abs() < 1e-9)
    };
    let close = |second: i64| generator.bar(second, 1).close.ln();
    let (mut product, mut square_before, mut square_after) = (0.0, 0.0, 0.0);
    for second in (0..6 * HOUR).step_by(7).filter(|second| is_whole(*second)) {
        let (move_before, move_after) =
            (close(second) - close(second - before), close(second + 12) - close(second));
        product += move_before * move_after;
        square_before += move_before * move_before;
        square_after += move_after * move_after;
    }
    product / (square_before * square_after).sqrt()
}

#[test]
fn prices_continue_their_move_in_a_drift_and_reverse_it_in_a_swing() {
    let drift = correlation(&generator(), false, 12);
    assert!(drift > 0.9, "{drift}");
    let swing = correlation(&generator(), true, 10);
    assert!(swing < -0.5, "{swing}");
}
