//! The state of the Inference screen: the topics, and the latest bundle and the history of one
//! topic.
//!
//! The list of topics is polled often. It contains the chain's clock and the nonce of each topic's
//! latest bundle. The bundle and the history are loaded when the nonce changes, or periodically if
//! the service lists no topics. During a rate limit, nothing is requested and the last values
//! remain.

pub(crate) mod actors;

use std::collections::BTreeMap;
use std::time::Duration;

use model::timestamp::Timestamp;
use model::topic::{Address, BlockHeight, SINGLE_LABEL, TopicId, decimal};
use strum::VariantArray;
use wire::inference::network::{EpochActorBody, LatestBody, Leaderboard, WeightsBody};
use wire::inference::{Bundle, HistoryEpoch, LabeledValue, TopicHistory, TopicList, TopicSummary};

use crate::event::{Effect, LatestBundle};
use crate::screens::inference::state::actors::Detail;
use crate::state::navigation::ColumnOrder;
use crate::state::resource::Resource;

/// Poll interval of the list of topics while it is in view. The list is small and contains the
/// chain's clock.
pub(crate) const TOPICS_EVERY: Duration = Duration::from_secs(3);

/// Poll interval of the latest bundle if the service does not list topics.
pub(crate) const LATEST_EVERY: Duration = Duration::from_secs(15);

/// Time for which an actor is selected before its scores are loaded, so that a held key does not load
/// the scores of each actor on its way.
pub(crate) const SCORES_AFTER: Duration = Duration::from_millis(300);

/// The panes, in the order in which `Tab` selects them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Pane {
    Topics,
    #[default]
    Actors,
    /// Distribution of the values.
    Distribution,
    Past,
    /// Cumulative losses of the network's values over time.
    Losses,
    /// Scores of the selected actor.
    Scores,
}

/// The state of the Inference screen.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub(crate) struct State {
    /// Effects that the current update requests.
    pub(crate) effects: Vec<Effect>,
    pub(crate) topics: Resource<TopicList>,
    /// True if the screen is in view.
    pub(crate) is_shown: bool,
    /// True if the addresses of the services are known.
    pub(crate) is_connected: bool,
    /// The focused pane.
    pub(crate) pane: Pane,
    /// Id of the selected topic.
    pub(crate) selected: Option<TopicId>,
    /// Latest bundle of the selected topic.
    pub(crate) latest: Resource<LatestBundle>,
    /// Past epochs of each topic.
    pub(crate) pasts: BTreeMap<TopicId, History>,
    /// Label that the user chose. `None` for the first label.
    pub(crate) label: Option<String>,
    /// Sort order of the actors.
    pub(crate) actor_order: ColumnOrder,
    /// Sort order of the topics.
    pub(crate) topic_order: ColumnOrder,
    /// The chosen actor.
    pub(crate) actor: Option<Address>,
    /// Scores of the chosen actor: a leaderboard without other actors.
    pub(crate) scores: Resource<Leaderboard>,
    /// True if updates are paused.
    pub(crate) is_paused: bool,
    /// Numbers shown next to each actor's value.
    pub(crate) detail: Detail,
    /// True if bundles are requested without outliers.
    pub(crate) is_resistant: bool,
    /// Weights and confidence intervals of the latest bundle. `None` until loaded.
    pub(crate) confidence: Option<Box<LatestBody>>,
    /// True if the service has no weights and confidence intervals.
    pub(crate) lacks_confidence: bool,
    /// Leaderboard of the selected topic. `None` until loaded.
    pub(crate) leaderboard: Option<Leaderboard>,
    /// True if the service has no leaderboard.
    pub(crate) lacks_leaderboard: bool,
    /// Poll interval that the user chose. `None` for the default.
    pub(crate) interval: Option<Duration>,
    /// End of the wait that the service's rate limit demands.
    pub(crate) limited_until: Option<Timestamp>,
}

impl State {
    /// Returns the text that the copy action copies: the address of the selected actor, or the
    /// combined value with all digits if no actor is selected.
    pub(crate) fn selection(&self) -> Option<String> {
        if let Some(actor) = &self.actor {
            return Some(actor.to_string());
        }
        let mut values = self.latest.value()?.bundle.combined_value.iter();
        let value = values.find(|value| value.label_name == self.label())?;
        Some(decimal(value.value))
    }

    /// Returns true if a spinner is visible.
    pub(crate) fn is_animated(&self) -> bool {
        let is_loading = self.topics.is_loading() || self.latest.is_loading();
        self.is_shown && (is_loading || (self.actor.is_some() && self.scores.is_loading()))
    }

