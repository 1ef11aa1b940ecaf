//! Spans of time and orders of rows.

use std::ops::Range;

use model::timestamp::Timestamp;

/// Order of rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Earlier rows come first.
    Ascending,
    /// Later rows come first.
    Descending,
}

impl Order {
    /// Returns the end of a span that comes last in this order.
    pub(crate) const fn last_of(self, span: Span) -> Timestamp {
        match self {
            Self::Ascending => span.last,
            Self::Descending => span.first,
        }
    }
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

    /// Returns true if the timestamp lies within the span.
    pub(crate) fn contains(self, timestamp: Timestamp) -> bool {
        self.first <= timestamp && timestamp <= self.last
    }

    /// Returns true if `other` lies within the span.
    pub(crate) fn covers(self, other: Self) -> bool {
        self.overlap(other) == other
    }

    /// Splits the span after the timestamp `end`. Returns the part up to `end`, and the rest, which
    /// follows in `order`.
    pub(crate) const fn split(self, order: Order, end: Timestamp) -> (Self, Self) {
        match order {
            Order::Ascending => {
                (Self { last: end, ..self }, Self { first: just_after(end), ..self })
            }
            Order::Descending => {
                (Self { first: end, ..self }, Self { last: just_before(end), ..self })
            }
        }
    }

    /// Returns the indices of the timestamps within the span. `times` are sorted.
    pub(crate) fn indices(self, times: &[Timestamp]) -> Range<usize> {
        let start = times.partition_point(|time| *time < self.first);
        let end = times.partition_point(|time| *time <= self.last);
        start..end.max(start)
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
