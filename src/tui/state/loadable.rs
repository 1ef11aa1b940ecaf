//! A value loaded from a service: idle, loading, ready, stale or failed.

use std::time::Duration;

use model::timestamp::Timestamp;

/// A failure, in words for the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Failure {
    /// The failed operation: completes "failed to".
    pub(crate) what: String,
    /// Why it did not work.
    pub(crate) why: String,
    /// Advice for the user.
    pub(crate) next: String,
    /// The HTTP status, where a service refused.
    pub(crate) status: Option<u16>,
    /// Wait that the service asked for.
    pub(crate) retry_after: Option<Duration>,
    /// True if the service did not respond in time.
    pub(crate) is_timeout: bool,
}

impl Failure {
    /// A failure that no service reported: what was tried, why it failed, what to do next.
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let (what, why, next) = (what.into(), why.into(), next.into());
        Self { what, why, next, ..Self::default() }
    }

    /// Wait for a rate limit, if this is one: `usual` if the service names no time.
    pub(crate) fn limit(&self, usual: Duration) -> Option<Duration> {
        // Too many requests.
        self.retry_after.or((self.status == Some(429)).then_some(usual))
    }
}

/// A value loaded from a service, and how fresh it is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) enum Loadable<T> {
    #[default]
    Idle,
    /// Requested for the first time.
    Loading { since: Timestamp },
    Ready {
        value: T,
        /// As of when.
        at: Timestamp,
    },
    /// Loaded, but the last reload failed.
    Stale {
        value: T,
        /// As of when.
        at: Timestamp,
        /// Why the reload failed.
        why: Failure,
    },
    /// Never loaded, and the last attempt failed.
    Failed { why: Failure },
}

impl<T> Loadable<T> {
    /// It is asked for. A value that is there stays, and so does a failure: that it is asked for
    /// again and again is not worth a word each time.
    pub(crate) fn begin(&mut self, now: Timestamp) {
        if matches!(self, Self::Idle) {
            *self = Self::Loading { since: now };
        }
    }

    /// Clears a failure, so that a reload by hand shows as loading.
    pub(crate) fn clear_error(&mut self) {
        if matches!(self, Self::Failed { .. }) {
            *self = Self::Idle;
        }
    }

    /// Takes the result. A failure keeps an older value and marks it stale.
    pub(crate) fn settle(&mut self, result: Result<T, Failure>, now: Timestamp) {
        *self = match (result, std::mem::take(self)) {
            (Ok(value), _) => Self::Ready { value, at: now },
            (Err(why), Self::Ready { value, at } | Self::Stale { value, at, .. }) => {
                Self::Stale { value, at, why }
            }
            (Err(why), _) => Self::Failed { why },
        };
    }

    /// The value, fresh or not.
    pub(crate) const fn value(&self) -> Option<&T> {
        match self {
            Self::Ready { value, .. } | Self::Stale { value, .. } => Some(value),
            _ => None,
        }
    }

    /// As [`Self::value`], to change it.
    pub(crate) const fn value_mut(&mut self) -> Option<&mut T> {
        match self {
            Self::Ready { value, .. } | Self::Stale { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The value, fresh or not, and when it was loaded.
    pub(crate) const fn settled(&self) -> Option<(&T, Timestamp)> {
        match self {
            Self::Ready { value, at } | Self::Stale { value, at, .. } => Some((value, *at)),
            _ => None,
        }
    }

    /// Why the last try failed, if it did.
    pub(crate) const fn failure(&self) -> Option<&Failure> {
        match self {
            Self::Stale { why, .. } | Self::Failed { why, .. } => Some(why),
            _ => None,
        }
    }

    /// True if the first response is pending.
    pub(crate) const fn is_loading(&self) -> bool {
        matches!(self, Self::Loading { .. })
    }

    /// Age of the value.
    pub(crate) fn age(&self, now: Timestamp) -> Option<Duration> {
        self.settled().map(|(_, at)| now.since(at))
    }

    /// The state for a pane's title: `2s ago`, `stale 1m`, `loading`, `failed`.
    pub(crate) fn note(&self, now: Timestamp) -> String {
        match self {
            Self::Idle => String::new(),
            Self::Loading { .. } => "loading".to_owned(),
            Self::Ready { at, .. } => crate::widget::format::ago(now.since(*at)),
            Self::Stale { at, .. } => {
                format!("stale {}", crate::widget::format::age(now.since(*at)))
            }
            Self::Failed { .. } => "failed".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_keeps_the_last_good_value_and_its_age() {
        let at = Timestamp::from_seconds;
        let mut nodes = Loadable::default();
        nodes.begin(at(0));
        assert!(nodes.is_loading());
        nodes.settle(Err(Failure::default()), at(0));
        nodes.begin(at(0));
        assert!(!nodes.is_loading(), "asked for again by itself");
        nodes.clear_error();
        nodes.begin(at(0));
        assert!(nodes.is_loading(), "asked for again by somebody");
        nodes.settle(Ok(3), at(1));
        nodes.begin(at(2));
        nodes.settle(Err(Failure::default()), at(3));
        assert_eq!((nodes.value(), nodes.note(at(61))), (Some(&3), "stale 1m".to_owned()));
        nodes.settle(Ok(4), at(62));
        assert_eq!((nodes.failure(), nodes.age(at(64))), (None, Some(Duration::from_secs(2))));
    }
}
