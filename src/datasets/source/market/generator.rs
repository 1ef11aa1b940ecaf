//! Generator of bars from a seed. Each bar is a function of the seed, its first second and its length.
//!
//! The logarithm of the price is a sum of smooth random curves, each with a random point every 2^octave
//! seconds. Curves with long steps form a random walk over months. A curve with steps of minutes is a
//! drift that a model can extrapolate. In addition, the market alternates between two regimes: it either
//! only drifts, or swings around the drift in cycles of [`CYCLE_SECONDS`], which a model can predict
//! from the previous cycle. Extrapolation fails during a swing, and the previous cycle is irrelevant
//! during a drift. Thus no model is always the best, and forecasters can learn when each model is good.

/// Octave and height of each unpredictable curve. Octave 0 changes every second. Heights are in units of
/// the volatility.
const NOISE: [(u32, f64); 1] = [(0, 0.2)];

/// Octave and height of the drift, which changes its direction every few minutes.
const DRIFT: (u32, f64) = (8, 60.0);

/// Duration of a full swing in seconds. It is not a multiple of an epoch of 12 seconds, so that epochs
/// begin in all phases, and so short that the phase 12 seconds later is nearly the opposite.
const CYCLE_SECONDS: i64 = 20;

/// Height of a swing in units of the volatility, comparable to half a minute of drift.
const CYCLE_HEIGHT: f64 = 15.0;

/// Relative variation of the heights of swings.
const CYCLE_VARIATION: f64 = 0.25;

/// Octaves of the random walk. The curve with the longest steps has a point every 2^24 seconds, which is
/// half a year.
const SLOW_OCTAVES: std::ops::Range<u32> = 10..25;

/// Height of a curve of the random walk, relative to the square root of its step.
const SLOW_HEIGHT: f64 = 0.55;

/// Duration of a regime in seconds: a dozen epochs, so that ten minutes include each regime twice.
const REGIME_SECONDS: i64 = 150;

/// Duration in seconds of the transition at the end of a regime.
const TURN_SECONDS: i64 = 20;

/// Seconds per day, the period of the volume.
const DAY_SECONDS: i64 = 86_400;

/// Seconds per minute, the unit of [`Ticker::volume`].
const MINUTE_SECONDS: f64 = 60.0;

/// Maximum delay in seconds of a late bar or a correction.
pub(super) const DELAY_MAX: i64 = 25;

/// Average number of seconds per missing bar.
const MISSING_ONE_IN: u64 = 250;

/// Average number of seconds per late bar.
const LATE_ONE_IN: u64 = 90;

/// Average number of seconds per bar that arrives with wrong values and is corrected later.
const CORRECTED_ONE_IN: u64 = 120;

/// Name of a currency pair, and the parameters from which its bars are generated.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ticker {
    pub(super) name: &'static str,
    /// Price around which the pair moves.
    pub(super) price: f64,
    /// Number of decimal places of a price.
    pub(super) decimals: i32,
    /// Typical change within a second, as a share of the price.
    pub(super) volatility: f64,
    /// Typical volume within a minute.
    pub(super) volume: f64,
}

/// Prices, volume and trades of one or several consecutive seconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Bar {
    pub(super) open: f64,
    pub(super) high: f64,
    pub(super) low: f64,
    pub(super) close: f64,
    pub(super) volume: f64,
    pub(super) notional: f64,
    pub(super) trades: f64,
}

/// Purpose of a random number. Numbers for different purposes are independent, even for the same second.
#[derive(Debug, Clone, Copy)]
enum Draw {
    Price,
    Swing,
    Regime,
    Upper,
    Lower,
    Volume,
    Missing,
    Late,
    Corrected,
    Trades,
}

/// Generator of the bars of a pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generator {
    ticker: Ticker,
    seed: u64,
}

