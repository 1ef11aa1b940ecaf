//! How a topic is kept up to date: by its stream where there is one, else by asking again and again.

use std::time::Duration;

use super::{LATEST_EVERY, State, TOPICS_EVERY};

/// The status of the stream of the topic's bundles.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Feed {
    #[default]
    Closed,
    Opening,
    Up,
    /// Lost; it reconnects by itself.
    Lost,
    /// The service has none.
    NotServed,
}

impl State {
    /// The poll interval.
    pub(crate) fn poll_interval(&self) -> Duration {
        let usual = if self.topics.failure().is_none() { TOPICS_EVERY } else { LATEST_EVERY };
        self.interval.unwrap_or(usual)
    }
}
