//! Keeps a topic up to date: by its stream, or by polling where there is none.

use std::time::Duration;

use model::{timestamp::Timestamp, topic::TopicId};
use wire::inference::{leaderboard::Leaderboard, network::LatestBody};

use crate::{
    event::{BundleEvent, Effect, StreamEvent, Timer},
    screens::inference::state::{State, confidence::Confidence, feed::Feed},
    state::loadable::Failure,
};

/// Epochs of the past that are asked for.
const HISTORY_EPOCHS: usize = 240;

/// The waits between two questions that one can choose, in seconds.
const EVERY_SECONDS: [u64; 9] = [1, 3, 5, 10, 15, 30, 60, 120, 300];

impl State {
    /// Asks more often, or less.
    pub(crate) fn change_interval(&mut self, n: isize) -> Vec<Effect> {
        let seconds = self.poll_interval().as_secs();
        let here = EVERY_SECONDS.iter().position(|each| *each >= seconds);
        let here = here.unwrap_or(EVERY_SECONDS.len() - 1);
        let next = here.saturating_add_signed(n).min(EVERY_SECONDS.len() - 1);
        self.interval = EVERY_SECONDS.get(next).copied().map(Duration::from_secs);
        if self.is_shown && !self.is_paused && self.limited_until.is_none() {
            return vec![Effect::SetTimer(Timer::Topics, self.poll_interval())];
        }
        Vec::new()
    }

    /// Follows the topic in view.
    pub(crate) fn open_feed(&mut self) -> Option<Effect> {
        let topic = self.selected.filter(|_| self.is_shown && !self.is_paused)?;
        // What a service does not have for one topic it has for none.
        if self.feed == Feed::NotServed {
            return None;
        }
        self.feed = Feed::Opening;
        Some(Effect::OpenBundles { topic })
    }

    /// Follows no topic.
    pub(crate) fn close_feed(&mut self) -> Option<Effect> {
        if matches!(self.feed, Feed::Closed | Feed::NotServed) {
            return None;
        }
        self.feed = Feed::Closed;
        Some(Effect::CloseBundles)
    }

    /// Handles an event on the stream of the topic in view.
    pub(crate) fn on_bundle(
        &mut self,
        topic: TopicId,
        news: BundleEvent,
        now: Timestamp,
    ) -> Vec<Effect> {
        match news {
            StreamEvent::Connected => self.feed = Feed::Up,
            StreamEvent::NotServed => self.feed = Feed::NotServed,
            StreamEvent::Reset | StreamEvent::Heartbeat => {}
            StreamEvent::Lost { .. } => self.feed = Feed::Lost,
            StreamEvent::Item(latest) => {
                self.feed = Feed::Up;
                if self.is_resistant {
                    return self.load_latest(now);
                }
                let mut effects = self.on_latest(Ok(*latest), now);
                effects.extend(self.load_beside(topic));
                return effects;
            }
        }
        Vec::new()
    }

    /// The requests that accompany a bundle.
    pub(crate) fn load_beside(&self, topic: TopicId) -> Vec<Effect> {
        let history = Effect::LoadHistory { topic, limit: HISTORY_EPOCHS };
        let confidence = (!self.lacks_confidence).then_some(Effect::LoadConfidence { topic });
        let leaderboard = (!self.lacks_leaderboard).then_some(Effect::LoadLeaderboard { topic });
        [history].into_iter().chain(confidence).chain(leaderboard).collect()
    }

    /// Toggles the bundles without outliers.
    pub(crate) fn toggle_resistant(&mut self, now: Timestamp) -> Vec<Effect> {
        self.is_resistant = !self.is_resistant;
        self.load_latest(now)
    }

    /// Takes the weights and intervals, or that they are not served.
    pub(crate) fn on_confidence(
        &mut self,
        result: Result<Box<LatestBody>, Failure>,
        now: Timestamp,
    ) {
        match result {
            Ok(body) => self.confidence = Some(Confidence::from_body(*body)),
            // A topic without a bundle has none of this either; then the path may be there.
            Err(why) => {
                self.lacks_confidence = self.latest.value().is_some() && is_absent(&why);
                self.note_limit(&why, now);
            }
        }
    }

    /// Takes the leaderboard, or that it is not served.
    pub(crate) fn on_leaderboard(&mut self, result: Result<Leaderboard, Failure>, now: Timestamp) {
        match result {
            Ok(leaderboard) => self.leaderboard = Some(leaderboard),
            Err(why) => {
                self.lacks_leaderboard = self.latest.value().is_some() && is_absent(&why);
                self.note_limit(&why, now);
            }
        }
    }
}

/// Whether a service that refuses like this may have no such path at all.
fn is_absent(why: &Failure) -> bool {
    matches!(why.status, Some(404 | 405 | 501))
}
