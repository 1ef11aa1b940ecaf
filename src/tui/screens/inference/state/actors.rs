//! The actors of a bundle under one label: who they are, what they say, and what they weigh.

use std::cmp::Ordering;

use model::topic::Address;
use strum::VariantArray;
use wire::inference::{Bundle, TopicSummary, leaderboard::Leaderboard};

use super::{confidence::Confidence, past};
use crate::widget::stats;

/// The role of an actor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Role {
    Inferer,
    /// Forecasts the inferers' losses.
    Forecaster,
}

/// An actor, as a row shows it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Actor {
    pub(crate) worker: Address,
    /// The registered name of the address; none if unknown.
    pub(crate) name: Option<String>,
    pub(crate) role: Role,
    /// Whether its value is far from the others'.
    pub(crate) is_outlier: bool,
    pub(crate) value: Option<f64>,
    /// Its value less the combined one.
    pub(crate) delta: Option<f64>,
    /// The combined value less that without it.
    pub(crate) influence: Option<f64>,
    /// Its share in the combined value.
    pub(crate) weight: Option<f64>,
    /// The combined value without it.
    pub(crate) without: Option<f64>,
    /// A forecaster's value combined with the inferers', without other forecasters.
    pub(crate) alone: Option<f64>,
    /// Its place by its mean loss, from 1 on.
    pub(crate) rank: Option<usize>,
    /// The mean of its losses over recent epochs, not as a logarithm.
    pub(crate) mean_loss: Option<f64>,
    /// Its newest loss.
    pub(crate) loss: Option<f64>,
    /// The moving average of its scores.
    pub(crate) score: Option<f64>,
}

/// The sources on actors beside a bundle.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ActorSources<'a> {
    /// The topic's entry in the list.
    pub(crate) topic: Option<&'a TopicSummary>,
    /// The weights of this bundle.
    pub(crate) confidence: Option<&'a Confidence>,
    pub(crate) leaderboard: Option<&'a Leaderboard>,
}

/// The detail shown beside each actor's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Detail {
    /// Its mean loss over recent epochs, and its weight.
    #[default]
    MeanLoss,
    /// By how much it changes the combined value, and its weight.
    Influence,
    /// What the others combine to without it, and a forecaster alone.
    LeaveOuts,
    /// Its regret, loss and score.
    Learned,
}

impl Detail {
    /// The heads of its two columns.
    pub(crate) const fn titles(self) -> [&'static str; 2] {
        match self {
            Self::MeanLoss => ["MEAN LOSS", "WEIGHT"],
            Self::Influence => ["INFLUENCE", "WEIGHT"],
            Self::LeaveOuts => ["WITHOUT", "ALONE"],
            Self::Learned => ["LOSS", "SCORE"],
        }
    }
}

/// What actors are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Sort {
    /// Its mean loss over recent epochs, the least first: inferers among forecasters.
    #[default]
    MeanLoss,
    /// How much leaving it out would change.
    Influence,
    /// How far its value is from the combined one.
    Delta,
    Value,
    Weight,
    Worker,
}

impl Sort {
    /// The name in the pane's title.
    pub(crate) const fn title(self) -> &'static str {
        match self {
            Self::MeanLoss => "MEAN LOSS",
            Self::Influence => "INFLUENCE",
            Self::Delta => "Δ COMBINED",
            Self::Value => "VALUE",
            Self::Weight => "WEIGHT",
            Self::Worker => "WORKER",
        }
    }

    /// The order of two actors: greatest first, or least loss first; those without a number last.
    fn compare(self, one: &Actor, other: &Actor) -> Ordering {
        let size = |actor: &Actor| {
            let number = match self {
                Self::MeanLoss => actor.mean_loss.map(|loss| -loss),
                Self::Influence => actor.influence.map(f64::abs),
                Self::Delta => actor.delta.map(f64::abs),
                Self::Value => actor.value,
                Self::Weight => actor.weight,
                Self::Worker => None,
            };
            number.unwrap_or(f64::NEG_INFINITY)
        };
        let order = size(other).total_cmp(&size(one));
        let order = match self {
            // Before anybody has a mean loss.
            Self::MeanLoss => order.then_with(|| Self::Influence.compare(one, other)),
            _ => order,
        };
        order.then_with(|| one.worker.cmp(&other.worker))
    }
}

