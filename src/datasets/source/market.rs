//! Synthetic market: bars that behave like real bars, but are not prices of a real market.
//!
//! The source appends one bar per second. Earlier periods have longer bars: the history of some months
//! that the first start writes, and later the periods in which the service did not run. Thus few rows
//! provide data for every resolution. A bar is a function of the seed and its time, so a restarted
//! service continues after the latest row. As in real feeds, some bars are missing, late or corrected.

mod generator;

use std::error::Error;
use std::ops::Range;
use std::time::Duration;

use futures::future::join_all;
use model::timestamp::Timestamp;
use task::clock::Clock;
use task::steady_date::SteadyDate;
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{debug, warn};

use self::generator::{Bar, Generator, Ticker};
use super::{Description, Feed, ROW_HOLD};
use crate::Datasets;

/// Maximum number of bars per append. The history of a first start, or a period in which the service did
/// not run, fits into one commit, so that readers see all of it or nothing.
const BATCH_BARS: usize = 65_536;

/// Interval at which the clock is checked and the bars of a second are appended.
const TICK: Duration = Duration::from_secs(1);

/// Pairs of an age and a length, in seconds: bars of at least this age have this length. The latest hour
/// has a bar for each second, which is more than any predictor reads. After a day, bars are as long as
/// the shortest buckets on charts, which are five minutes.
const BAR_SECONDS: [(i64, i64); 3] = [(86_400, 300), (3_600, 60), (i64::MIN, 1)];

/// Number of days for which rows are retained, which are some 2.4 million rows.
const KEEP_DAYS: &str = "7";

/// Pause after an append that failed.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// Columns of a bar, in the same order as in the upstream service.
const COLUMNS: [&str; 7] =
    ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"];

/// Options of a synthetic market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketOptions {
    /// Seed from which all bars are generated.
    pub seed: u64,
    /// Length of the history that is written at the first start.
    pub history: Duration,
}

impl MarketOptions {
    /// Options with 120 days of history, enough for a chart of daily buckets.
    pub const USUAL: Self =
        Self { seed: 0x7269_7074_7963_6821, history: Duration::from_hours(120 * 24) };
}

/// Currency pairs of the synthetic market, with the parameters of their prices.
const TICKERS: [Ticker; 4] = [
    Ticker { name: "btcusd", price: 64_000.0, decimals: 2, volatility: 0.000_040, volume: 4.0 },
    Ticker { name: "ethusd", price: 3_200.0, decimals: 2, volatility: 0.000_050, volume: 60.0 },
    Ticker { name: "solusd", price: 150.0, decimals: 3, volatility: 0.000_070, volume: 900.0 },
    Ticker { name: "eurusd", price: 1.09, decimals: 5, volatility: 0.000_004_5, volume: 250_000.0 },
];

/// A pair of currencies: the generator of its bars and the dataset that they are written to.
struct Pair {
    feed: Feed,
    generator: Generator,
}

/// Returns the closing prices of the first pair in a market with `seed`, each with its second since
/// 1970. Omits seconds with missing bars.
pub fn synthetic_closes(seed: u64, seconds: Range<i64>) -> Vec<(i64, f64)> {
    let [ticker, ..] = TICKERS;
    let generator = Generator::new(ticker, seed);
    let arriving = seconds.filter(|second| !generator.is_missing(*second));
    arriving.map(|second| (second, generator.bar(second, 1).close)).collect()
}

/// Appends the history and then new bars, until the future is dropped.
pub(crate) async fn run(datasets: Datasets, options: MarketOptions, clock: Clock) {
    run_every(TICK, datasets, options, clock).await;
}

async fn run_every(tick: Duration, datasets: Datasets, options: MarketOptions, clock: Clock) {
    let mut pairs = Vec::new();
    for ticker in TICKERS {
        match open(&datasets, &ticker).await {
            Ok(feed) => pairs.push(Pair { feed, generator: Generator::new(ticker, options.seed) }),
            Err(error) => {
                warn!(
                    error = &error as &dyn Error,
                    "no synthetic market: cannot open the dataset of {}", ticker.name
                );
                return;
            }
        }
    }
    let mut date = SteadyDate::new(clock.clone(), clock.now(), ROW_HOLD);
    let begin = (date.read() - options.history).seconds();
    let mut next = resume(&pairs).await.map_or(begin, |second| (second + 1).max(begin));
    let mut ticks = interval(tick);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let now = date.read();
        // Generates no bars while the clock leaps ahead, since they would lie in the future.
        if date.lead().is_none() {
            next = catch_up(&pairs, next, now.seconds()).await;
        }
    }
}

