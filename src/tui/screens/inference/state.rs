//! The Inference screen: the topics, and the newest bundle and the past of one.
//!
//! Topics carry the chain's clock and the nonce of each newest bundle. They are polled often; the
//! bundle and the past only when their nonce has changed, or where a service lists no topics, by
//! the clock of the wall. A service that asks to wait is left alone for as long as it asks, and the
//! last good values stay.

pub(crate) mod actors;
pub(crate) mod confidence;
pub(crate) mod feed;
pub(crate) mod past;

use std::{collections::BTreeMap, time::Duration};

use model::{
    bundle::decimal,
    timestamp::Timestamp,
    topic::{Address, BlockHeight, SINGLE_LABEL, TopicId},
};
use strum::VariantArray;
use wire::inference::{TopicList, TopicSummary, leaderboard::Leaderboard, network::LatestBody};

pub(crate) use self::feed::Feed;
use self::{
    actors::{Detail, Sort},
    past::History,
};
use crate::{
    event::{Effect, LatestBundle},
    state::{loadable::Loadable, navigation::ColumnOrder},
};

/// How often topics are read while in view. They are small, and carry the clock.
pub(crate) const TOPICS_EVERY: Duration = Duration::from_secs(3);

/// How often the newest bundle is read where no list of topics tells that there is a new one.
pub(crate) const LATEST_EVERY: Duration = Duration::from_secs(15);

/// The panes, in the order of `Tab`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, VariantArray)]
pub(crate) enum Pane {
    Topics,
    #[default]
    Actors,
    /// The values' distribution.
    Distribution,
    Past,
    /// The losses of the network's values.
    Losses,
}

impl Pane {
    /// Its column and row in the grid of the screen, from the upper left.
    pub(crate) const fn cell(self) -> (u8, u8) {
        match self {
            Self::Distribution => (0, 0),
            Self::Actors => (0, 1),
            Self::Past => (1, 1),
            Self::Losses => (1, 2),
            Self::Topics => (1, 3),
        }
    }
}

/// The state of the Inference screen.
#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "switches that do not depend on one another")]
pub(crate) struct State {
    /// What the update under way asks for.
    pub(crate) effects: Vec<Effect>,
    /// The topics there are.
    pub(crate) topics: Loadable<TopicList>,
    /// Whether the screen is in view.
    pub(crate) is_shown: bool,
    /// Whether the services' addresses are known.
    pub(crate) is_connected: bool,
    /// The focused pane.
    pub(crate) pane: Pane,
    /// The topic in view.
    pub(crate) selected: Option<TopicId>,
    /// Its newest bundle.
    pub(crate) latest: Loadable<LatestBundle>,
    /// The past of topics.
    pub(crate) pasts: BTreeMap<TopicId, History>,
    /// The label in view; the first one while none was chosen.
    pub(crate) label: Option<String>,
    /// What actors are sorted by.
    pub(crate) sort: Sort,
    /// Whether the order is reversed.
    pub(crate) is_reversed: bool,
    /// The order of the topics.
    pub(crate) topic_order: ColumnOrder,
    /// The chosen actor.
    pub(crate) actor: Option<Address>,
    /// Whether updates are paused.
    pub(crate) is_paused: bool,
    /// The detail shown beside each actor's value.
    pub(crate) detail: Detail,
    /// Whether outliers are left out of the bundle.
    pub(crate) is_resistant: bool,
    /// The weights and intervals of the newest bundle, where served.
    pub(crate) confidence: Option<Box<LatestBody>>,
    /// Whether the service does not serve it.
    pub(crate) lacks_confidence: bool,
    /// The leaderboard of the topic in view; none before the first answer.
    pub(crate) leaderboard: Option<Leaderboard>,
    /// Whether the service does not serve it.
    pub(crate) lacks_leaderboard: bool,
    /// The status of the stream of bundles.
    pub(crate) feed: Feed,
    /// The poll interval, if the user chose one.
    pub(crate) interval: Option<Duration>,
    /// The end of the service's rate limit.
    pub(crate) limited_until: Option<Timestamp>,
}

impl State {
    /// What `y` copies, if something is selected: an actor's address, else the combined value with all
    /// its digits.
    pub(crate) fn selection(&self) -> Option<String> {
        if let Some(actor) = &self.actor {
            return Some(actor.to_string());
        }
        let values = &self.latest.value()?.bundle.combined_value;
        values
            .iter()
            .find(|value| value.label_name == self.label())
            .map(|value| decimal(value.value))
    }

    /// Whether a spinner is in view.
    pub(crate) fn is_animated(&self) -> bool {
        self.is_shown && (self.topics.is_loading() || self.latest.is_loading())
    }

    /// What the list says of the topic in view.
    pub(crate) fn topic(&self) -> Option<&TopicSummary> {
        let selected = self.selected?.get();
        self.topics.value()?.topics.iter().find(|topic| topic.topic_id == selected)
    }

    /// The topic in view if the service has no bundle of it, since no epoch of it has closed.
    pub(crate) fn topic_without_bundle(&self) -> Option<&TopicSummary> {
        let is_missing = self.latest.failure().is_some_and(|why| why.status == Some(404));
        self.topic().filter(|topic| is_missing && topic.last_nonce.is_none())
    }

    /// The past of the topic in view.
    pub(crate) fn past(&self) -> Option<&History> {
        self.pasts.get(&self.selected?)
    }

    /// The labels of the topic in view, in the order of their ids.
    pub(crate) fn labels(&self) -> Vec<&str> {
        let values = self.latest.value().map(|latest| &latest.bundle.combined_value);
        match values.filter(|values| !values.is_empty()) {
            Some(values) => values.iter().map(|value| value.label_name.as_str()).collect(),
            None => self
                .topic()
                .map_or_else(Vec::new, |topic| topic.labels.iter().map(String::as_str).collect()),
        }
    }

    /// The label in view.
    pub(crate) fn label(&self) -> &str {
        let labels = self.labels();
        let chosen = self.label.as_deref().filter(|label| labels.contains(label));
        chosen.or_else(|| labels.first().copied()).unwrap_or(SINGLE_LABEL)
    }

    /// The height of the chain by now: as of the last answer, and the blocks since.
    pub(crate) fn height(&self, now: Timestamp) -> Option<BlockHeight> {
        let list = self.topics.value()?;
        let age = self.topics.age(now)?.as_millis();
        let n_blocks = age.checked_div(u128::from(list.block_time_ms)).unwrap_or(0);
        Some(list.block_height.saturating_add(u64::try_from(n_blocks).unwrap_or(0)))
    }
}
