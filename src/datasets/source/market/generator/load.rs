//! The load of a synthetic machine, out of the same curves and regimes as a market's price.

use std::f64::consts::TAU;

use super::{Draw, Generator, Regime, Spell};

/// The load around which it wanders, in percent.
const LEVEL: f64 = 40.0;

/// How much higher the load is at the busiest time of the day than on its average.
const DAY_HEIGHT: f64 = 8.0;

/// Seconds of a day.
const DAY_SECONDS: f64 = 86_400.0;

/// Curves that are always there, by octave and height: single seconds, and work that swells and ends
/// over ten minutes or so. They go on long enough for a minute ahead to follow from what was.
const ALWAYS: [(u32, f64); 3] = [(0, 0.7), (9, 14.0), (10, 14.0)];

/// Work that lasts a minute or two, in the regime that is a trend in a market.
const BURSTS: [(u32, f64); 1] = [(6, 5.0)];

/// Short work that comes and goes, in the regime that is a range in a market.
const FLICKER: [(u32, f64); 1] = [(4, 7.0)];

/// Regimes of four minutes: an hour has seen each of them several times.
const SPELL: Spell = Spell { length: 240, turn: 30 };

impl Generator {
    /// The load at `second`, 0 to 100 percent.
    pub(in super::super) fn load(&self, second: i64) -> f64 {
        let sum_of = |curves: &[(u32, f64)]| -> f64 {
            let part =
                |(octave, height): &(u32, f64)| height * self.curve(Draw::Price, *octave, second);
            curves.iter().map(part).sum()
        };
        let Regime { trend, range } = self.regime(SPELL, second);
        let day = DAY_HEIGHT * (TAU * super::share_of(second, 1) / DAY_SECONDS).sin();
        let moved = sum_of(&ALWAYS) + trend * sum_of(&BURSTS) + range * sum_of(&FLICKER);
        (LEVEL + day + moved).clamp(0.0, 100.0)
    }
}
