//! What of a dataset is read: from when to when, and in which order.

use model::timestamp::Timestamp;

/// Which rows come first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// The oldest.
    Ascending,
    /// The newest.
    Descending,
}

/// Moments from `first` to `last`, both of them included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Span {
    /// The earliest.
    pub first: Timestamp,
    /// The latest.
    pub last: Timestamp,
}
