//! Regrets: by how much the network does better with an actor than the actor does alone.
//!
//! Each family compares an actor's loss with that of one quantity of the epoch. A regret moves a
//! part of the way to the newest difference, so it remembers. Absent on purpose: what a loss is
//! (see [`crate::math::loss`]), and what follows from regrets (see [`crate::math::synthesis::weights`]).

pub mod grid;

use std::collections::BTreeMap;

use model::topic::Address;

use self::grid::Grid;
use crate::math::{
    statistics::{deviation, quantile},
    synthesis::weights::Params,
};

/// The quantile of the regrets that a newcomer starts from, by the chain's parameters.
const INITIAL_REGRET_QUANTILE: f64 = 0.25;

/// How far below the center (over p) a newcomer starts, by the chain's parameters.
const P_NORM_SAFE_DIV: f64 = 8.25;

/// One number for each actor.
pub type Family = BTreeMap<Address, f64>;

/// The regrets of inferers and forecasters against one and the same quantity. An address may be
/// both, so they are kept apart.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Standing {
    /// The inferers'.
    pub inferer: Family,
    /// The forecasters'.
    pub forecaster: Family,
}

/// The regrets of inferers and forecasters against quantities that each leave one actor out, or let
/// one in.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Versus {
    /// The inferers', by the one left out or let in.
    pub inferer: Grid,
    /// The forecasters', by the one left out or let in.
    pub forecaster: Grid,
}

/// The regrets of a topic's actors, in every family.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Regrets {
    /// Against the combined value.
    pub ordinary: Standing,
    /// The inferers' against the naive value.
    pub naive: Family,
    /// Against the combined value without the inferer of the row.
    pub one_out_inferer: Versus,
    /// Against the combined value without the forecaster of the row.
    pub one_out_forecaster: Versus,
    /// Against the inferers combined with the forecaster of the row.
    pub one_in_forecaster: Versus,
}

/// The losses of every quantity of an epoch.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Losses {
    /// Of the combined value.
    pub combined: f64,
    /// Of the naive value.
    pub naive: f64,
    /// Of each inferer's value.
    pub inferer: Family,
    /// Of what each forecaster implies.
    pub forecaster: Family,
    /// Of the combined value without each inferer.
    pub one_out_inferer: Family,
    /// Of the combined value without each forecaster.
    pub one_out_forecaster: Family,
    /// Of the inferers with each forecaster alone.
    pub one_in_forecaster: Family,
    /// Of what each forecaster implies without each inferer, by forecaster.
    pub one_out_inferer_forecaster: BTreeMap<Address, Family>,
}

/// How regrets move.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// The topic's `alpha_regret`: the share of the newest difference in a regret.
    pub alpha: f64,
    /// What an actor without a regret starts from.
    pub initial: f64,
}

impl Regrets {
    /// Whether nothing was ever learned.
    pub fn is_empty(&self) -> bool {
        self.ordinary.inferer.is_empty() && self.ordinary.forecaster.is_empty()
    }

    /// About how many bytes of memory the regrets of pairs take.
    pub fn n_bytes(&self) -> usize {
        let all = [&self.one_out_inferer, &self.one_out_forecaster, &self.one_in_forecaster];
        let grids = all.into_iter().flat_map(|versus| [&versus.inferer, &versus.forecaster]);
        grids.map(Grid::n_bytes).sum()
    }

    /// Forgets the inferers and the forecasters that are not to be kept: each as one of its own, and
    /// as one left out or let in.
    pub fn retain(&mut self, infers: impl Fn(&Address) -> bool, casts: impl Fn(&Address) -> bool) {
        self.ordinary.inferer.retain(|name, _| infers(name));
        self.ordinary.forecaster.retain(|name, _| casts(name));
        self.naive.retain(|name, _| infers(name));
        self.one_out_inferer.inferer.retain(&infers, &infers);
        self.one_out_inferer.forecaster.retain(&infers, &casts);
        for versus in [&mut self.one_out_forecaster, &mut self.one_in_forecaster] {
            versus.inferer.retain(&casts, &infers);
            versus.forecaster.retain(&casts, &casts);
        }
    }

