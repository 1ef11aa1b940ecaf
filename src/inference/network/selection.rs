//! Selection of the active actors of an epoch. Only their submissions are combined.
//!
//! The formulas are in [`crate::math::sortition`]. This module prepares their input, withdraws the
//! submissions of resting actors, and updates the scores of these actors.
//!
//! Labels are numbered as on the chain (`FinalizeInferencesAndRegistryAtClose`, called by
//! `CloseWorkerNonce` in `x/emissions/keeper/actor_utils/worker.go`). During the window, each label
//! gets an id when it is first submitted. When the epoch closes, a label remains only if an active
//! inferer submitted a value other than the default for it. The remaining labels get new ids from 1 in
//! the same order. A topic's list of labels restricts only which labels can be submitted.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::timestamp::Timestamp;
use model::topic::{Address, BlockHeight};

use crate::math::outlier::Baseline;
use crate::math::regret::{ByActor, ByRole, Role};
use crate::math::sortition::{Candidate, Record, RolePlaces, choose_active};
use crate::math::statistics::moving_average;
use crate::network::learned::{Experience, Learned};
use crate::network::submission::Submission;
use crate::network::topic::{Topic, TopicKind};

/// A received submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// Submission as the worker sent it.
    pub submission: Submission,
    /// Time at which the submission arrived.
    pub received_at: Timestamp,
    /// True if the submission is from the operator or from a worker on the topic's whitelist.
    pub is_trusted: bool,
}

/// Result of the selection for an epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// Submissions of active actors, without the parts for roles in which they rest.
    pub active: Vec<Submission>,
    /// Labels of these submissions, in the order of their ids.
    pub labels: Vec<String>,
    /// Removed submissions and labels.
    pub withdrawn: Withdrawn,
}

/// Submissions and labels that are removed from an epoch when it closes.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Withdrawn {
    /// Submissions of actors that rest in a role, reduced to the remaining part. A submission is empty
    /// if its actor rests in each role for which it submitted.
    pub submissions: Vec<Submission>,
    /// Labels for which no active actor submitted a value.
    pub labels: Vec<String>,
}

/// Number of places in a role, and known actors of this role.
struct RoleContext<'a> {
    role: Role,
    places: RolePlaces,
    scores: &'a ByActor<f64>,
    experience: &'a ByActor<Experience>,
    /// Score of actors that have none yet.
    initial_score: f64,
}

/// Selects the submissions of active actors from the `arrivals` of the epoch `nonce`. `labels` are the
/// labels of the epoch in the order of their ids. Moves the scores of resting actors in `learned` toward
/// their target.
pub fn select(
    topic: &Topic,
    nonce: BlockHeight,
    arrivals: Vec<Arrival>,
    labels: &[String],
    learned: &mut Arc<Learned>,
) -> Selection {
    let mut active = ByRole::<BTreeSet<Address>>::default();
    for role in Role::ALL {
        let context = RoleContext::new(topic, role, learned);
        active[role] = choose_active(context.candidates(topic, &arrivals), context.places);
        let resting = context.resting(&arrivals, &active[role]);
        if let Some(target) = learned.resting_targets[role].filter(|_| !resting.is_empty()) {
            let learned = Arc::make_mut(learned);
            for (name, score) in resting {
                // Records the latest epoch in which an actor without a score rested. For a scored
                // actor, `last_nonce` remains the epoch in which the actor was last active.
                let newcomer = Experience { n_epochs: 0, last_nonce: nonce };
                let seen = learned.experience[role].entry(name.clone()).or_insert(newcomer);
                if seen.n_epochs == 0 {
                    seen.last_nonce = nonce;
                }
                let score =
                    moving_average(Some(score), target, topic.judging.merit_sortition_alpha);
                learned.scores[role].insert(name, score);
            }
        }
    }
    split_active(topic, labels, arrivals, &active)
}

