//! Regrets: by how much the network does better with an actor than the actor does alone.
//!
//! Each family compares an actor's loss with that of one quantity of the epoch. A regret moves a
//! part of the way to the newest difference, so it remembers. Absent on purpose: what a loss is
//! (see [`crate::loss`]), and what follows from regrets (see [`crate::synthesis::weights`]).

use std::collections::BTreeMap;

use model::topic::Address;

use crate::{
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

/// The regrets of a topic's actors, in every family.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Regrets {
    /// Against the combined value.
    pub ordinary: Standing,
    /// The inferers' against the naive value.
    pub naive: Family,
    /// Against the combined value without the inferer that is the key.
    pub one_out_inferer: BTreeMap<Address, Standing>,
    /// Against the combined value without the forecaster that is the key.
    pub one_out_forecaster: BTreeMap<Address, Standing>,
    /// Against the inferers combined with the forecaster that is the key.
    pub one_in_forecaster: BTreeMap<Address, Standing>,
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

    /// Forgets the inferer `name`: as one of its own, and as one left out.
    pub fn forget_inferer(&mut self, name: &Address) {
        self.naive.remove(name);
        self.one_out_inferer.remove(name);
        for standing in self.standings() {
            standing.inferer.remove(name);
        }
    }

    /// Forgets the forecaster `name`: as one of its own, and as one left out or alone.
    pub fn forget_forecaster(&mut self, name: &Address) {
        self.one_out_forecaster.remove(name);
        self.one_in_forecaster.remove(name);
        for standing in self.standings() {
            standing.forecaster.remove(name);
        }
    }

    fn standings(&mut self) -> impl Iterator<Item = &mut Standing> {
        std::iter::once(&mut self.ordinary)
            .chain(self.one_out_inferer.values_mut())
            .chain(self.one_out_forecaster.values_mut())
            .chain(self.one_in_forecaster.values_mut())
    }

    /// Learns from `losses`. Who took no part keeps its regrets.
    pub fn learn(&mut self, losses: &Losses, pace: Pace) {
        let Losses { inferer, forecaster, .. } = losses;
        self.ordinary.learn(losses.combined, inferer, forecaster, pace);
        follow(&mut self.naive, losses.naive, inferer, pace);
        for (withheld, reference) in &losses.one_out_inferer {
            let without = |(name, of_each): (&Address, &Family)| {
                Some((name.clone(), *of_each.get(withheld)?))
            };
            let implied = losses.one_out_inferer_forecaster.iter().filter_map(without).collect();
            let standing = self.one_out_inferer.entry(withheld.clone()).or_default();
            standing.learn(*reference, inferer, &implied, pace);
        }
        for (withheld, reference) in &losses.one_out_forecaster {
            let standing = self.one_out_forecaster.entry(withheld.clone()).or_default();
            standing.learn(*reference, inferer, forecaster, pace);
        }
        for (name, reference) in &losses.one_in_forecaster {
            let itself = forecaster.get_key_value(name).map(|(name, loss)| (name.clone(), *loss));
            let standing = self.one_in_forecaster.entry(name.clone()).or_default();
            standing.learn(*reference, inferer, &itself.into_iter().collect(), pace);
        }
    }
}

impl Standing {
    fn learn(&mut self, reference: f64, inferer: &Family, forecaster: &Family, pace: Pace) {
        follow(&mut self.inferer, reference, inferer, pace);
        follow(&mut self.forecaster, reference, forecaster, pace);
    }

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
            *regret = newest + (1.0 - pace.alpha) * *regret;
        } else {
            regrets.insert(name.clone(), newest + (1.0 - pace.alpha) * pace.initial);
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
