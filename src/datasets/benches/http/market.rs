//! Generates rows that resemble real market data: one bar per minute, with prices as random and with as
//! many digits as real prices.

use std::fmt::Write as _;
use std::time::Duration;

use model::timestamp::Timestamp;

/// Columns of a bar.
pub(crate) const COLUMNS: [&str; 7] =
    ["open", "high", "low", "close", "volume", "volume_notional", "trades_done"];

/// First minute: 2015-01-01T00:00:00Z.
const FIRST_S: i64 = 1_420_070_400;

/// Generator of consecutive bars. Every generator produces the same bars.
#[derive(Debug)]
pub(crate) struct Market {
    minute: usize,
    close: f64,
    seed: u64,
}

impl Market {
    /// Creates a generator that begins with the first minute.
    pub(crate) const fn new() -> Self {
        Self { minute: 0, close: 64_000.0, seed: 0x9e37_79b9_7f4a_7c15 }
    }

    /// Returns the next `n_rows` bars as lines of JSON.
    pub(crate) fn lines(&mut self, n_rows: usize) -> String {
        let mut lines = String::with_capacity(n_rows * 230);
        for _ in 0..n_rows {
            self.push_line(&mut lines);
        }
        lines
    }

    /// Returns the next `n_rows` bars as lines of CSV without a header.
    pub(crate) fn csv(&mut self, n_rows: usize) -> String {
        let mut lines = String::with_capacity(n_rows * 120);
        for _ in 0..n_rows {
            let (at, values) = self.bar();
            let [open, high, low, close, volume, notional, trades] = values;
            // Writing to memory cannot fail.
            writeln!(lines, "{at},{open},{high},{low},{close},{volume},{notional},{trades}")
                .unwrap_or_default();
        }
        lines
    }

    /// Returns the next `n_rows` bars as columns: timestamps in microseconds since 1970, and the values
    /// of each column.
    pub(crate) fn columns(&mut self, n_rows: usize) -> (Vec<i64>, [Vec<f64>; 7]) {
        let (mut times, mut columns) = (Vec::with_capacity(n_rows), <[Vec<f64>; 7]>::default());
        for _ in 0..n_rows {
            let (at, values) = self.bar();
            times.push(at.micros());
            for (column, value) in columns.iter_mut().zip(values) {
                column.push(value);
            }
        }
        (times, columns)
    }

    fn push_line(&mut self, to: &mut String) {
        let (at, [open, high, low, close, volume, notional, trades]) = self.bar();
        // Writing to memory cannot fail.
        writeln!(
            to,
            "{{\"timestamp\":\"{at}\",\"open\":{open},\"high\":{high},\"low\":{low},\
             \"close\":{close},\"volume\":{volume},\"volume_notional\":{notional},\
             \"trades_done\":{trades}}}"
        )
        .unwrap_or_default();
    }

    /// Returns the timestamp of the next bar and its values, in the order of [`COLUMNS`].
    fn bar(&mut self) -> (Timestamp, [f64; 7]) {
        let open = self.close;
        let close = (open * (1.0 + (self.random() - 0.5) * 0.002) * 100.0).round() / 100.0;
        let high = ((open.max(close) * (1.0 + self.random() * 0.0005)) * 100.0).round() / 100.0;
        let low = ((open.min(close) * (1.0 - self.random() * 0.0005)) * 100.0).round() / 100.0;
        let volume = (self.random() * 40.0 * 1e8).round() / 1e8;
        let notional = volume * (open + close) / 2.0;
        let trades = (self.random() * 900.0).round();
        let at = timestamp_of(self.minute);
        self.close = if (1_000.0..1_000_000.0).contains(&close) { close } else { 64_000.0 };
        self.minute += 1;
        (at, [open, high, low, close, volume, notional, trades])
    }

    /// Returns a random number from 0 to 1 with 53 bits.
    fn random(&mut self) -> f64 {
        self.seed ^= self.seed << 13;
        self.seed ^= self.seed >> 7;
        self.seed ^= self.seed << 17;
        let (high, low) = ((self.seed >> 32) as u32, ((self.seed >> 11) & 0x1f_ffff) as u32);
        (f64::from(high) + f64::from(low) / 2_097_152.0) / 4_294_967_296.0
    }
}

/// Returns the timestamp of a minute, counted from the first bar.
pub(crate) fn timestamp_of(minute: usize) -> Timestamp {
    let minutes = u64::try_from(minute).unwrap_or_default();
    Timestamp::from_seconds(FIRST_S) + Duration::from_secs(60 * minutes)
}
