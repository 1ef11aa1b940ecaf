//! Notices: short messages that are shown for a while and stored to be read later.

use std::collections::VecDeque;
use std::time::Duration;

use model::timestamp::Timestamp;

use crate::local::Level;

/// Maximum number of notices shown together. The oldest is evicted.
const NOTICES_MAX: usize = 3;

/// Maximum number of past notices. The oldest is evicted.
const PAST_MAX: usize = 200;

/// Time for which information is shown.
const SHOWN_FOR: Duration = Duration::from_secs(5);

/// Time for which warnings and errors are shown. They are longer, since they include advice.
const BAD_SHOWN_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) level: Level,
    pub(crate) text: String,
    /// Reason and advice below the text. Can be empty.
    pub(crate) detail: String,
    pub(crate) at: Timestamp,
    /// Time until which the notice is shown, or `None` if it is hidden.
    pub(crate) until: Option<Timestamp>,
}

/// The notices, latest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notices(VecDeque<Notice>);

impl Notices {
    /// Returns the time until which a notice is shown from `now` on.
    pub(crate) fn until(level: Level, now: Timestamp) -> Timestamp {
        now + if level >= Level::Warn { BAD_SHOWN_FOR } else { SHOWN_FOR }
    }

    /// Adds a notice, which replaces a shown one with the same text.
    pub(crate) fn add(&mut self, notice: Notice) {
        self.0.iter_mut().filter(|it| it.text == notice.text).for_each(|it| it.until = None);
        self.0.push_front(notice);
        self.0.truncate(PAST_MAX);
        let shown = self.0.iter_mut().filter(|it| it.until.is_some());
        shown.skip(NOTICES_MAX).for_each(|it| it.until = None);
    }

    /// Hides expired notices. Returns the time until the next one expires.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<Duration> {
        self.0.iter_mut().for_each(|it| it.until = it.until.filter(|until| *until > now));
        self.iter().filter_map(|it| it.until).min().map(|until| until.since(now))
    }

    /// Hides all notices. Returns true if there was one.
    pub(crate) fn clear(&mut self) -> bool {
        let was = self.iter().next().is_some();
        self.0.iter_mut().for_each(|it| it.until = None);
        was
    }

    /// Returns all notices, latest first.
    pub(crate) fn past(&self) -> impl ExactSizeIterator<Item = &Notice> {
        self.0.iter()
    }

    /// Returns the visible notices, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Notice> {
        self.0.iter().rev().filter(|it| it.until.is_some())
    }
}
