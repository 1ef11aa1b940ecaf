//! The Overview screen: the newest value of every topic, and what is pointed at.
//!
//! The rest of what it shows is known already: nodes, runs, pinned datasets, notices.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use model::{timestamp::Timestamp, topic::TopicId};

use super::{
    State as Whole,
    loadable::{Failure, Loadable},
    overlay,
    overlay::palette::Goal,
};
use crate::{
    action::Action,
    event::{Effect, Latest, Timer},
};

/// How often topics are asked for while they are in view: as often as the Inference screen asks.
const TOPICS_EVERY: Duration = Duration::from_secs(15);

/// Topics shown. More than fit on any screen are not asked for.
const TOPICS_MAX: usize = 12;

/// Runs shown.
pub const RUNS_MAX: usize = 8;

/// Values kept of each topic, for a line of them.
const VALUES_MAX: usize = 120;

/// What a topic last came to.
#[derive(Debug, Clone, Default)]
pub struct Topic {
    /// Its newest bundle.
    pub latest: Loadable<Latest>,
    /// The combined values of its first label since the screen was opened, oldest first.
    pub values: VecDeque<f64>,
}

/// What the Overview screen shows.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// Whether the screen is in view.
    pub is_shown: bool,
    /// The row pointed at, of all panes' rows.
    pub row: usize,
    /// What each topic last came to.
    pub topics: BTreeMap<TopicId, Topic>,
}

impl State {
    /// The screen comes into view, with these topics listed.
    pub fn show(&mut self, topics: &[TopicId], now: Timestamp) -> Vec<Effect> {
        self.is_shown = true;
        self.load(topics, now)
    }

    /// The screen leaves the view.
    pub fn hide(&mut self) -> Vec<Effect> {
        self.is_shown = false;
        vec![Effect::Forget(Timer::Overview)]
    }

    /// Asks for the newest bundle of each topic, and again after a while.
    pub fn load(&mut self, topics: &[TopicId], now: Timestamp) -> Vec<Effect> {
        if !self.is_shown {
            return Vec::new();
        }
        let mut effects = vec![Effect::Wake(Timer::Overview, TOPICS_EVERY)];
        for topic in topics.iter().take(TOPICS_MAX) {
            self.topics.entry(*topic).or_default().latest.begin(now);
            effects.push(Effect::LoadLatest { topic: *topic });
        }
        effects
    }

    /// A service answered about a topic.
    pub fn on_latest(&mut self, topic: TopicId, result: &Result<Latest, Failure>, now: Timestamp) {
        let Some(known) = self.topics.get_mut(&topic) else { return };
        let nonce = |latest: &Loadable<Latest>| latest.value().map(|latest| latest.bundle.nonce);
        let before = nonce(&known.latest);
        known.latest.settle(result.clone(), now);
        let newest = known.latest.value().and_then(|latest| latest.bundle.combined_value.first());
        if let Some(value) = newest.and_then(|value| value.value.parse().ok())
            && nonce(&known.latest) != before
        {
            if known.values.len() >= VALUES_MAX {
                known.values.pop_front();
            }
            known.values.push_back(value);
        }
    }

    /// Takes an action, where there are `n_rows`.
    pub fn act(&mut self, action: Action, n_rows: usize) {
        self.row = overlay::moved(action, self.row.min(n_rows.saturating_sub(1)), n_rows);
    }
}

impl Whole {
    /// What the rows of the Overview screen lead to, from the top left down, then the right.
    pub fn overview_rows(&self) -> Vec<Goal> {
        let runs = self.runs.iter().take(RUNS_MAX).map(|run| Goal::Run(run.id));
        let watched = self.data.watched().into_iter();
        let watched = watched.map(|watched| Goal::Dataset(watched.dataset));
        let topics = self.topic_ids().into_iter().take(TOPICS_MAX).map(Goal::Topic);
        runs.chain(watched).chain(topics).collect()
    }

    /// The topics that are listed.
    pub fn topic_ids(&self) -> Vec<TopicId> {
        let topics = self.inference.topics.value().map_or(&[][..], |list| &list.topics);
        topics.iter().filter_map(|topic| TopicId::new(topic.topic_id)).collect()
    }
}
