//! Spans of time and orders of rows.

use model::timestamp::Timestamp;

/// Order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Earlier rows come first.
    Ascending,
    /// Later rows come first.
    Descending,
}

/// Inclusive range of timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// Earliest timestamp. An empty span has a `first` later than its `last`.
    pub first: Timestamp,
    /// Latest timestamp of the span.
    pub last: Timestamp,
}

impl Span {
    /// All of time.
    pub const ALL: Self = Self { first: Timestamp::MIN, last: Timestamp::MAX };

    /// Returns true if the span has no timestamps.
    pub(crate) fn is_empty(self) -> bool {
        self.first > self.last
    }

    /// Returns the intersection of both spans.
    pub(crate) fn overlap(self, other: Self) -> Self {
        Self { first: self.first.max(other.first), last: self.last.min(other.last) }
    }
}

/// Returns the timestamp one microsecond later.
pub(crate) const fn just_after(timestamp: Timestamp) -> Timestamp {
    Timestamp::from_micros(timestamp.micros().saturating_add(1))
}

/// Returns the timestamp one microsecond earlier.
pub(crate) const fn just_before(timestamp: Timestamp) -> Timestamp {
    Timestamp::from_micros(timestamp.micros().saturating_sub(1))
}
