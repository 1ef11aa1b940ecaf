//! Updates of the Inference screen: responses of the service, timers, keys and clicks.

use std::time::Duration;

use model::timestamp::Timestamp;
use model::topic::{Address, TopicId};
use wire::inference::TopicList;

use crate::event::{Effect, InferenceEvent, LatestBundle, Target, Timer};
use crate::keymap::Action;
use crate::screens::inference::state::actors::{ACTOR_ORDERS, MEAN_LOSS};
use crate::screens::inference::state::{self, History, LATEST_EVERY, Pane, SCORES_AFTER, State};
use crate::screens::inference::view;
use crate::state::navigation::{ColumnOrder, Steps as _, cycled, rows_down};
use crate::state::resource::{Failure, Outcome, Resource};

/// Number of actors by which a page key moves.
const PAGE_ROWS: usize = 10;

impl State {
    /// Handles new addresses of the services.
    pub(crate) fn connect(&mut self, is_connected: bool, now: Timestamp) {
        *self = Self {
            effects: std::mem::take(&mut self.effects),
            is_connected,
            is_shown: self.is_shown,
            pane: self.pane,
            actor_order: self.actor_order,
            detail: self.detail,
            interval: self.interval,
            ..Self::default()
        };
        self.reload_list(now);
        let set = Effect::SetTimer(Timer::Topics, self.poll_interval());
        let is_on = self.is_shown && is_connected;
        self.effects.push(if is_on { set } else { Effect::ClearTimer(Timer::Topics) });
    }

    /// Loads data when the screen comes into view.
    pub(crate) fn show(&mut self, now: Timestamp) {
        if !std::mem::replace(&mut self.is_shown, true) {
            self.load(now);
        }
    }

    /// Stops polling when the screen goes out of view.
    pub(crate) fn hide(&mut self) {
        self.is_shown = false;
        self.effects.push(Effect::ClearTimer(Timer::Topics));
    }

    /// Handles a response or an event of the service.
    pub(crate) fn on(&mut self, event: InferenceEvent, now: Timestamp) {
        let selected = self.selected;
        let is_selected = |topic| Some(topic) == selected;
        self.limited_until.take_if(|until| *until <= now);
        match event {
            InferenceEvent::Topics(result) => self.on_topics(result, now),
            InferenceEvent::PastActors { topic, result: Ok(actors) } => {
                self.past_mut(topic).take_actors(actors);
            }
            InferenceEvent::History { topic, result: Ok(history) } => {
                self.past_mut(topic).take_history(history);
            }
            InferenceEvent::Latest { topic, is_resistant, result }
                if is_selected(topic)
                    && is_resistant == self.is_resistant
                    && (self.is_shown || result.is_err()) =>
            {
                self.on_latest(result, now);
            }
            // The bundle was requested by the Overview screen, without the weights and the history that
            // belong to it, or it includes outliers while the screen shows bundles without. Such a
            // bundle only adds to the history.
            InferenceEvent::Latest { topic, is_resistant: false, result: Ok(latest) } => {
                self.past_mut(topic).take_bundle(&latest.bundle, now);
            }
            InferenceEvent::Confidence { topic, result } if is_selected(topic) => match result {
                Ok(body) => self.confidence = Some(body),
                Err(why) => self.lacks_confidence = self.note_absence(&why, now),
            },
            InferenceEvent::Leaderboard { topic, result } if is_selected(topic) => match result {
                Ok(leaderboard) => self.leaderboard = Some(leaderboard),
                Err(why) => self.lacks_leaderboard = self.note_absence(&why, now),
            },
            InferenceEvent::Actor { topic, actor, result }
                if is_selected(topic) && self.actor.as_ref() == Some(&actor) =>
            {
                if let Err(why) = &result {
                    self.note_limit(why, now);
                }
                self.scores.settle(result, now);
            }
            InferenceEvent::History { result: Err(why), .. }
            | InferenceEvent::PastActors { result: Err(why), .. }
            | InferenceEvent::Settings { result: Err(why), .. } => self.note_limit(&why, now),
            // The topic of the response is no longer in view.
            _ => {}
        }
    }

    /// Handles a due [`Timer::Topics`].
    pub(crate) fn on_timer(&mut self, now: Timestamp) {
        if self.is_shown && !self.is_paused {
            self.load(now);
        }
    }