/// Returns the actors of `bundle` under `label`: inferers, then forecasters, each sorted by `sort`.
pub(crate) fn actors(
    bundle: &Bundle,
    sources: ActorSources<'_>,
    label: &str,
    sort: Sort,
    is_reversed: bool,
) -> Vec<Actor> {
    let ActorSources { topic, confidence, leaderboard } = sources;
    let combined = past::label_value(&bundle.combined_value, label);
    let rank_of = |worker: &Address, role| {
        let role = match role {
            Role::Inferer => "inferer",
            Role::Forecaster => "forecaster",
        };
        let mut ranked = leaderboard?.actors.iter().enumerate();
        ranked.find(|(_, actor)| actor.worker == worker.as_str() && actor.role == role)
    };
    let known = |worker: &Address| {
        topic.and_then(|topic| topic.actors.iter().find(|actor| actor.worker == worker.as_str()))
    };
    let actor = |worker: &Address, role, value: Option<f64>| {
        let known = known(worker);
        let beside = confidence.and_then(|beside| beside.weights.get(worker.as_str()).copied());
        let without = one_out(bundle, worker, role, label);
        let ranked = rank_of(worker, role);
        Actor {
            worker: worker.clone(),
            name: known.and_then(|known| known.name.clone()),
            role,
            is_outlier: false,
            value,
            delta: value.zip(combined).map(|(value, combined)| value - combined),
            influence: combined.zip(without).map(|(combined, without)| combined - without),
            weight: beside.or(known.and_then(|known| known.weight)),
            without,
            alone: one_in(bundle, worker, role, label),
            rank: ranked.map(|(idx, _)| idx + 1),
            mean_loss: ranked.map(|(_, actor)| actor.mean_loss),
            loss: known.and_then(|known| known.loss),
            score: known.and_then(|known| known.score),
        }
    };
    let values = bundle.inferer_values.iter();
    let mut inferers: Vec<Actor> = values
        .map(|one| actor(&one.worker, Role::Inferer, past::label_value(&one.values, label)))
        .collect();
    let numbers: Vec<f64> = inferers.iter().map(|one| one.value.unwrap_or(f64::NAN)).collect();
    for (inferer, is_outlier) in inferers.iter_mut().zip(stats::outliers(&numbers)) {
        inferer.is_outlier = is_outlier;
    }
    let values = bundle.forecaster_values.iter();
    let mut forecasters: Vec<Actor> = values
        .map(|one| actor(&one.worker, Role::Forecaster, past::label_value(&one.values, label)))
        .collect();
    for group in [&mut inferers, &mut forecasters] {
        group.sort_by(|one, other| sort.compare(one, other));
        if is_reversed {
            group.reverse();
        }
    }
    inferers.extend(forecasters);
    if sort == Sort::MeanLoss {
        // A stable sort: actors without a mean loss stay with those of their role.
        inferers.sort_by(|one, other| {
            let losses = [one, other].map(|actor| actor.mean_loss.unwrap_or(f64::INFINITY));
            let order = losses[0].total_cmp(&losses[1]);
            if is_reversed { order.reverse() } else { order }
        });
    }
    inferers
}

/// The combined value without this actor.
fn one_out(bundle: &Bundle, worker: &Address, role: Role, label: &str) -> Option<f64> {
    let without = match role {
        Role::Inferer => bundle
            .one_out_inferer_values
            .iter()
            .find(|one| one.withheld_inferer == *worker)
            .map(|one| &one.combined_inference),
        Role::Forecaster => bundle
            .one_out_forecaster_values
            .iter()
            .find(|one| one.withheld_forecaster == *worker)
            .map(|one| &one.combined_inference),
    };
    past::label_value(without?, label)
}

/// What the inferers and this forecaster alone combine to.
fn one_in(bundle: &Bundle, worker: &Address, role: Role, label: &str) -> Option<f64> {
    let mut values = bundle.one_in_forecaster_values.iter();
    let alone = values.find(|one| role == Role::Forecaster && one.forecaster == *worker)?;
    past::label_value(&alone.combined_inference, label)
}
