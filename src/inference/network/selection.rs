//! Which submissions of an epoch are combined: those of its active actors.
//!
//! The rule is [`crate::math::sortition`]'s. Here is what it is asked with, and what follows: submissions
//! of actors that rest are withdrawn, and their scores move.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use model::{
    timestamp::Timestamp,
    topic::{Address, BlockHeight},
};

use crate::{
    math::{
        outlier::Baseline,
        regret::ByActor,
        sortition::{Candidate, Places, Record, choose_active, initial_score, resting_score},
    },
    network::{
        learned::{Experience, Learned},
        submission::Submission,
        topic::{Topic, TopicKind},
    },
};

/// A submission as it was received.
#[derive(Debug, Clone, PartialEq)]
pub struct Arrival {
    /// What was submitted.
    pub submission: Submission,
    /// When the service received it.
    pub received_at: Timestamp,
    /// Whether the operator or a worker on the topic's whitelist submitted it.
    pub is_trusted: bool,
}

/// The submissions that are combined, and those that are not.
#[derive(Debug, Clone, PartialEq)]
pub struct Selection {
    /// What active actors submitted, without the parts in which they rest.
    pub active: Vec<Submission>,
    /// The labels of the active ones, in the order of their ids.
    pub labels: Vec<String>,
    /// What is withdrawn.
    pub withdrawn: Withdrawn,
}

/// What an epoch does not keep of its submissions.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Withdrawn {
    /// Submissions of actors that rest in a role, as they remain: empty where they rest in both.
    pub submissions: Vec<Submission>,
    /// Labels that no active actor submitted.
    pub labels: Vec<String>,
}

/// One role's side of an epoch: its places, and what is known of its actors.
struct Role<'a> {
    places: Places,
    scores: &'a ByActor<f64>,
    experience: &'a BTreeMap<Address, Experience>,
    takes_part: fn(&Submission) -> bool,
}

/// An actor that rests, and the score it had.
type RestingScores = Vec<(Address, f64)>;

/// Selects what is combined of the `arrivals` of the epoch `nonce`, whose labels are `labels` in the
/// order of their ids. The scores in `learned` of actors that rest move.
pub fn select(
    topic: &Topic,
    nonce: BlockHeight,
    arrivals: Vec<Arrival>,
    labels: &[String],
    learned: &mut Arc<Learned>,
) -> Selection {
    let (active_max, quantiles) = (topic.active_max, topic.active_quantiles);
    let inferers = Role {
        places: places(active_max.inferers, quantiles.inferer),
        scores: &learned.scores.inferer,
        experience: &learned.inferers,
        takes_part: |submission| !submission.inference.is_empty(),
    };
    let forecasters = Role {
        places: places(active_max.forecasters, quantiles.forecaster),
        scores: &learned.scores.forecaster,
        experience: &learned.forecasters,
        takes_part: |submission| !submission.forecast.is_empty(),
    };
    let far = inferers.far_newcomers(topic, &arrivals);
    let inferring = choose_active(inferers.candidates(&arrivals, &far), inferers.places);
    let forecasting = forecasters.candidates(&arrivals, &BTreeSet::new());
    let forecasting = choose_active(forecasting, forecasters.places);
    let resting_inferers = inferers.resting(&arrivals, &inferring);
    let resting_forecasters = forecasters.resting(&arrivals, &forecasting);
    let alpha = topic.judging.merit_sortition_alpha;
    let targets = learned.resting_targets;
    if let Some(target) = targets.inferer.filter(|_| !resting_inferers.is_empty()) {
        let learned = Arc::make_mut(learned);
        rest(&mut learned.inferers, resting_inferers, nonce, |name, score| {
            learned.scores.inferer.insert(name, resting_score(score, target, alpha));
        });
    }
    if let Some(target) = targets.forecaster.filter(|_| !resting_forecasters.is_empty()) {
        let learned = Arc::make_mut(learned);
        rest(&mut learned.forecasters, resting_forecasters, nonce, |name, score| {
            learned.scores.forecaster.insert(name, resting_score(score, target, alpha));
        });
    }
    split_active(topic, labels, arrivals, |submission| Submission {
        inference: if inferring.contains(&submission.worker) {
            submission.inference.clone()
        } else {
            Vec::new()
        },
        forecast: if forecasting.contains(&submission.worker) {
            Arc::clone(&submission.forecast)
        } else {
            Arc::default()
        },
        ..submission.clone()
    })
}