    /// Handles an action.
    pub(crate) fn act(&mut self, action: Action, now: Timestamp) {
        if let Some(n) = rows_down(action, PAGE_ROWS) {
            return self.move_by(n);
        }
        match action {
            Action::NextTopic => self.select_topic(self.topic_by(1)),
            Action::PreviousLabel => self.label = self.label_by(-1),
            Action::NextLabel => self.label = self.label_by(1),
            Action::Sort if self.pane == Pane::Topics => {
                self.topic_order.cycle(&view::topic_columns(u16::MAX).map(|it| it.title));
                self.sort_topics();
            }
            Action::Reverse if self.pane == Pane::Topics => {
                self.topic_order.is_reversed ^= true;
                self.sort_topics();
            }
            Action::Sort => self.actor_order.cycle(&ACTOR_ORDERS),
            Action::Reverse => self.actor_order.is_reversed ^= true,
            Action::Refresh => {
                self.topics.clear_error();
                self.latest.clear_error();
                self.load(now);
                if self.is_paused && self.limited_until.is_none() {
                    self.load_latest();
                }
            }
            Action::Pause => {
                self.is_paused = !self.is_paused;
                if !self.is_paused {
                    self.load(now);
                }
            }
            Action::Resistant => {
                self.is_resistant = !self.is_resistant;
                // The title must not describe the other bundle.
                self.latest = Resource::EMPTY;
                self.load_latest();
            }
            Action::LeaveOuts => self.detail = self.detail.cycled(1),
            Action::AskLess => self.change_interval(1),
            Action::AskMore => self.change_interval(-1),
            Action::NextPane => self.pane = self.pane.cycled(1),
            Action::PreviousPane => self.pane = self.pane.cycled(-1),
            _ => {}
        }
    }

    /// Clears the selection of an actor. Returns false if none was selected.
    pub(crate) fn back(&mut self) -> bool {
        self.actor.take().is_some()
    }

    /// Handles a click.
    pub(crate) fn click(&mut self, target: Target) {
        match target {
            Target::Column { pane, column } => match Pane::numbered(pane) {
                Some(Pane::Actors) if column == MEAN_LOSS || ACTOR_ORDERS.contains(&column) => {
                    self.actor_order.choose(column);
                }
                Some(Pane::Topics) => {
                    self.topic_order.choose(column);
                    self.sort_topics();
                }
                _ => {}
            },
            Target::Label(idx) => {
                self.label = self.labels().get(idx).map(|label| (*label).to_owned());
            }
            Target::Pane(pane) => self.pane = Pane::numbered(pane).unwrap_or(self.pane),
            Target::Row { pane, row } => {
                self.pane = Pane::numbered(pane).unwrap_or(self.pane);
                if self.pane == Pane::Topics {
                    let topic = self.topics.value().and_then(|list| list.topics.get(row));
                    self.select_topic(topic.and_then(|it| TopicId::new(it.topic_id)));
                } else if self.pane == Pane::Actors {
                    self.select_actor(self.actors().get(row).map(|actor| actor.worker.clone()));
                }
            }
            _ => {}
        }
    }

    fn sort_topics(&mut self) {
        let order = self.topic_order;
        let Some(list) = self.topics.value_mut() else { return };
        list.topics.sort_by_key(|topic| topic.topic_id);
        order.sort(&mut list.topics, |column, a, b| match column {
            "PREDICTS" => a.name.cmp(&b.name),
            "GROUP" => a.subgroup.cmp(&b.subgroup),
            "LEARNED" => b.n_learned.cmp(&a.n_learned),
            "EPOCH" => a.next_epoch_height.cmp(&b.next_epoch_height),
            _ => a.topic_id.cmp(&b.topic_id),
        });
    }

    /// Loads the list of topics. Also loads the latest bundle if the last attempt to load the
    /// bundle has failed, or if the list cannot be loaded. Without a service, loads nothing.
    pub(crate) fn load(&mut self, now: Timestamp) {
        if !self.is_connected {
            return;
        }
        if self.limited_until.is_some_and(|until| until > now) {
            return self.wait_for_limit(now);
        }
        self.limited_until = None;
        self.topics.begin();
        self.effects.push(Effect::LoadTopics);
        if self.topics.failure().is_some() || self.latest.failure().is_some() {
            self.load_latest();
        }
        if self.scores.is_idle() {
            self.load_actor();
        }
        self.effects.push(Effect::SetTimer(Timer::Topics, self.poll_interval()));
    }

