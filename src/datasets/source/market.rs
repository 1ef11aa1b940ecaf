//! A synthetic market: bars that behave like real ones, and are not quotes of anything.
//!
//! It starts a year and some months ago. The history up to a year ago is written at once, then
//! simulated time runs faster than real time until it reaches the present. Every bar is a function of
//! the seed and its minute, so that a restart continues from the newest row. Minutes are missing, come
//! late, and are corrected, as in real feeds.

mod generator;

use std::{error::Error, ops::Range, time::Duration};

use futures::future::join_all;
use model::timestamp::Timestamp;
use task::{clock::Clock, steady_date::SteadyDate};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tracing::{debug, info, warn};

use self::generator::{Bar, Generator, Ticker};
use super::{Description, Feed, ROW_HOLD};
use crate::Datasets;

/// Minutes of history in one append: eight chunks.
const BATCH_MINUTES: i64 = 8192;

/// The pause after a failed append.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// The columns of a bar, in the order of the upstream.
const COLUMNS: [&str; 7] =
    ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"];

/// How to generate a market.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MarketOptions {
    /// The seed of all bars.
    pub seed: u64,
    /// How long before the first start history ends and simulated time begins.
    pub lag: Duration,
    /// The length of the history before that.
    pub history: Duration,
    /// Simulated minutes in a real one until the present is reached.
    pub speed: u32,
}

impl MarketOptions {
    /// 120 days of history that end 360 days ago; then a minute each second, for about six days of
    /// running.
    pub const USUAL: Self = Self {
        seed: 0x7269_7074_7963_6821,
        lag: Duration::from_hours(360 * 24),
        history: Duration::from_hours(120 * 24),
        speed: 60,
    };
}

/// The pairs of the market.
const TICKERS: [Ticker; 4] = [
    Ticker { name: "btcusd", price: 64_000.0, decimals: 2, volatility: 0.000_55, volume: 4.0 },
    Ticker { name: "ethusd", price: 3_200.0, decimals: 2, volatility: 0.000_70, volume: 60.0 },
    Ticker { name: "solusd", price: 150.0, decimals: 3, volatility: 0.001_00, volume: 900.0 },
    Ticker { name: "eurusd", price: 1.09, decimals: 5, volatility: 0.000_06, volume: 250_000.0 },
];

/// A pair and its dataset.
struct Pair {
    feed: Feed,
    generator: Generator,
}

/// The closes of the first pair of a market of `seed`, each with its minute since 1970; a minute
/// that never arrives has none.
pub fn synthetic_closes(seed: u64, minutes: Range<i64>) -> Vec<(i64, f64)> {
    let [ticker, ..] = TICKERS;
    let generator = Generator::new(ticker, seed);
    let arrives = minutes.filter(|minute| !generator.is_missing(*minute));
    arrives.map(|minute| (minute, generator.bar(minute).close)).collect()
}

/// The load of a synthetic machine of `seed` in percent, each with its second since 1970.
pub fn synthetic_loads(seed: u64, seconds: Range<i64>) -> Vec<(i64, f64)> {
    let [ticker, ..] = TICKERS;
    let generator = Generator::new(Ticker { name: "load", ..ticker }, seed);
    seconds.map(|second| (second, generator.load(second))).collect()
}

/// Appends the history and then bar after bar, until dropped.
pub(crate) async fn run(datasets: Datasets, options: MarketOptions, clock: Clock) {
    let mut pairs = Vec::new();
    for ticker in TICKERS {
        match open(&datasets, &ticker).await {
            Ok(feed) => pairs.push(Pair { feed, generator: Generator::new(ticker, options.seed) }),
            Err(error) => {
                warn!(
                    error = &error as &dyn Error,
                    "there is no synthetic market: {}", ticker.name
                );
                return;
            }
        }
    }
    let mut date = SteadyDate::new(clock.clone(), clock.now(), ROW_HOLD);
    let now = minute_of(date.read());
    let lag = minutes_in(options.lag);
    let begin = now - lag - minutes_in(options.history);
    let mut next = resume(&pairs).await.map_or(begin, |minute| minute + 1);
    if next < now - lag {
        let n_minutes = now - lag - next;
        info!(n_minutes, "writing {n_minutes} minutes of synthetic history");
        while next < now - lag {
            let until = (next + BATCH_MINUTES).min(now - lag);
            append(&pairs, next, until).await;
            debug!(minute = until, "wrote synthetic history");
            next = until;
        }
        info!("synthetic history is written");
    }
    let mut ticks = interval(Duration::from_mins(1) / options.speed.max(1));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        // A bar is complete when its minute is over, by a date that no leap of the clock moves ahead.
        let present = minute_of(date.read());
        if next < present && date.lead().is_none() {
            append(&pairs, next, next + 1).await;
            next += 1;
        }
    }
}

/// Appends what arrives in the minutes from `from` to before `until`, for all pairs at once, so that
/// they share commits. Retries until it succeeds.
async fn append(pairs: &[Pair], from: i64, until: i64) {
    join_all(pairs.iter().map(|pair| pair.append(from, until))).await;
}

impl Pair {
    async fn append(&self, from: i64, until: i64) {
        let arrivals: Vec<(i64, Bar)> =
            (from..until).flat_map(|minute| self.generator.arrivals(minute)).collect();
        let rows = || arrivals.iter().map(|(minute, bar)| row(*minute, bar));
        while let Err(error) = self.feed.append(rows()).await {
            warn!(error = &error as &dyn Error, "synthetic bars were not stored; trying again");
            sleep(RETRY_AFTER).await;
        }
    }
}

fn row(minute: i64, bar: &Bar) -> (Timestamp, Vec<Option<f64>>) {
    let Bar { open, high, low, close, volume, notional, trades } = *bar;
    let numbers = [open, high, low, close, volume, notional, trades];
    (Timestamp::from_seconds(minute * 60), numbers.map(Some).to_vec())
}

/// The minute of the newest row that all pairs have. Pairs ahead of it get some of their rows again,
/// unchanged.
async fn resume(pairs: &[Pair]) -> Option<i64> {
    let mut minutes = Vec::new();
    for pair in pairs {
        minutes.push(pair.feed.newest().await.ok().flatten().map(minute_of));
    }
    minutes.into_iter().min().flatten()
}

async fn open(datasets: &Datasets, ticker: &Ticker) -> crate::error::Result<Feed> {
    let (name, pair) = (format!("synthetic_{}_1min", ticker.name), ticker.name.to_uppercase());
    let text = format!("Synthetic 1-minute OHLCV bars in the style of {pair}; no real quotes");
    let metadata = [
        ("source", "synthetic"),
        ("ticker", ticker.name),
        ("provider", "triptych"),
        ("frequency", "1min"),
    ];
    let is = Description { name: &name, text: &text, metadata: &metadata, columns: &COLUMNS };
    Feed::open(datasets, is).await
}

fn minute_of(timestamp: Timestamp) -> i64 {
    timestamp.seconds().div_euclid(60)
}

fn minutes_in(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs() / 60).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
