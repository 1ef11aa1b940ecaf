//! Bars out of a seed: each a function of its minute alone.
//!
//! The logarithm of the price is a sum of smooth random curves, each of which takes a step every
//! 2^octave minutes: noise of minutes, which swells and shrinks with the mood and the time of day,
//! and a slow walk over months. Between them is what a model can learn: the market is in one of
//! three regimes for hours at a time: it continues in a trend, returns to its mean in a range, and does
//! neither in a calm.

mod load;

/// Curves of minutes, by octave: how high each is, in units of the volatility.
const NOISE: [f64; 4] = [0.4, 0.3, 0.3, 0.3];

/// Curves of a range, by octave and height: they turn every few minutes, so that the mean of the last
/// forty shows where they return to.
const RANGE: [(u32, f64); 1] = [(3, 5.0)];

/// Curves of a trend, by octave and height: they last for hours.
const TREND: [(u32, f64); 2] = [(7, 20.0), (8, 30.0)];

/// The curves of the slow walk. The slowest takes 2^18 minutes, half a year, per step.
const SLOW_OCTAVES: std::ops::Range<u32> = 10..19;

/// How high a slow curve is, as a part of the square root of its step: that of a random walk.
const SLOW_HEIGHT: f64 = 0.55;

/// Regimes of eight hours, so that a day has several.
const SPELL: Spell = Spell { length: 480, turn: 60 };

/// Minutes of a day, over which the noise swells and shrinks once.
const DAY_MINUTES: i64 = 1440;

/// The longest that a late or corrected bar takes to arrive, in minutes.
pub(super) const DELAY_MAX: i64 = 25;

/// One minute in this many never arrives.
const MISSING_ONE_IN: u64 = 250;

/// One stretch of ten minutes in this many never arrives, as in an outage.
const OUTAGE_ONE_IN: u64 = 700;

/// One minute in this many arrives late.
const LATE_ONE_IN: u64 = 90;

/// One minute in this many arrives wrong and is corrected.
const CORRECTED_ONE_IN: u64 = 120;

/// One minute in this many has a burst of trades.
const BURST_ONE_IN: u64 = 160;

/// The parameters of a pair.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Ticker {
    pub(super) name: &'static str,
    /// The price around which it wanders.
    pub(super) price: f64,
    /// The decimals of a price.
    pub(super) decimals: i32,
    /// How far it moves in a usual minute, as a share of the price.
    pub(super) volatility: f64,
    /// The volume of a usual minute.
    pub(super) volume: f64,
}

/// A bar of one minute.
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

/// What a draw decides, so that two decisions about one minute do not agree by accident.
#[derive(Debug, Clone, Copy)]
enum Draw {
    Price,
    Regime,
    Mood,
    Upper,
    Lower,
    Volume,
    Burst,
    Missing,
    Outage,
    Late,
    Corrected,
    Trades,
}

/// How long regimes last, in the steps of the series: minutes of a price, seconds of a load.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Spell {
    /// From the start of one regime to that of the next.
    length: i64,
    /// How much of its end turns into the next.
    turn: i64,
}

/// How much of a trend and of a range the market is in, each from 0 to 1; the rest is calm.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Regime {
    trend: f64,
    range: f64,
}

/// Makes the bars of one pair.
#[derive(Debug, Clone, Copy)]
pub(super) struct Generator {
    ticker: Ticker,
    seed: u64,
}

impl Generator {
    pub(super) fn new(ticker: Ticker, seed: u64) -> Self {
        let named = ticker.name.bytes().fold(seed, |seed, byte| mixed(seed ^ u64::from(byte)));
        Self { ticker, seed: named }
    }

