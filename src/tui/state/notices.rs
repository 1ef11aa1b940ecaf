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
    /// How long it is shown.
    pub(crate) until: Timestamp,
}

/// The notices shown now, and those there were.
#[derive(Debug, Clone, Default)]
pub(crate) struct Notices {
    list: VecDeque<Notice>,
    past: VecDeque<Notice>,
}

impl Notices {
    /// Shows a notice. It replaces one with the same text.
    pub(crate) fn add(&mut self, level: Level, text: String, detail: String, now: Timestamp) {
        let shown_for = if level >= Level::Warn { BAD_SHOWN_FOR } else { SHOWN_FOR };
        self.list.retain(|notice| notice.text != text);
        let notice = Notice { level, text, detail, at: now, until: now + shown_for };
        self.keep(notice.clone());
        self.list.push_back(notice);
        while self.list.len() > NOTICES_MAX {
            self.list.pop_front();
        }
    }

    /// Keeps a notice to be read later without showing it: a pane in view says the same.
    pub(crate) fn record(&mut self, level: Level, text: String, detail: String, now: Timestamp) {
        self.list.retain(|notice| notice.text != text);
        self.keep(Notice { level, text, detail, at: now, until: now });
    }

    fn keep(&mut self, notice: Notice) {
        if self.past.len() >= PAST_MAX {
            self.past.pop_back();
        }
        self.past.push_front(notice);
    }

    /// Drops expired notices; returns when the next one expires.
    pub(crate) fn expire(&mut self, now: Timestamp) -> Option<Duration> {
        self.list.retain(|notice| notice.until > now);
        self.list.iter().map(|notice| notice.until.since(now)).min()
    }

    /// Drops all notices shown; returns whether there was one.
    pub(crate) fn clear(&mut self) -> bool {
        let was = !self.list.is_empty();
        self.list.clear();
        was
    }

    /// Every notice that is kept, newest first.
    pub(crate) fn past(&self) -> impl ExactSizeIterator<Item = &Notice> {
        self.past.iter()
    }

    /// The notices shown now, oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Notice> {
        self.list.iter()
    }
}
