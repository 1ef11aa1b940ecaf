//! Keeps a topic up to date: by its stream, or by polling where there is none.

use std::time::Duration;

use model::{timestamp::Timestamp, topic::TopicId};
use wire::inference::{leaderboard::Leaderboard, network::LatestBody};

use crate::{
    event::{BundleEvent, Effect, StreamEvent, Timer},
    screens::inference::state::{State, feed::Feed},
    state::loadable::Failure,
};

/// Epochs of the past that are asked for.
const HISTORY_EPOCHS: usize = 240;

/// The waits between two questions that one can choose, in seconds.
const EVERY_SECONDS: [u64; 9] = [1, 3, 5, 10, 15, 30, 60, 120, 300];

impl State {
    /// Asks more often, or less.
    pub(crate) fn change_interval(&mut self, n: isize) {
        let seconds = self.poll_interval().as_secs();
        let here = EVERY_SECONDS.iter().position(|each| *each >= seconds);
        let here = here.unwrap_or(EVERY_SECONDS.len() - 1);
        let next = here.saturating_add_signed(n).min(EVERY_SECONDS.len() - 1);
        self.interval = EVERY_SECONDS.get(next).copied().map(Duration::from_secs);
        if self.is_shown && !self.is_paused && self.limited_until.is_none() {
            self.effects.push(Effect::SetTimer(Timer::Topics, self.poll_interval()));
        }
    }

    /// Follows the topic in view.
    pub(crate) fn open_feed(&mut self) {
        // What a service does not have for one topic it has for none.
        let is_followed = self.is_shown && !self.is_paused && self.feed != Feed::NotServed;
        if let Some(topic) = self.selected.filter(|_| is_followed) {
            self.feed = Feed::Opening;
            self.effects.push(Effect::OpenBundles { topic });
        }
    }

    /// Follows no topic.
    pub(crate) fn close_feed(&mut self) {
        if !matches!(self.feed, Feed::Closed | Feed::NotServed) {
            self.feed = Feed::Closed;
            self.effects.push(Effect::CloseBundles);
        }
    }

    /// Handles an event on the stream of the topic in view.
    pub(crate) fn on_bundle(&mut self, topic: TopicId, news: BundleEvent, now: Timestamp) {
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
                self.on_latest(Ok(*latest), now);
                self.load_beside(topic);
            }
        }
    }

    /// The requests that accompany a bundle.
    pub(crate) fn load_beside(&mut self, topic: TopicId) {
        self.effects.push(Effect::LoadHistory { topic, limit: HISTORY_EPOCHS });
        let confidence = (!self.lacks_confidence).then_some(Effect::LoadConfidence { topic });
        let leaderboard = (!self.lacks_leaderboard).then_some(Effect::LoadLeaderboard { topic });
        self.effects.extend(confidence.into_iter().chain(leaderboard));
    }

    /// Takes the weights and intervals, or that they are not served.
    pub(crate) fn on_confidence(
        &mut self,
        result: Result<Box<LatestBody>, Failure>,
        now: Timestamp,
    ) {
        match result {
            Ok(body) => self.confidence = Some(body),
            Err(why) => self.lacks_confidence = self.note_absence(&why, now),
        }
    }

    /// Takes the leaderboard, or that it is not served.
    pub(crate) fn on_leaderboard(&mut self, result: Result<Leaderboard, Failure>, now: Timestamp) {
        match result {
            Ok(leaderboard) => self.leaderboard = Some(leaderboard),
            Err(why) => self.lacks_leaderboard = self.note_absence(&why, now),
        }
    }

    /// Records a refusal; returns whether a service that refuses like this has no such path at all.
    fn note_absence(&mut self, why: &Failure, now: Timestamp) -> bool {
        self.note_limit(why, now);
        // A topic without a bundle has nothing beside it either; then the path may be there.
        self.latest.value().is_some() && matches!(why.status, Some(404 | 405 | 501))
    }
}
