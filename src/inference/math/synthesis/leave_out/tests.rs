//! Sums that all leave-outs share, beside walking every actor.

use super::*;
use crate::math::{
    regret::{Family, Losses, Pace, Regrets},
    synthesis::{
        Epoch, Newcomers,
        weights::{Generation, Params},
    },
};

/// Numbers that look random and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        f64::from(u32::try_from(self.0 >> 32).unwrap()) / f64::from(u32::MAX) - 0.5
    }
}

fn name(role: &str, idx: usize) -> Address {
    format!("allo1{role}{idx:04}").parse().unwrap()
}

/// Epochs of a network, and who stays away from them.
#[derive(Clone, Copy)]
struct History {
    n_epochs: usize,
    /// How far losses lie apart.
    spread: f64,
    /// Whether the inferer stays away from the epoch.
    is_away: fn(usize, usize) -> bool,
    scale: f64,
}

const REGULAR: History = History { n_epochs: 20, spread: 2.0, is_away: |_, _| false, scale: 0.3 };

const N_INFERERS: usize = 120;

const N_FORECASTERS: usize = 3;

impl History {
    fn learned(self) -> Regrets {
        let mut numbers = Numbers(11);
        let mut regrets = Regrets::default();
        for epoch in 0..self.n_epochs {
            let mut family = |role: &str, n: usize| -> Family {
                (0..n).map(|idx| (name(role, idx), self.spread * numbers.next())).collect()
            };
            let mut losses = Losses {
                combined: -1.0,
                inferer: family("inf", N_INFERERS),
                one_out_inferer: family("inf", N_INFERERS),
                forecaster: family("fore", N_FORECASTERS),
                one_out_inferer_forecaster: (0..N_FORECASTERS)
                    .map(|idx| (name("fore", idx), family("inf", N_INFERERS)))
                    .collect(),
                ..Losses::default()
            };
            for idx in (0..N_INFERERS).filter(|idx| (self.is_away)(*idx, epoch)) {
                losses.inferer.remove(&name("inf", idx));
                losses.one_out_inferer.remove(&name("inf", idx));
            }
            regrets.learn(&losses, Pace { alpha: 0.1, initial: -0.2 });
        }
        regrets
    }

    /// Compares what is shared with what is walked, and returns how many were shared.
    #[track_caller]
    fn check(self) -> usize {
        let mut numbers = Numbers(5);
        let mut values = |n: usize| -> BTreeMap<Address, Values> {
            (0..n)
                .map(|i| (name("inf", i), vec![3000.0 + numbers.next(), numbers.next()]))
                .collect()
        };
        let inferences = values(N_INFERERS + 2);
        let forecasts: BTreeMap<Address, Family> = (0..N_FORECASTERS)
            .map(|idx| {
                let losses = inferences.keys().map(|name| (name.clone(), numbers.next()));
                (name("fore", idx), losses.collect())
            })
            .collect();
        let params = Params {
            generation: Generation::MadV017,
            p_norm: 3.0,
            c_norm: 0.75,
            epsilon: 0.01,
            epsilon_safe_div: 1e-7,
            regret_scale: Some(self.scale),
        };
        let regrets = &self.learned();
        let epoch = &Epoch {
            params: &params,
            inferences: &inferences,
            forecasts: &forecasts,
            previous_loss: Some(-1.0),
            regrets,
            newcomers: Newcomers::WithRegret(-0.3),
        };
        let implied = Implied::of(epoch);
        let table = &Table::of(epoch, &implied);
        let against = Against::new(table, &regrets.one_out_inferer);
        let parts = shared::parts(&shared::Crowd::new(table, &against, table.curve().unwrap()));
        let got = one_out_inferer(table, &implied);
        for (idx, withheld) in inferences.keys().enumerate() {
            let (got, want) = (&got[withheld], walked(&against, &implied, (idx, withheld)));
            for (got, want) in got.iter().zip(&want) {
                assert!((got - want).abs() <= 1e-11 * want.abs().max(1.0), "{got} is not {want}");
            }
        }
        parts.iter().flatten().count()
    }
}

#[test]
fn regular_inferers_are_left_out_of_sums_that_all_share() {
    assert_eq!(REGULAR.check(), N_INFERERS);
}

#[test]
fn who_stayed_away_now_and_then_is_weighed_by_itself() {
    let n_shared =
        History { is_away: |idx, epoch| idx % 40 == 3 && epoch % 7 == 5, ..REGULAR }.check();
    assert!(n_shared > N_INFERERS / 2 && n_shared < N_INFERERS, "{n_shared}");
    let n_shared = History { is_away: |idx, epoch| (idx + epoch) % 5 == 0, ..REGULAR }.check();
    assert_eq!(n_shared, 0, "too many for sums to pay");
}

#[test]
fn weights_that_differ_by_hundreds_of_digits_are_no_harm() {
    for (spread, scale) in [(30.0, 0.01), (3000.0, 0.01), (2.0, 1e-4), (1e-9, 0.3), (0.0, 0.3)] {
        History { spread, scale, ..REGULAR }.check();
    }
    let n_shared = History { scale: 0.12, ..REGULAR }.check();
    assert!(n_shared > 0, "levels far apart are taken in several reaches");
}