    /// Returns the entry of the selected topic in the list of topics.
    pub(crate) fn topic(&self) -> Option<&TopicSummary> {
        let selected = self.selected?.get();
        self.topics.value()?.topics.iter().find(|topic| topic.topic_id == selected)
    }

    /// Returns the selected topic if it has no bundle, since no epoch with submissions has closed yet.
    pub(crate) fn topic_without_bundle(&self) -> Option<&TopicSummary> {
        let is_missing = self.latest.failure().is_some_and(|why| why.status == Some(404));
        self.topic().filter(|topic| is_missing && topic.last_nonce.is_none())
    }

    /// Returns the past epochs of the selected topic.
    pub(crate) fn past(&self) -> Option<&History> {
        self.pasts.get(&self.selected?)
    }

    /// Returns the labels of the selected topic, in the order of their ids.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let values = self.latest.value().map(|latest| &latest.bundle.combined_value);
        if let Some(values) = values.filter(|values| !values.is_empty()) {
            return values.iter().map(|value| value.label_name.as_str()).collect();
        }
        self.topic().into_iter().flat_map(|topic| &topic.labels).map(String::as_str).collect()
    }

    /// Returns true if the service can have values of the topic without outliers.
    pub(crate) fn has_resistant(&self) -> bool {
        self.topic().is_none_or(|topic| {
            topic.labels.len() == 1 && topic.topic_type == "TOPIC_TYPE_REGRESSION"
        })
    }

    /// Returns true if the losses of actors are means of base-10 logarithms.
    pub(crate) fn has_log_losses(&self) -> bool {
        self.leaderboard.as_ref().is_some_and(|board| board.is_logarithmic)
    }

    /// Returns the label for which values are shown.
    pub(crate) fn label(&self) -> &str {
        let labels = self.labels();
        let chosen = self.label.as_deref().filter(|label| labels.contains(label));
        chosen.or_else(|| labels.first().copied()).unwrap_or(SINGLE_LABEL)
    }

    /// Returns the current height of the chain: the height in the last response, plus the blocks
    /// that have probably followed.
    pub(crate) fn height(&self, now: Timestamp) -> Option<BlockHeight> {
        let list = self.topics.value()?;
        let age = self.topics.age(now)?.as_millis();
        let n_blocks = age.checked_div(u128::from(list.block_time_ms)).unwrap_or(0);
        Some(list.block_height.saturating_add(u64::try_from(n_blocks).unwrap_or(0)))
    }

    /// Returns the weights and confidence intervals, if they belong to `bundle`. A bundle without
    /// outliers has others.
    pub(crate) fn confidence_of(&self, bundle: &Bundle) -> Option<&LatestBody> {
        let known = self.confidence.as_deref()?;
        let is_other = self.is_resistant && known.has_outliers;
        (known.network_inferences.nonce == bundle.nonce && !is_other).then_some(known)
    }

    /// Returns the poll interval.
    pub(crate) fn poll_interval(&self) -> Duration {
        let usual = if self.topics.failure().is_none() { TOPICS_EVERY } else { LATEST_EVERY };
        self.interval.unwrap_or(usual)
    }
}

/// Returns the weight of `worker` in the combined value, from 0 to 1.
pub(crate) fn weight_of(body: &LatestBody, worker: &Address) -> Option<f64> {
    let WeightsBody { inferers, forecasters } = &body.weights;
    let share = forecasters.get(worker.as_str()).or_else(|| inferers.get(worker.as_str()));
    number(share?)
}

/// Returns the coverage in percent, the lower and the upper bound of the widest interval of
/// `label`.
pub(crate) fn widest_interval(body: &LatestBody, label: &str) -> Option<(f64, f64, f64)> {
    let interval = body.confidence_intervals.iter().find(|one| one.label_name == label)?;
    let ends = |texts: &[String]| match texts {
        [first, .., last] => Some((number(first)?, number(last)?)),
        _ => None,
    };
    let ((from, to), (low, high)) = (ends(&interval.percentiles)?, ends(&interval.values)?);
    Some((to - from, low, high))
}

/// Number of bundles of which the values of actors are stored: the columns of a narrow sparkline.
pub(crate) const VALUES_MAX: usize = 24;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Epoch {
    /// Start of the epoch. If unknown, arrival of its bundle.
    pub(crate) time: Timestamp,
    /// Combined value by label.
    pub(crate) combined: BTreeMap<String, f64>,
    /// Naive value by label.
    pub(crate) naive: BTreeMap<String, f64>,
    /// Ground truth by label. Empty until it is known.
    pub(crate) truth: BTreeMap<String, f64>,
}

