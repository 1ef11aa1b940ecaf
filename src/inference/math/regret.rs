//! Regrets: the network's loss minus an actor's loss. An actor with a positive regret was better than
//! the network.
//!
//! There are several families of regrets. Each compares an actor's loss with the loss of another value
//! of the epoch, such as the combined or the naive value. A regret is a moving average of this
//! difference. [`crate::math::loss`] defines losses. [`crate::math::synthesis::weights`] converts
//! regrets to weights.

use std::collections::BTreeMap;
use std::ops::{Index, IndexMut};

use model::topic::Address;
use serde::{Deserialize, Serialize};

use crate::math::exact::Exact;
use crate::math::pair_values::PairValues;
use crate::math::statistics::{count, deviation, quantile};
use crate::math::synthesis::weights::Params;

/// Quantile of other actors' regrets from which a newcomer's regret is derived, as on the chain.
const INITIAL_REGRET_QUANTILE: f64 = 0.25;

/// Value for each actor by address.
pub type ByActor<T> = BTreeMap<Address, T>;

/// Role of an actor in an epoch. An address can have both roles, each with its own regrets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub enum Role {
    /// Predicts the value.
    Inferer,
    /// Predicts the inferers' losses.
    Forecaster,
}

/// A pair of values: one for inferers and one for forecasters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(bound(serialize = "T: Exact", deserialize = "T: Exact"))]
pub struct ByRole<T> {
    /// Value for inferers.
    #[serde(with = "Exact")]
    pub inferer: T,
    /// Value for forecasters.
    #[serde(with = "Exact")]
    pub forecaster: T,
}

/// Number of each inferer and each forecaster, such as its regret against the combined value.
pub type RoleValues = ByRole<ByActor<f64>>;

/// Regrets of inferers and forecasters (columns) against values that are computed without one actor
/// (row), or with it as the only forecaster.
pub type PairwiseRegrets = ByRole<PairValues>;

/// Regrets of a topic's actors in all families.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Regrets {
    /// Regrets against the combined value.
    pub ordinary: RoleValues,
    /// Regrets of inferers against the naive value.
    #[serde(with = "Exact")]
    pub naive: ByActor<f64>,
    /// Regrets against the combined value without one inferer (row).
    #[serde(skip)]
    pub one_out_inferer: PairwiseRegrets,
    /// Regrets against the combined value without one forecaster (row).
    #[serde(skip)]
    pub one_out_forecaster: PairwiseRegrets,
    /// Regrets against the value combined from the inferers and only one forecaster (row).
    #[serde(skip)]
    pub one_in_forecaster: PairwiseRegrets,
}

/// Losses of all values of an epoch.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Losses {
    /// Loss of the combined value.
    #[serde(with = "Exact")]
    pub combined: f64,
    /// Loss of the naive value.
    #[serde(with = "Exact")]
    pub naive: f64,
    /// Loss of each inferer's value.
    #[serde(with = "Exact")]
    pub inferer: ByActor<f64>,
    /// Loss of the value implied by each forecaster.
    #[serde(with = "Exact")]
    pub forecaster: ByActor<f64>,
    /// Loss of the combined value with an inferer left out, by that inferer.
    #[serde(with = "Exact")]
    pub one_out_inferer: ByActor<f64>,
    /// Loss of the combined value with a forecaster left out, by that forecaster.
    #[serde(with = "Exact")]
    pub one_out_forecaster: ByActor<f64>,
    /// Loss of the value combined from the inferers and only one forecaster, for each forecaster.
    #[serde(with = "Exact")]
    pub one_in_forecaster: ByActor<f64>,
    /// Loss of the value that a forecaster (row) implies with an inferer (column) left out.
    #[serde(skip)]
    pub one_out_inferer_forecaster: PairValues,
    /// Standard deviation of ground truths that scaled the losses, or `None` if the losses are not
    /// scaled.
    #[serde(with = "Exact", default, skip_serializing_if = "Option::is_none")]
    pub std: Option<f64>,
    /// Unit of the losses, or `None` if it is the unit of the topic's present settings.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unit: Option<String>,
}

/// Parameters of the moving average of regrets.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pace {
    /// Weight of the latest difference: the topic's `alpha_regret`.
    pub alpha: f64,
    /// Regret of an actor before its first epoch.
    pub initial: f64,
}

impl Regrets {
    /// Returns true if nothing has been learned yet.
    pub fn is_empty(&self) -> bool {
        self.ordinary.inferer.is_empty() && self.ordinary.forecaster.is_empty()
    }

