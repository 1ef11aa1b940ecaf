//! Series of a dataset, stored as its rows or as buckets of one resolution, and their keys.

use model::dataset::DatasetId;
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use crate::span::{Order, Span, just_after};

/// Resolutions that are stored in SQLite, from the shortest to the longest. The buckets of each
/// resolution are computed from the buckets of the previous one.
pub(super) const KEPT: [Resolution; 3] =
    [Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

/// Resolutions with old buckets in chunks. Daily buckets are too few for chunks.
pub(super) const SETTLED: [Resolution; 2] = [Resolution::FiveMinutes, Resolution::Hour];

/// The rows of a dataset, or the buckets of one of its resolutions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SeriesId {
    pub(super) dataset: DatasetId,
    pub(super) resolution: Resolution,
}

impl SeriesId {
    pub(super) const fn rows(dataset: DatasetId) -> Self {
        Self { dataset, resolution: Resolution::Raw }
    }

    /// Returns the key of the series: dataset and resolution as numbers.
    pub(super) fn key(self) -> (i64, i64) {
        (self.dataset.get(), code(self.resolution))
    }

    /// Returns the key of the series and the bounds of a span.
    pub(super) fn within(self, span: Span) -> (i64, i64, i64, i64) {
        let (dataset, resolution) = self.key();
        (dataset, resolution, span.first.micros(), span.last.micros())
    }
}

/// Returns the number that represents a resolution in the tables: the length of a bucket in seconds, or
/// 0 for raw rows.
pub(super) fn code(resolution: Resolution) -> i64 {
    resolution.bucket().map_or(0, |length| i64::try_from(length.as_secs()).unwrap_or(i64::MAX))
}

/// Returns the SQL keyword for the direction of `ORDER BY`.
pub(super) const fn direction(order: Order) -> &'static str {
    match order {
        Order::Ascending => "ASC",
        Order::Descending => "DESC",
    }
}

/// Returns the length of a bucket in microseconds.
pub(super) fn micros(resolution: Resolution) -> i64 {
    code(resolution).saturating_mul(1_000_000)
}

/// Returns the span of the bucket that starts at `start`.
pub(crate) fn span(resolution: Resolution, start: Timestamp) -> Span {
    let last = start.micros().saturating_add(micros(resolution) - 1);
    Span { first: start, last: Timestamp::from_micros(last) }
}

/// Returns the end of the bucket that contains `timestamp`, which is the start of the next bucket.
pub(crate) fn bucket_end(resolution: Resolution, timestamp: Timestamp) -> Timestamp {
    just_after(span(resolution, resolution.bucket_start(timestamp)).last)
}