    /// The bars that arrive in `minute`, oldest first: its own, and late and corrected ones.
    pub(super) fn arrivals(&self, minute: i64) -> Vec<(i64, Bar)> {
        let mut arrivals = Vec::new();
        for bar_minute in minute - DELAY_MAX..=minute {
            if self.is_missing(bar_minute) {
                continue;
            }
            let age = minute - bar_minute;
            let late_by = self.delay(Draw::Late, LATE_ONE_IN, bar_minute).unwrap_or(0);
            let corrected_after =
                self.delay(Draw::Corrected, CORRECTED_ONE_IN, bar_minute).filter(|_| late_by == 0);
            if corrected_after == Some(age) {
                arrivals.push((bar_minute, self.bar(bar_minute)));
            } else if age == late_by {
                let bar = self.bar(bar_minute);
                let is_wrong = corrected_after.is_some_and(|after| after > age);
                arrivals.push((bar_minute, if is_wrong { mistaken(bar) } else { bar }));
            }
        }
        arrivals
    }

    /// Whether the bar of `minute` never arrives.
    pub(super) fn is_missing(&self, minute: i64) -> bool {
        self.draw(Draw::Missing, minute).is_multiple_of(MISSING_ONE_IN)
            || self.draw(Draw::Outage, minute.div_euclid(10)).is_multiple_of(OUTAGE_ONE_IN)
    }

    /// After how many minutes something happens to a bar, if it does.
    fn delay(&self, what: Draw, one_in: u64, minute: i64) -> Option<i64> {
        let drawn = self.draw(what, minute);
        let delays = u64::try_from(DELAY_MAX - 1).unwrap_or(1);
        let delay = i64::try_from(drawn / one_in % delays).unwrap_or(0);
        drawn.is_multiple_of(one_in).then_some(delay + 2)
    }