    fn load_latest(&mut self) {
        let Some(topic) = self.selected else { return };
        self.is_resistant &= self.has_resistant();
        self.latest.begin();
        self.effects.push(Effect::LoadLatest { topic, is_resistant: self.is_resistant });
        self.load_accompanying(topic);
    }

    /// Loads the list of topics and nothing else.
    pub(crate) fn reload_list(&mut self, now: Timestamp) {
        let is_allowed = self.is_connected && self.limited_until.is_none_or(|until| until <= now);
        if is_allowed && self.topics.begin() {
            self.effects.push(Effect::LoadTopics);
        }
    }

    /// Selects a topic that was created or changed, and lists the topics again.
    pub(crate) fn changed(&mut self, topic: TopicId, now: Timestamp) {
        self.select_topic(Some(topic));
        self.reload_list(now);
    }

    fn on_topics(&mut self, result: Outcome<TopicList>, now: Timestamp) {
        if let Err(why) = &result {
            self.note_limit(why, now);
        }
        let is_listed = result.is_ok();
        self.topics.settle(result, now);
        if self.topic_order != ColumnOrder::default() {
            self.sort_topics();
        }
        if self.limited_until.is_some_and(|until| until > now) {
            return self.wait_for_limit(now);
        }
        if self.selected.is_none() || (is_listed && self.topic().is_none()) {
            let first = self.topics.value().and_then(|list| list.topics.first());
            // A service that does not list its topics is expected to have topic 1.
            let first = first.map_or(1, |topic| topic.topic_id);
            // Paths of a deleted topic are missing although the service has them.
            (self.lacks_confidence, self.lacks_leaderboard) = (false, false);
            return self.select_topic(TopicId::new(first));
        }
        let newest = self.topic().and_then(|topic| topic.last_nonce);
        let known = self.latest.value().map(|latest| latest.bundle.nonce);
        let is_idle = self.latest.is_idle();
        if is_idle || (!self.is_paused && newest.is_some() && newest != known) {
            self.load_latest();
        }
    }

    /// Sets the timer for the end of the rate limit if the screen is in view.
    fn wait_for_limit(&mut self, now: Timestamp) {
        if let Some(until) = self.limited_until.filter(|_| self.is_shown) {
            self.effects.push(Effect::SetTimer(Timer::Topics, until.since(now)));
        }
    }

    fn on_latest(&mut self, result: Outcome<LatestBundle>, now: Timestamp) {
        match (&result, self.selected) {
            (Ok(latest), Some(topic)) => {
                let is_whole = !self.is_resistant;
                let past = self.past_mut(topic);
                if is_whole {
                    past.take_bundle(&latest.bundle, now);
                }
                past.take_values(&latest.bundle);
            }
            (Err(why), _) => self.note_limit(why, now),
            (Ok(_), None) => {}
        }
        self.latest.settle(result, now);
        self.wait_for_limit(now);
    }

    /// Records the service's rate limit.
    pub(crate) fn note_limit(&mut self, why: &Failure, now: Timestamp) {
        if let Some(wait) = why.limit(LATEST_EVERY) {
            self.limited_until = Some(now + wait);
        }
    }

    fn past_mut(&mut self, topic: TopicId) -> &mut History {
        // The past of at most 16 topics is stored.
        if self.pasts.len() >= 16 && !self.pasts.contains_key(&topic) {
            let other = self.pasts.keys().copied().find(|id| Some(*id) != self.selected);
            self.pasts.retain(|id, _| Some(*id) != other);
        }
        self.pasts.entry(topic).or_default()
    }

    /// Selects a topic and loads its bundles.
    pub(crate) fn select_topic(&mut self, topic: Option<TopicId>) {
        if topic.is_none() || topic == self.selected {
            return;
        }
        self.selected = topic;
        self.latest = Resource::EMPTY;
        self.label = None;
        self.actor = None;
        self.confidence = None;
        self.leaderboard = None;
        self.load_latest();
        let past = topic.map(|topic| Effect::LoadPastActors { topic, limit: state::VALUES_MAX });
        self.effects.extend(past);
    }