/// Moves the scores of actors that rest, and remembers newcomers among them.
fn rest(
    experience: &mut BTreeMap<Address, Experience>,
    resting: RestingScores,
    nonce: BlockHeight,
    mut put_score: impl FnMut(Address, f64),
) {
    for (name, score) in resting {
        let newcomer = Experience { n_epochs: 0, last_nonce: nonce };
        let seen = experience.entry(name.clone()).or_insert(newcomer);
        // Of those that were scored it is the epoch of the last score.
        if seen.n_epochs == 0 {
            seen.last_nonce = nonce;
        }
        put_score(name, score);
    }
}

/// The parts of `arrivals` that `active_part` leaves, and what goes.
fn split_active(
    topic: &Topic,
    labels: &[String],
    arrivals: Vec<Arrival>,
    active_part: impl Fn(&Submission) -> Submission,
) -> Selection {
    let mut active = Vec::new();
    let mut withdrawn = Withdrawn::default();
    for Arrival { submission, .. } in arrivals {
        let part = active_part(&submission);
        if part != submission {
            withdrawn.submissions.push(part.clone());
        }
        if !part.inference.is_empty() || !part.forecast.is_empty() {
            active.push(part);
        }
    }
    if !topic.takes_any_label() {
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

impl Role<'_> {
    fn submitting<'a>(&'a self, arrivals: &'a [Arrival]) -> impl Iterator<Item = &'a Arrival> {
        arrivals.iter().filter(|arrival| (self.takes_part)(&arrival.submission))
    }

    fn record(&self, arrival: &Arrival) -> Record {
        let seen = self.experience.get(&arrival.submission.worker);
        match seen {
            _ if arrival.is_trusted => Record::Trusted,
            Some(seen) if seen.n_epochs > 0 => Record::Scored,
            _ => Record::Newcomer,
        }
    }

    /// What actors without a score start from.
    fn initial_score(&self) -> f64 {
        let is_scored = |name: &Address| self.experience.get(name).is_some_and(|s| s.n_epochs > 0);
        let scored = self.scores.iter().filter(|(name, _)| is_scored(name));
        initial_score(&scored.map(|(_, score)| *score).collect::<Vec<_>>())
    }

    fn candidates(&self, arrivals: &[Arrival], far: &BTreeSet<Address>) -> Vec<Candidate> {
        let initial = self.initial_score();
        let candidate = |arrival: &Arrival| {
            let worker = arrival.submission.worker.clone();
            Candidate {
                score: self.scores.get(&worker).copied().unwrap_or(initial),
                record: self.record(arrival),
                arrival: arrival.received_at.micros(),
                is_far: far.contains(&worker),
                worker,
            }
        };
        self.submitting(arrivals).map(candidate).collect()
    }

    /// Who submitted in this role and is not `active`.
    fn resting(&self, arrivals: &[Arrival], active: &BTreeSet<Address>) -> RestingScores {
        let initial = self.initial_score();
        let names = self.submitting(arrivals).map(|arrival| &arrival.submission.worker);
        let names = names.filter(|name| !active.contains(*name));
        names
            .map(|name| (name.clone(), self.scores.get(name).copied().unwrap_or(initial)))
            .collect()
    }

    /// The newcomers whose value is far from the values of all others; none of a topic with several
    /// labels.
    fn far_newcomers(&self, topic: &Topic, arrivals: &[Arrival]) -> BTreeSet<Address> {
        if !topic.is_single() || topic.kind != TopicKind::Regression {
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

fn places(n_max: u32, newcomer_share: f64) -> Places {
    Places { n_max: usize::try_from(n_max).unwrap_or(usize::MAX), newcomer_share }
}