    /// The bar of `minute` as it finally is.
    pub(super) fn bar(&self, minute: i64) -> Bar {
        let Ticker { decimals, volatility, volume, .. } = self.ticker;
        let (open, close) = (self.price(minute - 1), self.price(minute));
        let mood = self.mood(minute);
        let reach = volatility * mood * 0.6;
        let above = reach * self.normal(Draw::Upper, minute).abs();
        let below = reach * self.normal(Draw::Lower, minute).abs();
        let (high, low) = (open.max(close) * (1.0 + above), open.min(close) * (1.0 - below));
        let moved = ((close / open).ln() / volatility).abs();
        let burst = if self.draw(Draw::Burst, minute).is_multiple_of(BURST_ONE_IN) {
            4.0 + 6.0 * self.unit(Draw::Burst, minute)
        } else {
            1.0
        };
        let wobble = (0.5 * self.normal(Draw::Volume, minute)).exp();
        let traded = rounded(volume * mood * wobble * burst * (0.5 + 0.5 * moved), 8);
        let size = 0.01 + 0.02 * self.unit(Draw::Trades, minute);
        let [open, high, low, close] =
            [open, high, low, close].map(|price| rounded(price, decimals));
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

    /// The price at the end of `minute`.
    fn price(&self, minute: i64) -> f64 {
        let curve = |octave: u32| self.curve(Draw::Price, octave, minute);
        let sum_of = |curves: &[(u32, f64)]| -> f64 {
            curves.iter().map(|(octave, height)| height * curve(*octave)).sum()
        };
        let Regime { trend, range } = self.regime(SPELL, minute);
        let noise: f64 = (0..).zip(NOISE).map(|(octave, height)| height * curve(octave)).sum();
        let slow: f64 = SLOW_OCTAVES
            .map(|octave| SLOW_HEIGHT * f64::from(1_u32 << octave).sqrt() * curve(octave))
            .sum();
        let swell = self.mood(minute) * time_of_day(minute);
        let sum = noise * swell + range * sum_of(&RANGE) + trend * sum_of(&TREND) + slow;
        self.ticker.price * (self.ticker.volatility * sum).exp()
    }

    /// The regime at `step`, where each lasts for a `spell`.
    fn regime(&self, spell: Spell, step: i64) -> Regime {
        let Spell { length, turn } = spell;
        let at = step.div_euclid(length);
        let drawn = |at: i64| match self.draw(Draw::Regime, at) % 3 {
            0 => Regime { trend: 1.0, range: 0.0 },
            1 => Regime { trend: 0.0, range: 1.0 },
            _ => Regime { trend: 0.0, range: 0.0 },
        };
        let (from, to) = (drawn(at), drawn(at + 1));
        let turned = step.rem_euclid(length) - (length - turn);
        let share = smooth(share_of(turned.max(0), turn));
        Regime {
            trend: from.trend + (to.trend - from.trend) * share,
            range: from.range + (to.range - from.range) * share,
        }
    }

    /// The volatility factor, around 1.
    fn mood(&self, minute: i64) -> f64 {
        let hours = self.curve(Draw::Mood, 7, minute);
        let days = self.curve(Draw::Mood, 11, minute);
        (0.45 * hours + 0.35 * days).exp()
    }

    /// A smooth random curve, around 0, that takes a step every 2^octave minutes.
    fn curve(&self, what: Draw, octave: u32, minute: i64) -> f64 {
        let step = 1_i64 << octave;
        let (at, within) = (minute.div_euclid(step), minute.rem_euclid(step));
        let knot = |at: i64| self.normal(what, at.wrapping_mul(64).wrapping_add(i64::from(octave)));
        if within == 0 {
            return knot(at);
        }
        let (from, to) = (knot(at), knot(at + 1));
        from + (to - from) * smooth(share_of(within, step))
    }

    /// A number close to normally distributed: the sum of four even ones, of spread 1.
    fn normal(&self, what: Draw, at: i64) -> f64 {
        let drawn = self.draw(what, at);
        let quarter = |shift: u32| f64::from(u16::try_from(drawn >> shift & 0xFFFF).unwrap_or(0));
        let sum = quarter(0) + quarter(16) + quarter(32) + quarter(48);
        (sum / 65_536.0 - 2.0) * 3.0_f64.sqrt()
    }

    /// A number from 0 to 1.
    fn unit(&self, what: Draw, at: i64) -> f64 {
        f64::from(u32::try_from(self.draw(what, at) >> 32).unwrap_or(0)) / f64::from(u32::MAX)
    }

    fn draw(&self, what: Draw, at: i64) -> u64 {
        let at = u64::from_ne_bytes(at.to_ne_bytes());
        mixed(self.seed ^ mixed(at ^ ((what as u64) << 56)))
    }
}

/// A bar as it first arrives when it is corrected later: some of its trades are not in yet.
fn mistaken(bar: Bar) -> Bar {
    let close = f64::midpoint(bar.open, bar.close);
    Bar {
        close,
        volume: rounded(bar.volume * 0.6, 8),
        notional: bar.notional * 0.6,
        trades: (bar.trades * 0.6).ceil(),
        ..bar
    }
}

/// How much more or less noise there is at this time of the day than on its average.
fn time_of_day(minute: i64) -> f64 {
    let share = share_of(minute.rem_euclid(DAY_MINUTES), DAY_MINUTES);
    1.0 + 0.5 * (std::f64::consts::TAU * (share - 0.3)).sin()
}

/// A step from 0 to 1 that begins and ends without a bend.
fn smooth(share: f64) -> f64 {
    share * share * (3.0 - 2.0 * share)
}

#[expect(clippy::cast_precision_loss, reason = "minutes of a span are far below 2^53")]
fn share_of(part: i64, whole: i64) -> f64 {
    part as f64 / whole as f64
}

fn rounded(number: f64, decimals: i32) -> f64 {
    let scale = 10_f64.powi(decimals);
    (number * scale).round() / scale
}

/// `SplitMix64`: every bit of the result depends on every bit of `number`.
const fn mixed(number: u64) -> u64 {
    let mut z = number.wrapping_add(0x9E37_79B9_7F4A_7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests;