    /// Returns the approximate memory usage of the pairwise regrets, in bytes.
    pub fn n_bytes(&self) -> usize {
        let all = [&self.one_out_inferer, &self.one_out_forecaster, &self.one_in_forecaster];
        let pairs = all.into_iter().flat_map(|pairwise| Role::ALL.map(|role| &pairwise[role]));
        pairs.map(|pairs| size_of_val(pairs.numbers())).sum()
    }

    /// Removes each actor for which `is_kept` returns false from the role. This includes the rows of
    /// the pairwise regrets in which the actor is left out or the only forecaster.
    pub fn retain(&mut self, is_kept: impl Fn(Role, &Address) -> bool) {
        self.naive.retain(|name, _| is_kept(Role::Inferer, name));
        for role in Role::ALL {
            self.ordinary[role].retain(|name, _| is_kept(role, name));
            for (row_role, pairwise) in [
                (Role::Inferer, &mut self.one_out_inferer),
                (Role::Forecaster, &mut self.one_out_forecaster),
                (Role::Forecaster, &mut self.one_in_forecaster),
            ] {
                pairwise[role].retain(|row| is_kept(row_role, row), |name| is_kept(role, name));
            }
        }
    }

    /// Updates the regrets of the actors in `losses`.
    pub fn learn(&mut self, losses: &Losses, pace: Pace) {
        let Losses { combined, inferer, forecaster, .. } = losses;
        follow(&mut self.ordinary.inferer, *combined, inferer, pace);
        follow(&mut self.ordinary.forecaster, *combined, forecaster, pace);
        follow(&mut self.naive, losses.naive, inferer, pace);
        let inferers: Vec<&Address> = inferer.keys().collect();
        let forecasters: Vec<&Address> = forecaster.keys().collect();
        let by_inferer: Vec<f64> = inferer.values().copied().collect();
        let by_forecaster: Vec<f64> = forecaster.values().copied().collect();
        let without = &losses.one_out_inferer_forecaster;
        let implying: Vec<&Address> = without.rows().iter().collect();

        let (out, regrets) = (&losses.one_out_inferer, &mut self.one_out_inferer);
        follow_pairs(&mut regrets.inferer, out, &inferers, |_| by_inferer.clone(), pace);
        let of_withheld = |name: &Address| without.column_of(name);
        follow_pairs(&mut regrets.forecaster, out, &implying, of_withheld, pace);

        let (out, regrets) = (&losses.one_out_forecaster, &mut self.one_out_forecaster);
        follow_pairs(&mut regrets.inferer, out, &inferers, |_| by_inferer.clone(), pace);
        follow_pairs(&mut regrets.forecaster, out, &forecasters, |_| by_forecaster.clone(), pace);

        let (with, regrets) = (&losses.one_in_forecaster, &mut self.one_in_forecaster);
        follow_pairs(&mut regrets.inferer, with, &inferers, |_| by_inferer.clone(), pace);
        let own = |row: &Address| {
            forecaster
                .iter()
                .map(|(name, loss)| if name == row { *loss } else { f64::NAN })
                .collect()
        };
        follow_pairs(&mut regrets.forecaster, with, &forecasters, own, pace);
    }
}

impl Role {
    /// Both roles, in the order in which lists of actors of both roles contain them.
    pub const ALL: [Self; 2] = [Self::Inferer, Self::Forecaster];

    /// Returns the name in the API.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl<T> Index<Role> for ByRole<T> {
    type Output = T;

    fn index(&self, role: Role) -> &T {
        match role {
            Role::Inferer => &self.inferer,
            Role::Forecaster => &self.forecaster,
        }
    }
}

impl<T> IndexMut<Role> for ByRole<T> {
    fn index_mut(&mut self, role: Role) -> &mut T {
        match role {
            Role::Inferer => &mut self.inferer,
            Role::Forecaster => &mut self.forecaster,
        }
    }
}

impl Losses {
    /// Returns, for each actor of `role`, the increase of the epoch's loss if that actor were absent.
    ///
    /// For an inferer, this is the loss of the combined value without the inferer minus the loss with
    /// it. For a forecaster, it is a weighted average of two reductions: of the naive loss by adding
    /// only this forecaster, and of the combined loss by adding this forecaster to the other
    /// forecasters. The weight of the first reduction halves with each additional forecaster. The result
    /// is 0 for an actor that cannot be left out.
    pub fn scores(&self, role: Role) -> ByActor<f64> {
        let share_alone = 2.0_f64.powf(1.0 - count(self.forecaster.len()));
        let score = |name: &Address| {
            let among_others = self.increase_without(role, name)?;
            if role == Role::Inferer {
                return Some(among_others);
            }
            let alone = self.naive - self.one_in_forecaster.get(name)?;
            Some(share_alone * alone + (1.0 - share_alone) * among_others)
        };
        let known = |name: &Address| (name.clone(), score(name).unwrap_or_default());
        self.by_actor(role).keys().map(known).collect()
    }