    /// Learns from `losses`. Who took no part keeps its regrets.
    pub fn learn(&mut self, losses: &Losses, pace: Pace) {
        let Losses { combined, inferer, forecaster, .. } = losses;
        follow(&mut self.ordinary.inferer, *combined, inferer, pace);
        follow(&mut self.ordinary.forecaster, *combined, forecaster, pace);
        follow(&mut self.naive, losses.naive, inferer, pace);
        let Versus { inferer: inferers, forecaster: implied } = &mut self.one_out_inferer;
        inferers.learn(&losses.one_out_inferer, inferer, *combined, pace);
        for (withheld, reference) in &losses.one_out_inferer {
            let without = |(name, of_each): (&Address, &Family)| {
                Some((name.clone(), *of_each.get(withheld)?))
            };
            let of_row = losses.one_out_inferer_forecaster.iter().filter_map(without).collect();
            implied.learn_row(withheld, *reference, &of_row, pace);
        }
        let versus = &mut self.one_out_forecaster;
        versus.inferer.learn(&losses.one_out_forecaster, inferer, *combined, pace);
        versus.forecaster.learn(&losses.one_out_forecaster, forecaster, *combined, pace);
        let versus = &mut self.one_in_forecaster;
        versus.inferer.learn(&losses.one_in_forecaster, inferer, *combined, pace);
        for (name, reference) in &losses.one_in_forecaster {
            let itself = forecaster.get_key_value(name).map(|(name, loss)| (name.clone(), *loss));
            versus.forecaster.learn_row(name, *reference, &itself.into_iter().collect(), pace);
        }
    }
}

impl Versus {
    /// Returns the grids with the regrets of `standings`, by who is left out or let in.
    pub fn of(standings: &BTreeMap<Address, Standing>) -> Self {
        Self {
            inferer: Grid::of(standings.iter().map(|(name, of)| (name, &of.inferer))),
            forecaster: Grid::of(standings.iter().map(|(name, of)| (name, &of.forecaster))),
        }
    }

    /// The regrets by who is left out or let in.
    pub fn standings(&self) -> BTreeMap<Address, Standing> {
        let mut standings: BTreeMap<Address, Standing> = BTreeMap::new();
        for row in self.inferer.rows() {
            standings.entry(row.name.clone()).or_default().inferer = self.inferer.family(row);
        }
        for row in self.forecaster.rows() {
            standings.entry(row.name.clone()).or_default().forecaster = self.forecaster.family(row);
        }
        standings
    }
}

impl Pace {
    /// The share of what was known before in a regret.
    fn kept(self) -> f64 {
        1.0 - self.alpha
    }
}

impl Standing {
    /// All regrets, inferers first.
    pub fn all(&self) -> impl Iterator<Item = f64> {
        self.inferer.values().chain(self.forecaster.values()).copied()
    }
}

/// Moves each regret toward `reference` less the actor's loss.
fn follow(regrets: &mut Family, reference: f64, losses: &Family, pace: Pace) {
    for (name, loss) in losses {
        let newest = pace.alpha * (reference - loss);
        if let Some(regret) = regrets.get_mut(name) {
            *regret = newest + pace.kept() * *regret;
        } else {
            regrets.insert(name.clone(), newest + pace.kept() * pace.initial);
        }
    }
}

/// What a topic's regrets say about the actors it has not seen.
#[derive(Debug, Clone, Copy)]
pub struct Crowd<'a> {
    /// The ordinary regrets of those who took part often enough.
    pub experienced: &'a [f64],
    /// The ordinary regrets of all.
    pub all: &'a [f64],
    /// How many it takes to conclude anything: 10 on the chain.
    pub n_min: usize,
}

/// Returns the regret a newcomer starts from: low among the experienced, so that it has to earn
/// its weight. None where there are too few to tell.
pub fn initial_regret(crowd: Crowd<'_>, params: &Params) -> Option<f64> {
    if crowd.experienced.len() >= crowd.n_min {
        let low = quantile(crowd.experienced, INITIAL_REGRET_QUANTILE)?;
        let below = params.c_norm - P_NORM_SAFE_DIV / params.p_norm;
        return Some(low + below * (deviation(crowd.experienced) + params.epsilon));
    }
    let are_enough = crowd.all.len() >= crowd.n_min;
    are_enough.then(|| quantile(crowd.all, INITIAL_REGRET_QUANTILE)).flatten()
}

/// Whether an actor that took part in `n_epochs` is experienced, at `alpha`: by then its first
/// regret has faded.
pub fn is_experienced(n_epochs: u32, alpha: f64) -> bool {
    f64::from(n_epochs) * alpha >= 1.0
}

#[cfg(test)]
mod tests;