    /// Returns the topic `n` places after the current topic. The last topic is followed by the first. If
    /// topics are not listed, returns the next id.
    fn topic_by(&self, n: isize) -> Option<TopicId> {
        let Some(list) = self.topics.value().filter(|list| !list.topics.is_empty()) else {
            let is_known = self.latest.value().is_some();
            let next = self.selected.filter(|_| is_known).map_or(1, |topic| topic.get() + 1);
            return TopicId::new(next);
        };
        let ids: Vec<_> = list.topics.iter().map(|topic| TopicId::new(topic.topic_id)).collect();
        *ids.get(cycled(ids.iter().position(|id| *id == self.selected), n, ids.len()))?
    }

    fn label_by(&self, n: isize) -> Option<String> {
        let labels = self.labels();
        let here = labels.iter().position(|label| *label == self.label());
        labels.get(cycled(here, n, labels.len())).map(|label| (*label).to_owned())
    }

    /// Moves the selection by `n` rows, of topics if these have focus, otherwise of actors.
    pub(crate) fn move_by(&mut self, n: isize) {
        if self.pane == Pane::Topics {
            return self.select_topic(self.topic_by(n.signum()));
        }
        let actors = self.actors();
        let here = actors.iter().position(|actor| Some(actor.worker) == self.actor.as_ref());
        let last = actors.len().saturating_sub(1);
        let idx = here.map_or(0, |here| here.saturating_add_signed(n).min(last));
        self.select_actor(actors.get(idx).map(|actor| actor.worker.clone()));
    }

    /// Selects an actor. Its scores are loaded if it stays selected for [`SCORES_AFTER`].
    fn select_actor(&mut self, actor: Option<Address>) {
        if self.actor != actor {
            self.actor = actor;
            self.scores = Resource::EMPTY;
            self.effects.push(Effect::SetTimer(Timer::Actor, SCORES_AFTER));
        }
    }

    /// Loads the scores of the selected actor, if any.
    pub(crate) fn load_actor(&mut self) {
        let is_limited = self.limited_until.is_some() || self.lacks_leaderboard;
        if let (Some(topic), Some(actor)) = (self.selected, self.actor.clone())
            && self.is_shown
            && !is_limited
        {
            self.scores.begin();
            self.effects.push(Effect::LoadActor { topic, actor });
        }
    }

    /// Changes the poll interval by `n` steps.
    fn change_interval(&mut self, n: isize) {
        let seconds = self.poll_interval().as_secs();
        let last = EVERY_SECONDS.len() - 1;
        let here = EVERY_SECONDS.iter().position(|each| *each >= seconds).unwrap_or(last);
        let next = EVERY_SECONDS[here.saturating_add_signed(n).min(last)];
        self.interval = Some(Duration::from_secs(next));
        if self.is_shown && !self.is_paused && self.limited_until.is_none() {
            self.effects.push(Effect::SetTimer(Timer::Topics, self.poll_interval()));
        }
    }

    /// Requests further data for a bundle: the history, and the confidence intervals and the
    /// leaderboard unless the service lacks them.
    pub(crate) fn load_accompanying(&mut self, topic: TopicId) {
        self.effects.push(Effect::LoadHistory { topic, limit: 240 });
        let confidence = (!self.lacks_confidence).then_some(Effect::LoadConfidence { topic });
        let leaderboard = (!self.lacks_leaderboard).then_some(Effect::LoadLeaderboard { topic });
        self.effects.extend(confidence.into_iter().chain(leaderboard));
        self.load_actor();
    }

    /// Records the rate limit of a failure. Returns true if the service does not have the
    /// requested API path.
    fn note_absence(&mut self, why: &Failure, now: Timestamp) -> bool {
        self.note_limit(why, now);
        // Status 404 can also mean that the topic has no bundle yet. If a bundle is known, the
        // path is missing.
        self.latest.value().is_some() && matches!(why.status, Some(404 | 405 | 501))
    }
}

/// Poll intervals that can be chosen, in seconds.
const EVERY_SECONDS: [u64; 9] = [1, 3, 5, 10, 15, 30, 60, 120, 300];

#[cfg(test)]
mod tests;