impl Generator {
    pub(super) fn new(ticker: Ticker, seed: u64) -> Self {
        let named = ticker.name.bytes().fold(seed, |seed, byte| mix(seed ^ u64::from(byte)));
        Self { ticker, seed: named }
    }

    /// Returns the bars that arrive in `second`, with their own seconds, oldest first: late bars,
    /// corrections, and the bar of `second` itself.
    pub(super) fn arrivals(&self, second: i64) -> Vec<(i64, Bar)> {
        let mut arrivals = Vec::new();
        for first in second - DELAY_MAX..=second {
            if self.is_missing(first) {
                continue;
            }
            let age = second - first;
            let late_by = self.delay(Draw::Late, LATE_ONE_IN, first).unwrap_or(0);
            let corrected_after =
                self.delay(Draw::Corrected, CORRECTED_ONE_IN, first).filter(|_| late_by == 0);
            if corrected_after == Some(age) {
                arrivals.push((first, self.bar(first, 1)));
            } else if age == late_by {
                let bar = self.bar(first, 1);
                let is_wrong = corrected_after.is_some_and(|after| after > age);
                arrivals.push((first, if is_wrong { preliminary(bar) } else { bar }));
            }
        }
        arrivals
    }

    /// Returns true if the bar of `second` is missing.
    pub(super) fn is_missing(&self, second: i64) -> bool {
        self.draw(Draw::Missing, second).is_multiple_of(MISSING_ONE_IN)
    }

    /// Returns the delay in seconds with which the bar of `second`, or its correction, arrives. Returns
    /// `None` if the bar is not one of those that are late or corrected, one in `one_in` bars.
    fn delay(&self, what: Draw, one_in: u64, second: i64) -> Option<i64> {
        let drawn = self.draw(what, second);
        let delays = u64::try_from(DELAY_MAX - 1).unwrap_or(1);
        let delay = i64::try_from(drawn / one_in % delays).unwrap_or(0);
        drawn.is_multiple_of(one_in).then_some(delay + 2)
    }

    /// Returns the final bar of `seconds` seconds from second `first` on.
    pub(super) fn bar(&self, first: i64, seconds: i64) -> Bar {
        let Ticker { decimals, volatility, volume, .. } = self.ticker;
        let last = first + seconds - 1;
        let (open, close) = (self.price(first - 1), self.price(last));
        // The typical move of a random walk is proportional to the square root of the number of steps.
        let usual_move = volatility * share_of(seconds, 1).sqrt();
        let reach = usual_move * 0.6;
        let above = reach * self.normal(Draw::Upper, first).abs();
        let below = reach * self.normal(Draw::Lower, first).abs();
        let (high, low) = (open.max(close) * (1.0 + above), open.min(close) * (1.0 - below));
        let moved = ((close / open).ln() / usual_move).abs();
        let wobble = (0.5 * self.normal(Draw::Volume, first)).exp();
        let usual_volume = volume * share_of(seconds, 1) / MINUTE_SECONDS;
        let activity = time_of_day(first) * wobble;
        let traded = round_to(usual_volume * activity * (0.5 + 0.5 * moved.min(10.0)), 8);
        let size = 0.01 + 0.02 * self.unit(Draw::Trades, first);
        let [open, high, low, close] =
            [open, high, low, close].map(|price| round_to(price, decimals));
        Bar {
            open,
            high,
            low,
            close,
            volume: traded,
            notional: traded * (open + high + low + close) / 4.0,
            trades: (traded / (volume * size)).ceil().max(1.0),
        }
    }

    /// Returns the price at the end of `second`.
    fn price(&self, second: i64) -> f64 {
        let curve = |octave: u32| self.curve(Draw::Price, octave, second);
        let noise: f64 = NOISE.iter().map(|(octave, height)| height * curve(*octave)).sum();
        let drift = DRIFT.1 * curve(DRIFT.0);
        let slow: f64 = SLOW_OCTAVES
            .map(|octave| SLOW_HEIGHT * f64::from(1_u32 << octave).sqrt() * curve(octave))
            .sum();
        let sum = noise + drift + self.swing_share(second) * self.swing(second) + slow;
        self.ticker.price * (self.ticker.volatility * sum).exp()
    }