/// Appends all bars that begin at second `next` or later and are complete at second `now`. Returns the
/// second at which to continue.
async fn catch_up(pairs: &[Pair], mut next: i64, now: i64) -> i64 {
    loop {
        let spans = spans(next, now);
        let Some(last) = spans.last() else { return next };
        next = last.end;
        if spans.len() > 1 {
            debug!(n_bars = spans.len(), "writing {} synthetic bars of each pair", spans.len());
        }
        join_all(pairs.iter().map(|pair| pair.append(&spans))).await;
    }
}

/// Returns the spans of the next bars, at most [`BATCH_BARS`], that begin at second `next` or later and
/// are complete at second `now`. Like a bucket, a longer bar begins at a multiple of its length.
fn spans(mut next: i64, now: i64) -> Vec<Range<i64>> {
    let mut spans = Vec::new();
    while spans.len() < BATCH_BARS {
        let of_age = BAR_SECONDS.iter().find(|(age, _)| now - next >= *age);
        let length = of_age.map_or(1, |(_, length)| *length);
        let first = next.div_euclid(length) * length;
        let first = if first < next { first + length } else { first };
        if first + length > now {
            break;
        }
        spans.push(first..first + length);
        next = first + length;
    }
    spans
}

impl Pair {
    /// Appends the bars of `spans`. Repeats the append until it succeeds.
    async fn append(&self, spans: &[Range<i64>]) {
        let arrivals: Vec<(i64, Bar)> = spans.iter().flat_map(|span| self.arrivals(span)).collect();
        let rows = || arrivals.iter().map(|(second, bar)| row(*second, bar));
        while let Err(error) = self.feed.append(rows()).await {
            warn!(error = &error as &dyn Error, "synthetic bars were not stored, retrying");
            sleep(RETRY_AFTER).await;
        }
    }

    /// Returns the bars that arrive during `span`. For a span of one second, these include late and
    /// corrected bars of earlier seconds.
    fn arrivals(&self, span: &Range<i64>) -> Vec<(i64, Bar)> {
        let seconds = span.end - span.start;
        if seconds == 1 {
            return self.generator.arrivals(span.start);
        }
        vec![(span.start, self.generator.bar(span.start, seconds))]
    }
}

fn row(second: i64, bar: &Bar) -> (Timestamp, Vec<Option<f64>>) {
    let Bar { open, high, low, close, volume, notional, trades } = *bar;
    let numbers = [open, high, low, close, volume, notional, trades];
    (Timestamp::from_seconds(second), numbers.map(Some).to_vec())
}

/// Returns the second after which to continue: the earliest of the pairs' latest rows. Pairs with later
/// rows get some rows again, unchanged.
async fn resume(pairs: &[Pair]) -> Option<i64> {
    let mut seconds = Vec::new();
    for pair in pairs {
        seconds.push(pair.feed.newest().await.ok().flatten().map(Timestamp::seconds));
    }
    seconds.into_iter().min().flatten()
}

async fn open(datasets: &Datasets, ticker: &Ticker) -> crate::error::Result<Feed> {
    let (name, pair) = (format!("synthetic_{}", ticker.name), ticker.name.to_uppercase());
    let text = format!(
        "Synthetic OHLCV bars in the style of {pair}, one a second and longer ones in the past; no real \
         quotes"
    );
    let metadata = [
        ("source", "synthetic"),
        ("ticker", ticker.name),
        ("provider", "triptych"),
        ("frequency", "1s"),
    ];
    let description = Description {
        name: &name,
        text: &text,
        metadata: &metadata,
        columns: &COLUMNS,
        keep_days: KEEP_DAYS,
    };
    Feed::open(datasets, description).await
}

#[cfg(test)]
mod tests;