/// Past epochs of a topic, by nonce.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct History {
    epochs: BTreeMap<BlockHeight, Epoch>,
    /// Values in the latest bundles: by nonce, actor and label.
    values: BTreeMap<BlockHeight, BTreeMap<Address, BTreeMap<String, f64>>>,
}

impl History {
    /// Returns the epochs, oldest first.
    pub(crate) fn epochs(&self) -> impl DoubleEndedIterator<Item = &Epoch> {
        self.epochs.values()
    }

    /// Returns the epochs, oldest first. `None` stands for a gap between two epochs.
    pub(crate) fn epochs_with_gaps(&self) -> Vec<Option<&Epoch>> {
        let epochs = self.epochs.iter().map(|(nonce, epoch)| (*nonce, epoch));
        self.with_gaps(epochs).collect()
    }

    /// Returns the combined values of `label`, oldest first. `None` stands for a missing value or
    /// a gap between two epochs.
    pub(crate) fn combined_with_gaps(&self, label: &str) -> Vec<Option<f64>> {
        let epochs = self.epochs_with_gaps().into_iter();
        epochs.map(|epoch| epoch?.combined.get(label).copied()).collect()
    }

    /// Returns the number of epochs.
    pub(crate) fn len(&self) -> usize {
        self.epochs.len()
    }

    /// Returns the values of `worker` for `label` in the latest bundles, oldest first. `None`
    /// stands for a missing value.
    pub(crate) fn values_of(&self, worker: &Address, label: &str) -> Vec<Option<f64>> {
        let bundles = self.values.values();
        bundles.map(|actors| actors.get(worker)?.get(label).copied()).collect()
    }

    /// Returns the values of `worker` for `label` in the latest bundles with the times of their
    /// epochs, oldest first. NaN stands for a missing value or a gap between two epochs.
    pub(crate) fn timeline_of(&self, worker: &Address, label: &str) -> Vec<(Timestamp, f64)> {
        let values = self.values.iter().filter_map(|(nonce, actors)| {
            let value = actors.get(worker).and_then(|values| values.get(label)).copied();
            Some((*nonce, (self.epochs.get(nonce)?.time, value.unwrap_or(f64::NAN))))
        });
        let mut timeline: Vec<(Timestamp, f64)> = Vec::new();
        for value in self.with_gaps(values) {
            let gap = timeline.last().map(|(time, _)| (*time, f64::NAN));
            timeline.extend(value.or(gap));
        }
        timeline
    }

    /// Records the values of the actors in a bundle.
    pub(crate) fn take_values(&mut self, bundle: &Bundle) {
        let actors = bundle.inferer_values.iter().chain(&bundle.forecaster_values);
        let actors = actors.map(|actor| (actor.worker.clone(), values(&actor.values)));
        self.values.insert(bundle.nonce, actors.collect());
        self.trim();
    }

    /// Records the values of the actors in past epochs.
    pub(crate) fn take_actors(&mut self, actors: Vec<EpochActorBody>) {
        for EpochActorBody { nonce, worker, label, value, .. } in actors {
            if let (Ok(worker), Some(value)) = (worker.parse(), value) {
                let known = self.values.entry(nonce).or_default().entry(worker).or_default();
                known.insert(label, value);
            }
        }
        self.trim();
    }

    /// Records the epochs that the service returned. Returned epochs replace epochs recorded earlier.
    pub(crate) fn take_history(&mut self, history: TopicHistory) {
        for epoch in history.epochs {
            let HistoryEpoch { nonce, opened_at, combined_value, naive_value, truth, .. } = epoch;
            let Ok(time) = opened_at.parse() else { continue };
            let (combined, naive) = (values(&combined_value), values(&naive_value));
            self.epochs.insert(nonce, Epoch { time, combined, naive, truth: values(&truth) });
        }
        self.trim();
    }

    /// Records a bundle that arrived at `now`, unless its epoch is already recorded.
    pub(crate) fn take_bundle(&mut self, bundle: &Bundle, now: Timestamp) {
        self.epochs.entry(bundle.nonce).or_insert_with(|| Epoch {
            time: now,
            combined: values(&bundle.combined_value),
            naive: values(&bundle.naive_value),
            truth: BTreeMap::new(),
        });
        self.trim();
    }