    /// Returns the value of the swing, a term in the logarithm of the price.
    fn swing(&self, second: i64) -> f64 {
        let phase = share_of(second.rem_euclid(CYCLE_SECONDS), CYCLE_SECONDS);
        let varied = 1.0 + CYCLE_VARIATION * self.curve(Draw::Swing, 7, second);
        CYCLE_HEIGHT * varied * (std::f64::consts::TAU * phase).sin()
    }

    /// Returns the weight of the swing, from 0 during a drift to 1 during a swing.
    pub(super) fn swing_share(&self, second: i64) -> f64 {
        let offset = i64::from(self.draw(Draw::Regime, 0).is_multiple_of(2));
        let place = second.div_euclid(REGIME_SECONDS) + offset;
        let turned = second.rem_euclid(REGIME_SECONDS) - (REGIME_SECONDS - TURN_SECONDS);
        let share = smooth(share_of(turned.max(0), TURN_SECONDS));
        if place.rem_euclid(2) == 0 { share } else { 1.0 - share }
    }

    /// Returns the value of a smooth random curve around 0, with a random point every 2^octave seconds.
    fn curve(&self, what: Draw, octave: u32, second: i64) -> f64 {
        let step = 1_i64 << octave;
        let (at, within) = (second.div_euclid(step), second.rem_euclid(step));
        let knot = |at: i64| self.normal(what, at.wrapping_mul(64).wrapping_add(i64::from(octave)));
        if within == 0 {
            return knot(at);
        }
        let (from, to) = (knot(at), knot(at + 1));
        from + (to - from) * smooth(share_of(within, step))
    }

    /// Returns an approximately normally distributed random number with standard deviation 1, from the
    /// sum of four uniform numbers.
    fn normal(&self, what: Draw, at: i64) -> f64 {
        let drawn = self.draw(what, at);
        let quarter = |shift: u32| f64::from(u16::try_from(drawn >> shift & 0xFFFF).unwrap_or(0));
        let sum = quarter(0) + quarter(16) + quarter(32) + quarter(48);
        (sum / 65_536.0 - 2.0) * 3.0_f64.sqrt()
    }

    /// Returns a random number from 0 to 1.
    fn unit(&self, what: Draw, at: i64) -> f64 {
        f64::from(u32::try_from(self.draw(what, at) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    fn draw(&self, what: Draw, at: i64) -> u64 {
        let at = u64::from_ne_bytes(at.to_ne_bytes());
        mix(self.seed ^ mix(at ^ ((what as u64) << 56)))
    }
}

/// Returns the first version of a bar that is corrected later. It lacks some of the trades.
fn preliminary(bar: Bar) -> Bar {
    let close = f64::midpoint(bar.open, bar.close);
    Bar {
        close,
        volume: round_to(bar.volume * 0.6, 8),
        notional: bar.notional * 0.6,
        trades: (bar.trades * 0.6).ceil(),
        ..bar
    }
}

/// Returns the factor of the volume at a time of day. The average of the factor is about 1.
fn time_of_day(second: i64) -> f64 {
    let share = share_of(second.rem_euclid(DAY_SECONDS), DAY_SECONDS);
    1.0 + 0.5 * (std::f64::consts::TAU * (share - 0.3)).sin()
}

/// Maps a share from 0 to 1 to a smooth step from 0 to 1.
fn smooth(share: f64) -> f64 {
    share * share * (3.0 - 2.0 * share)
}

#[expect(clippy::cast_precision_loss, reason = "seconds of a span are far below 2^53")]
fn share_of(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

fn round_to(number: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (number * scale).round() / scale
}

/// Returns a hash of `number`, computed by the output function of the generator `SplitMix64`.
const fn mix(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
