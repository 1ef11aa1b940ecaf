//! The actors of a bundle for one label: their values, weights and losses.

use std::cmp::Ordering;

use model::topic::Address;
use strum::VariantArray;
use wire::inference::network::RankedActor;
use wire::inference::{ActorSummary, Bundle, WorkerValues};

use crate::screens::inference::state::{self, State};
use crate::widget::stats;

/// The role of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, strum::IntoStaticStr)]
#[strum(serialize_all = "lowercase")]
pub(crate) enum Role {
    Inferer,
    /// Forecasts the losses of inferers.
    Forecaster,
}

/// An actor with the numbers of its row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Actor<'a> {
    pub(crate) worker: &'a Address,
    pub(crate) role: Role,
    /// Name, regret, loss and score of the actor, from the list of topics.
    pub(crate) known: Option<&'a ActorSummary>,
    /// True if the actor's value is an outlier among the inferers.
    pub(crate) is_outlier: bool,
    pub(crate) value: Option<f64>,
    /// Value of the actor minus the combined value.
    pub(crate) delta: Option<f64>,
    /// Combined value minus the combined value without the actor.
    pub(crate) influence: Option<f64>,
    /// Share of the actor in the combined value.
    pub(crate) weight: Option<f64>,
    /// Combined value without the actor.
    pub(crate) without: Option<f64>,
    /// Combined value of all inferers and only this forecaster.
    pub(crate) alone: Option<f64>,
    /// Rank of the actor by its mean loss, from 1. `None` if it is not ranked.
    pub(crate) rank: Option<u64>,
    /// Mean loss of the actor over the epochs that all ranked actors have in common. `None` if it
    /// is not ranked.
    pub(crate) mean_loss: Option<f64>,
    /// Number of epochs that count towards a rank of the actor, and the number required. `None` if
    /// the actor is ranked.
    pub(crate) unranked: Option<(u64, u64)>,
}

/// Numbers shown next to each actor's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Detail {
    /// Mean loss of the actor over recent epochs, and its weight.
    #[default]
    MeanLoss,
    /// Influence of the actor on the combined value, and its weight.
    Influence,
    /// Combined value without the actor, and combined value with only this forecaster.
    LeaveOuts,
    /// Loss and score of the actor.
    Learned,
}

impl Detail {
    /// Returns the titles of the two columns with these numbers.
    pub(crate) const fn titles(self) -> [&'static str; 2] {
        match self {
            Self::MeanLoss => [MEAN_LOSS, "WEIGHT"],
            Self::Influence => ["INFLUENCE", "WEIGHT"],
            Self::LeaveOuts => ["WITHOUT", "ALONE"],
            Self::Learned => ["LOSS", "SCORE"],
        }
    }
}

/// Column by which the actors are sorted by default: lowest mean loss over recent epochs first,
/// inferers and forecasters together.
pub(crate) const MEAN_LOSS: &str = "MEAN LOSS";

/// Further columns by which the actors can be sorted. The sort key selects them in this order.
pub(crate) const ACTOR_ORDERS: [&str; 5] = ["INFLUENCE", "Δ COMB", "VALUE", "WEIGHT", "WORKER"];

/// Compares two actors by a column: lowest mean loss, otherwise highest number first. An actor
/// without the number is last.
fn compare(column: &str, one: &Actor<'_>, other: &Actor<'_>) -> Ordering {
    let size = |actor: &Actor<'_>| {
        let number = match column {
            MEAN_LOSS => actor.mean_loss.map(|loss| -loss),
            "INFLUENCE" => actor.influence.map(f64::abs),
            "Δ COMB" => actor.delta.map(f64::abs),
            "VALUE" => actor.value,
            "WEIGHT" => actor.weight,
            _ => None,
        };
        number.unwrap_or(f64::NEG_INFINITY)
    };
    let order = size(other).total_cmp(&size(one));
    if order.is_eq() && column == MEAN_LOSS {
        // Both have the same mean loss, usually because none is known yet.
        return compare("INFLUENCE", one, other);
    }
    order.then_with(|| one.worker.cmp(other.worker))
}