    /// Returns `values` by ascending nonce. `None` stands for a gap between two nonces.
    fn with_gaps<T>(
        &self,
        values: impl Iterator<Item = (BlockHeight, T)>,
    ) -> impl Iterator<Item = Option<T>> {
        let step = step_max(self.epochs.keys().copied());
        let mut before = None;
        values.flat_map(move |(nonce, value)| {
            let before: Option<BlockHeight> = before.replace(nonce);
            let is_gap = before.is_some_and(|before| nonce.saturating_sub(before) > step);
            is_gap.then_some(None).into_iter().chain([Some(value)])
        })
    }

    fn trim(&mut self) {
        // A chart has fewer columns of dots.
        while self.epochs.len() > 600 {
            self.epochs.pop_first();
        }
        while self.values.len() > VALUES_MAX {
            self.values.pop_first();
        }
    }
}

/// Returns the maximum number of blocks between consecutive epochs. If there are more, epochs
/// between them are missing. The maximum is 1.5 times the usual number, since an epoch can open a
/// block early or late. With fewer than two nonces, it is unlimited.
fn step_max(nonces: impl Iterator<Item = BlockHeight> + Clone) -> BlockHeight {
    let pairs = nonces.clone().zip(nonces.skip(1));
    let mut steps: Vec<BlockHeight> = pairs.map(|(one, next)| next.saturating_sub(one)).collect();
    steps.sort_unstable();
    // Of two steps, the shorter step is the usual step, so the longer step counts as a gap.
    let usual = steps.get(steps.len().saturating_sub(1) / 2);
    usual.map_or(BlockHeight::MAX, |usual| usual.saturating_add(usual / 2))
}

/// Parses a finite decimal number.
pub(crate) fn number(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}

/// Returns the number for `label` among `values`.
pub(crate) fn label_value(values: &[LabeledValue], label: &str) -> Option<f64> {
    let found = values.iter().find(|value| value.label_name == label)?;
    Some(found.value).filter(|value| value.is_finite())
}

fn values(values: &[LabeledValue]) -> BTreeMap<String, f64> {
    let finite = values.iter().filter(|value| value.value.is_finite());
    finite.map(|value| (value.label_name.clone(), value.value)).collect()
}

#[cfg(test)]
mod confidence_tests {
    use wire::inference::Bundle;
    use wire::inference::network::IntervalBody;

    use super::*;

    #[test]
    fn weights_that_are_not_numbers_are_omitted() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let weights = [("allo1a", "0.75"), ("allo1b", "NaN")];
        let weights = weights.map(|(name, share)| (name.to_owned(), share.to_owned()));
        let body = LatestBody {
            network_inferences: Bundle {
                topic_id: TopicId::FIRST,
                nonce: 12,
                combined_value: Vec::new(),
                inferer_values: Vec::new(),
                forecaster_values: Vec::new(),
                naive_value: Vec::new(),
                one_out_inferer_values: Vec::new(),
                one_out_forecaster_values: Vec::new(),
                one_in_forecaster_values: Vec::new(),
                one_out_inferer_forecaster_values: Vec::new(),
            },
            weights: WeightsBody { inferers: weights.into(), ..WeightsBody::default() },
            confidence_intervals: vec![IntervalBody {
                label_name: "y".to_owned(),
                percentiles: texts(&["2.5", "50", "97.5"]),
                values: texts(&["9", "10", "12"]),
            }],
            has_outliers: true,
            closed_at: String::new(),
        };
        let weights = ["allo1a", "allo1b"].map(|worker| weight_of(&body, &worker.parse().unwrap()));
        assert_eq!(weights, [Some(0.75), None]);
        assert_eq!(widest_interval(&body, "y"), Some((95.0, 9.0, 12.0)));
        assert_eq!(widest_interval(&body, "z"), None);
        let bundle = body.network_inferences.clone();
        let mut state = State { confidence: Some(Box::new(body)), ..State::default() };
        assert!(state.confidence_of(&bundle).is_some());
        state.is_resistant = true;
        assert_eq!(state.confidence_of(&bundle), None, "the bundle without outliers has others");
    }
}

#[cfg(test)]
mod past_tests {
    use super::*;

    #[test]
    fn missing_epoch_leaves_a_gap_in_the_chart_and_a_late_epoch_does_not() {
        let epochs = BTreeMap::from([1, 13, 26, 37, 73, 85].map(|nonce| (nonce, Epoch::default())));
        let seen = History { epochs, ..History::default() };
        let is_gap: Vec<bool> = seen.epochs_with_gaps().iter().map(Option::is_none).collect();
        assert_eq!(is_gap, [false, false, false, false, true, false, false]);
    }
}
