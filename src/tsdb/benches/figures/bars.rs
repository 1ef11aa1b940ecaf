//! Bars generated from a seed, with as many digits as the bars of a live feed.

use super::store::Bar;

/// Minute of the first bar, in January 2020.
pub(crate) const START: i64 = 26_297_280;

/// Standard deviation of the relative price change within a minute.
const VOLATILITY: f64 = 0.0005;

/// Bars of consecutive minutes.
#[derive(Debug)]
pub(crate) struct Bars {
    minute: i64,
    close: f64,
    state: u64,
    decimals: Option<u8>,
}

/// Returns a generator of random numbers, which returns a number below `n` when it is called with `n`.
pub(crate) fn random(seed: u64) -> impl FnMut(u64) -> u64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move |below| shifted(&mut state) % below
}

fn shifted(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

impl Bars {
    pub(crate) fn new() -> Self {
        Self { minute: START, close: 65_000.0, state: 0x2545_F491_4F6C_DD1D, decimals: None }
    }

    /// Rounds all later bars to `decimals` decimals.
    pub(crate) const fn rounded(self, decimals: Option<u8>) -> Self {
        Self { decimals, ..self }
    }

    /// Returns a number from 0 to 1 with a full mantissa.
    fn unit(&mut self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "53 bits are exact")]
        let high = (shifted(&mut self.state) >> 11) as f64;
        high / 9_007_199_254_740_992.0
    }

    /// Returns an approximately normally distributed number with a standard deviation of 1.
    fn normal(&mut self) -> f64 {
        let sum: f64 = (0..4).map(|_| self.unit()).sum();
        (sum - 2.0) * 3.0_f64.sqrt()
    }
}

impl Iterator for Bars {
    type Item = Bar;

    fn next(&mut self) -> Option<Bar> {
        let open = self.close * (1.0 + VOLATILITY * 0.05 * self.normal());
        self.close *= 1.0 + VOLATILITY * self.normal();
        let high = open.max(self.close) * (1.0 + VOLATILITY * 0.6 * self.normal().abs());
        let low = open.min(self.close) * (1.0 - VOLATILITY * 0.6 * self.normal().abs());
        let volume = ((1.0 + self.normal()).exp() * 1e8).round() / 1e8;
        let notional = volume * (open + high + low + self.close) / 4.0;
        let trades = (volume / 0.02).ceil();
        let minute = self.minute;
        self.minute += 1;
        let mut values = [open, high, low, self.close, volume, notional, trades];
        if let Some(decimals) = self.decimals {
            let scale = 10_f64.powi(decimals.into());
            values = values.map(|value| (value * scale).round() / scale);
        }
        Some((minute, values))
    }
}