impl State {
    /// Returns the column by which the actors are sorted.
    pub(crate) fn sorted_by(&self) -> &'static str {
        self.actor_order.column.unwrap_or(MEAN_LOSS)
    }

    /// Returns the actors of the latest bundle with their values for the visible label, sorted. If
    /// sorted by mean loss, inferers and forecasters are together, otherwise inferers are first.
    pub(crate) fn actors(&self) -> Vec<Actor<'_>> {
        let Some(latest) = self.latest.value() else { return Vec::new() };
        let label = self.label();
        let inferers = latest.bundle.inferer_values.iter().map(|one| (Role::Inferer, one));
        let forecasters = latest.bundle.forecaster_values.iter();
        let all = inferers.chain(forecasters.map(|one| (Role::Forecaster, one)));
        let mut actors: Vec<Actor<'_>> = all
            .map(|(role, submitted)| self.actor(&latest.bundle, role, submitted, label))
            .collect();
        let inferers = actors.iter().filter(|actor| actor.role == Role::Inferer);
        let numbers: Vec<f64> = inferers.map(|one| one.value.unwrap_or(f64::NAN)).collect();
        for (inferer, is_outlier) in actors.iter_mut().zip(stats::outliers(&numbers)) {
            inferer.is_outlier = is_outlier;
        }
        let column = self.sorted_by();
        let is_reversed = self.actor_order.is_reversed;
        let directed = |order: Ordering| if is_reversed { order.reverse() } else { order };
        actors.sort_by(|one, other| {
            let losses = [one, other].map(|actor| match column {
                MEAN_LOSS => actor.mean_loss.unwrap_or(f64::INFINITY),
                _ => 0.0,
            });
            // If sorted by mean loss, only actors without a mean loss are grouped by role. If
            // sorted by another column, all actors are.
            directed(losses[0].total_cmp(&losses[1]))
                .then(one.role.cmp(&other.role))
                .then_with(|| directed(compare(column, one, other)))
        });
        actors
    }

    /// Returns the actor that submitted these values to `bundle`, with its numbers for `label`.
    fn actor<'a>(
        &'a self,
        bundle: &'a Bundle,
        role: Role,
        submitted: &'a WorkerValues,
        label: &str,
    ) -> Actor<'a> {
        let worker = &submitted.worker;
        let value = state::label_value(&submitted.values, label);
        let combined = state::label_value(&bundle.combined_value, label);
        let without = one_out(bundle, worker, role, label);
        let known = self
            .topic()
            .and_then(|topic| topic.actors.iter().find(|actor| actor.worker == worker.as_str()));
        let confidence = self.confidence_of(bundle);
        let listed = self.leaderboard.as_ref().and_then(|board| {
            let is_same = |actor: &&RankedActor| {
                actor.worker == worker.as_str() && actor.role == <&str>::from(role)
            };
            Some((board.actors.iter().find(is_same)?, board.min_epochs))
        });
        let rank = listed.and_then(|(actor, _)| actor.rank);
        Actor {
            worker,
            role,
            known,
            is_outlier: false,
            value,
            delta: value.zip(combined).map(|(value, combined)| value - combined),
            influence: combined.zip(without).map(|(combined, without)| combined - without),
            weight: confidence
                .and_then(|confidence| state::weight_of(confidence, worker))
                .or(known.filter(|_| !self.is_resistant).and_then(|known| known.weight)),
            without,
            alone: one_in(bundle, worker, role, label),
            rank,
            mean_loss: listed.filter(|_| rank.is_some()).map(|(actor, _)| actor.mean_loss),
            unranked: listed
                .filter(|_| rank.is_none())
                .map(|(actor, min)| (actor.n_counted_epochs, min)),
        }
    }
}

/// Returns the combined value without the actor `worker`.
fn one_out(bundle: &Bundle, worker: &Address, role: Role, label: &str) -> Option<f64> {
    let without = match role {
        Role::Inferer => {
            let mut all = bundle.one_out_inferer_values.iter();
            &all.find(|one| one.withheld_inferer == *worker)?.combined_inference
        }
        Role::Forecaster => {
            let mut all = bundle.one_out_forecaster_values.iter();
            &all.find(|one| one.withheld_forecaster == *worker)?.combined_inference
        }
    };
    state::label_value(without, label)
}

/// Returns the combined value of all inferers and only the forecaster `worker`.
fn one_in(bundle: &Bundle, worker: &Address, role: Role, label: &str) -> Option<f64> {
    let mut values = bundle.one_in_forecaster_values.iter();
    let alone = values.find(|one| role == Role::Forecaster && one.forecaster == *worker)?;
    state::label_value(&alone.combined_inference, label)
}