/// Splits `arrivals` into the submissions of the `active` actors and the withdrawn submissions.
fn split_active(
    topic: &Topic,
    labels: &[String],
    arrivals: Vec<Arrival>,
    active: &ByRole<BTreeSet<Address>>,
) -> Selection {
    let mut withdrawn = Withdrawn::default();
    let mut parts = Vec::new();
    for Arrival { submission: mut part, .. } in arrivals {
        let rests_as_inferer = !part.inference.is_empty() && !active.inferer.contains(&part.worker);
        let rests_as_forecaster =
            !part.forecast.is_empty() && !active.forecaster.contains(&part.worker);
        if rests_as_inferer {
            part.inference = Vec::new();
        }
        if rests_as_forecaster {
            part.forecast = Arc::default();
        }
        if rests_as_inferer || rests_as_forecaster {
            withdrawn.submissions.push(part.clone());
        }
        if !part.is_empty() {
            parts.push(part);
        }
    }
    let active = parts;
    if topic.is_single() {
        return Selection { active, labels: topic.labels.clone(), withdrawn };
    }
    let used: BTreeSet<&String> = active
        .iter()
        .flat_map(|submission| submission.inference.iter().map(|value| &value.label_name))
        .collect();
    let (labels, unused) = labels.iter().cloned().partition(|label| used.contains(label));
    withdrawn.labels = unused;
    Selection { active, labels, withdrawn }
}

impl<'a> RoleContext<'a> {
    fn new(topic: &Topic, role: Role, learned: &'a Learned) -> Self {
        let newcomer_share = topic.active_quantiles[role];
        let n_max = usize::try_from(topic.active_max[role]).unwrap_or(usize::MAX);
        Self {
            role,
            places: RolePlaces { n_max, newcomer_share },
            scores: &learned.scores[role],
            experience: &learned.experience[role],
            initial_score: learned.initial_score(role),
        }
    }

    fn submitting(&self, arrivals: &'a [Arrival]) -> impl Iterator<Item = &'a Arrival> {
        let role = self.role;
        arrivals.iter().filter(move |Arrival { submission, .. }| match role {
            Role::Inferer => !submission.inference.is_empty(),
            Role::Forecaster => !submission.forecast.is_empty(),
        })
    }

    fn record(&self, arrival: &Arrival) -> Record {
        let seen = self.experience.get(&arrival.submission.worker);
        match seen {
            _ if arrival.is_trusted => Record::Trusted,
            Some(seen) if seen.n_epochs > 0 => Record::Scored,
            _ => Record::Newcomer,
        }
    }

    fn candidates(&self, topic: &Topic, arrivals: &[Arrival]) -> Vec<Candidate> {
        let far = self.far_newcomers(topic, arrivals);
        let candidate = |arrival: &Arrival| {
            let worker = arrival.submission.worker.clone();
            Candidate {
                score: self.score(&worker),
                record: self.record(arrival),
                arrival: arrival.received_at.micros(),
                is_far: far.contains(&worker),
                worker,
            }
        };
        self.submitting(arrivals).map(candidate).collect()
    }

    /// Returns the score of `worker`, or the score of newcomers if it has none.
    fn score(&self, worker: &Address) -> f64 {
        self.scores.get(worker).copied().unwrap_or(self.initial_score)
    }

    /// Returns the actors that submitted in this role but are not `active`, each with its score.
    fn resting(&self, arrivals: &[Arrival], active: &BTreeSet<Address>) -> Vec<(Address, f64)> {
        let names = self.submitting(arrivals).map(|arrival| &arrival.submission.worker);
        let resting = names.filter(|name| !active.contains(*name));
        resting.map(|name| (name.clone(), self.score(name))).collect()
    }

    /// Returns the newcomers with values that are far from the values of all other actors. Empty for
    /// forecasters and for topics with several labels.
    fn far_newcomers(&self, topic: &Topic, arrivals: &[Arrival]) -> BTreeSet<Address> {
        let has_values = self.role == Role::Inferer && topic.kind == TopicKind::Regression;
        if !topic.is_single() || !has_values {
            return BTreeSet::new();
        }
        let default = topic.labeling.default;
        let value = |arrival: &Arrival| {
            arrival
                .submission
                .values(&topic.labels, default)
                .and_then(|values| values.first().copied())
        };
        let is_newcomer = |arrival: &Arrival| self.record(arrival) == Record::Newcomer;
        let known = self.submitting(arrivals).filter(|arrival| !is_newcomer(arrival));
        let known: Vec<f64> = known.filter_map(value).collect();
        let Some(known) = Baseline::after(None, &known) else { return BTreeSet::new() };
        let newcomers = self.submitting(arrivals).filter(|arrival| is_newcomer(arrival));
        let is_far = |arrival: &&Arrival| value(arrival).is_some_and(|v| known.is_far_off(v));
        newcomers.filter(is_far).map(|arrival| arrival.submission.worker.clone()).collect()
    }
}
