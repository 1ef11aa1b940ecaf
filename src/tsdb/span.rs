//! What of a dataset is read: from when to when, and in which order.

use model::timestamp::Timestamp;

/// Which rows come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The oldest row first.
    Ascending,
    /// The newest row first.
    Descending,
}

/// Timestamps from `first` to `last`, both of them included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The earliest timestamp; later than `last` in an empty span.
    pub first: Timestamp,
    /// The latest timestamp.
    pub last: Timestamp,
}