    /// Returns the loss of the combined value without an actor minus the loss with it, or `None` for an
    /// actor that cannot be left out.
    pub fn increase_without(&self, role: Role, name: &Address) -> Option<f64> {
        let without = match role {
            Role::Inferer => &self.one_out_inferer,
            Role::Forecaster => &self.one_out_forecaster,
        };
        Some(without.get(name)? - self.combined)
    }

    /// Returns the loss of each actor of `role`: of an inferer's value, or of the value that a
    /// forecaster implies.
    pub const fn by_actor(&self, role: Role) -> &ByActor<f64> {
        match role {
            Role::Inferer => &self.inferer,
            Role::Forecaster => &self.forecaster,
        }
    }
}

impl Pace {
    /// Returns the weight of the previous value of a regret.
    fn previous_share(self) -> f64 {
        1.0 - self.alpha
    }
}

impl RoleValues {
    /// Returns the numbers of all actors, inferers first.
    pub fn all(&self) -> impl Iterator<Item = f64> {
        self.inferer.values().chain(self.forecaster.values()).copied()
    }
}

/// Moves the regret of each actor in `losses` toward `reference` minus the actor's loss.
fn follow(regrets: &mut ByActor<f64>, reference: f64, losses: &ByActor<f64>, pace: Pace) {
    for (name, loss) in losses {
        let newest = pace.alpha * (reference - loss);
        if let Some(regret) = regrets.get_mut(name) {
            *regret = newest + pace.previous_share() * *regret;
        } else {
            regrets.insert(name.clone(), newest + pace.previous_share() * pace.initial);
        }
    }
}

/// Moves the regret of each pair toward the row's reference loss minus the column's loss. `references`
/// has the reference loss of each row. `losses` returns the losses in a row in the order of `columns`,
/// with NaN for missing losses.
fn follow_pairs(
    regrets: &mut PairValues,
    references: &ByActor<f64>,
    columns: &[&Address],
    losses: impl Fn(&Address) -> Vec<f64>,
    pace: Pace,
) {
    if references.is_empty() || columns.is_empty() {
        return;
    }
    regrets.include(&references.keys().collect::<Vec<_>>(), columns);
    let places: Vec<Option<usize>> =
        columns.iter().map(|name| regrets.columns().binary_search(name).ok()).collect();
    for (name, reference) in references {
        let losses = losses(name);
        let Some(row) = regrets.row_of_mut(name) else { continue };
        for (place, loss) in places.iter().zip(losses) {
            let Some(regret) = place.and_then(|idx| row.get_mut(idx)) else { continue };
            if !loss.is_nan() {
                let before = if regret.is_nan() { pace.initial } else { *regret };
                *regret = pace.alpha * (reference - loss) + pace.previous_share() * before;
            }
        }
    }
}

/// Regrets of other actors from which a newcomer's regret is derived.
#[derive(Debug, Clone, Copy)]
pub struct Crowd<'a> {
    /// Ordinary regrets of experienced actors.
    pub experienced: &'a [f64],
    /// Ordinary regrets of all actors.
    pub all: &'a [f64],
    /// Minimum number of regrets for a meaningful quantile: 10 on the chain.
    pub n_min: usize,
}

/// Returns the initial regret of a newcomer. The initial regret is low compared with the regrets of
/// experienced actors, so that newcomers have to earn their weight. If there are fewer than
/// [`Crowd::n_min`] experienced actors, it is a low quantile of the regrets of all actors. Returns
/// `None` if there are fewer than [`Crowd::n_min`] actors in total.
pub fn initial_regret(crowd: Crowd<'_>, params: &Params) -> Option<f64> {
    if crowd.experienced.len() >= crowd.n_min {
        let low = quantile(crowd.experienced, INITIAL_REGRET_QUANTILE)?;
        // 8.25 is the chain's parameter `p_norm_safe_div`.
        let below = params.c_norm - 8.25 / params.p_norm;
        return Some(low + below * (deviation(crowd.experienced) + params.epsilon));
    }
    let are_enough = crowd.all.len() >= crowd.n_min;
    are_enough.then(|| quantile(crowd.all, INITIAL_REGRET_QUANTILE)).flatten()
}

/// Returns true if an actor is experienced after `n_epochs`: with the weight `alpha` of each new
/// difference, little is left of its initial regret by then.
pub fn is_experienced(n_epochs: u32, alpha: f64) -> bool {
    f64::from(n_epochs) * alpha >= 1.0
}

#[cfg(test)]
mod tests;
