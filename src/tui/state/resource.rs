//! Values loaded from a service, and failures to load them.

use std::time::Duration;

use model::timestamp::Timestamp;

use crate::widget::format;

/// A failure with its description for the user.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Failure {
    /// Failed operation as an infinitive, such as `list the nodes`.
    pub(crate) what: String,
    /// Reason for the failure.
    pub(crate) why: String,
    /// Advice for the user. Can be empty.
    pub(crate) next: String,
    /// HTTP status of the response, if there was one.
    pub(crate) status: Option<u16>,
    /// Wait that the service demands before the next request.
    pub(crate) retry_after: Option<Duration>,
    /// True if the service has not responded in time.
    pub(crate) is_timeout: bool,
}

impl Failure {
    /// Returns a failure that is not the response of a service.
    pub(crate) fn new(
        what: impl Into<String>,
        why: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let (what, why, next) = (what.into(), why.into(), next.into());
        Self { what, why, next, ..Self::default() }
    }

    /// Returns the lines of a pane that shows only this failure.
    pub(crate) fn lines(&self) -> Vec<String> {
        vec![format!("✗ failed to {}", self.what), self.why.clone(), self.next.clone()]
    }

    /// Returns the wait before the next request if the failure is a rate limit. If the service
    /// demanded no particular wait, returns `usual`.
    pub(crate) fn limit(&self, usual: Duration) -> Option<Duration> {
        self.retry_after.or((self.status == Some(429)).then_some(usual))
    }
}

/// Result of a request to a service, or of a local operation. A failure is shown to the user.
pub(crate) type Outcome<T> = Result<T, Failure>;

/// A value loaded from a service, once or repeatedly, and the state of its requests.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resource<T> {
    /// True while a request is pending.
    is_pending: bool,
    /// Latest value and the time at which it was loaded.
    latest: Option<(T, Timestamp)>,
    /// Failure of the last request. `None` if it succeeded.
    failure: Option<Box<Failure>>,
    /// Number of failures since the last success.
    n_failures: u32,
}

impl<T> Default for Resource<T> {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl<T> Resource<T> {
    /// A resource that was never requested.
    pub(crate) const EMPTY: Self =
        Self { is_pending: false, latest: None, failure: None, n_failures: 0 };

    /// Returns a resource with a value that was loaded at `now`.
    pub(crate) fn loaded(value: T, now: Timestamp) -> Self {
        Self { latest: Some((value, now)), ..Self::EMPTY }
    }

    /// Records that a request is sent. Value and failure remain until the response. Returns false
    /// if another request is pending.
    pub(crate) const fn begin(&mut self) -> bool {
        !std::mem::replace(&mut self.is_pending, true)
    }

    /// Records that the pending request was cancelled.
    pub(crate) const fn cancel(&mut self) {
        self.is_pending = false;
    }

    /// Records a response. After a failure, the previous value remains and is outdated.
    pub(crate) fn settle(&mut self, result: Outcome<T>, now: Timestamp) {
        self.is_pending = false;
        match result {
            Ok(value) => *self = Self::loaded(value, now),
            Err(why) => {
                self.failure = Some(Box::new(why));
                self.n_failures = self.n_failures.saturating_add(1);
            }
        }
    }

    /// Clears the failure if there is no value. A reload by the user is then shown as loading.
    pub(crate) fn clear_error(&mut self) {
        if self.latest.is_none() {
            self.failure = None;
        }
    }

    /// Returns the latest value, which can be outdated.
    pub(crate) fn value(&self) -> Option<&T> {
        self.latest.as_ref().map(|(value, _)| value)
    }

    /// Like [`Self::value`], mutable.
    pub(crate) fn value_mut(&mut self) -> Option<&mut T> {
        self.latest.as_mut().map(|(value, _)| value)
    }

    /// Returns the latest value, which can be outdated, and the time at which it was loaded.
    pub(crate) fn settled(&self) -> Option<(&T, Timestamp)> {
        self.latest.as_ref().map(|(value, at)| (value, *at))
    }

    /// Returns the failure of the last request, or `None` if the request succeeded.
    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_deref()
    }

    /// Returns the number of failures since the last success.
    pub(crate) const fn n_failures(&self) -> u32 {
        self.n_failures
    }

    /// Returns true if the response to the first request is pending.
    pub(crate) const fn is_loading(&self) -> bool {
        self.is_pending && self.latest.is_none() && self.failure.is_none()
    }

    /// Returns true if the resource was never requested.
    pub(crate) const fn is_idle(&self) -> bool {
        !self.is_pending && self.latest.is_none() && self.failure.is_none()
    }

    /// Returns the age of the latest value.
    pub(crate) fn age(&self, now: Timestamp) -> Option<Duration> {
        self.settled().map(|(_, at)| now.since(at))
    }

    /// Describes the state in the title of a pane: `2s ago`, `stale 1m`, `loading`, `failed`.
    pub(crate) fn note(&self, now: Timestamp) -> String {
        match (self.age(now), &self.failure) {
            (Some(age), None) => format::ago(age),
            (Some(age), Some(_)) => format!("stale {}", format::age(age)),
            (None, Some(_)) => "failed".to_owned(),
            (None, None) if self.is_pending => "loading".to_owned(),
            (None, None) => String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_does_not_discard_the_last_value_and_its_age() {
        let at = Timestamp::from_seconds;
        let mut nodes = Resource::EMPTY;
        nodes.begin();
        assert!(nodes.is_loading());
        nodes.settle(Err(Failure::default()), at(0));
        nodes.begin();
        assert!(!nodes.is_loading(), "requested again automatically");
        nodes.clear_error();
        nodes.begin();
        assert!(nodes.is_loading(), "requested again by the user");
        nodes.settle(Ok(3), at(1));
        nodes.begin();
        nodes.settle(Err(Failure::default()), at(3));
        assert_eq!((nodes.value(), nodes.note(at(61))), (Some(&3), "stale 1m".to_owned()));
        nodes.settle(Ok(4), at(62));
        assert_eq!((nodes.failure(), nodes.age(at(64))), (None, Some(Duration::from_secs(2))));
    }
}
