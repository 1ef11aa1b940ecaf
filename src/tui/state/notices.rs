//! Notices: short words that come by themselves and go again, and are kept to be read later.

use std::{collections::VecDeque, time::Duration};

use model::timestamp::Timestamp;

use crate::local::Level;

/// Notices shown at once; the oldest is evicted.
const NOTICES_MAX: usize = 3;

/// Notices kept to be read later; the oldest is evicted.
const PAST_MAX: usize = 200;

/// How long info notices are shown.
const SHOWN_FOR: Duration = Duration::from_secs(5);

/// How long warnings and errors are shown: longer, since they say what to do.
const BAD_SHOWN_FOR: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) level: Level,
    pub(crate) text: String,
    /// The reason and what to do; may be empty.
    pub(crate) detail: String,
    /// When it was added.
    pub(crate) at: Timestamp,
    /// Until when it is shown; none once it is not.
    until: Option<Timestamp>,
}

/// The notices that are kept, newest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notices(VecDeque<Notice>);

impl Notices {
    /// Shows a notice. It replaces one with the same text.
    pub(crate) fn add(&mut self, level: Level, text: String, detail: String, now: Timestamp) {
        let shown_for = if level >= Level::Warn { BAD_SHOWN_FOR } else { SHOWN_FOR };
        self.keep(Notice { level, text, detail, at: now, until: Some(now + shown_for) });
    }

    /// Keeps a notice to be read later without showing it: a pane in view says the same.
    pub(crate) fn record(&mut self, level: Level, text: String, detail: String, now: Timestamp) {
        self.keep(Notice { level, text, detail, at: now, until: None });
    }

    fn keep(&mut self, notice: Notice) {
        self.0.iter_mut().filter(|it| it.text == notice.text).for_each(|it| it.until = None);
        self.0.push_front(notice);
        self.0.truncate(PAST_MAX);
        let shown = self.0.iter_mut().filter(|it| it.until.is_some());
        shown.skip(NOTICES_MAX).for_each(|it| it.until = None);
    }

    /// Hides expired notices; returns when the next one expires.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<Duration> {
        self.0.iter_mut().for_each(|it| it.until = it.until.filter(|until| *until > now));
        self.iter().filter_map(|it| it.until).min().map(|until| until.since(now))
    }

    /// Hides all notices; returns whether there was one.
    pub(crate) fn clear(&mut self) -> bool {
        let was = self.iter().next().is_some();
        self.0.iter_mut().for_each(|it| it.until = None);
        was
    }

    /// Every notice that is kept, newest first.
    pub(crate) fn past(&self) -> impl ExactSizeIterator<Item = &Notice> {
        self.0.iter()
    }

    /// The notices shown now, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Notice> {
        self.0.iter().rev().filter(|it| it.until.is_some())
    }
}
