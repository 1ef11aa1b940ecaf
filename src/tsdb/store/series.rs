//! Which rows and buckets of a dataset are stored, and under which numbers.

use model::{dataset::DatasetId, resolution::Resolution, timestamp::Timestamp};

use crate::{
    codec::Packing,
    span::{Order, Span},
};

/// The resolutions that are stored, each after the one it is folded from.
pub(super) const KEPT: [Resolution; 3] =
    [Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

/// The resolutions whose buckets become chunks. Days are too few.
pub(super) const SETTLED: [Resolution; 2] = [Resolution::FiveMinutes, Resolution::Hour];

/// All of time.
pub(super) const ALL: Span = Span { first: Timestamp::MIN, last: Timestamp::MAX };

/// The rows of a dataset, or its buckets of a resolution.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SeriesId {
    pub(super) dataset: DatasetId,
    pub(super) resolution: Resolution,
}

impl SeriesId {
    pub(super) const fn rows(dataset: DatasetId) -> Self {
        Self { dataset, resolution: Resolution::Raw }
    }

    /// The numbers of the dataset and the resolution.
    pub(super) fn key(self) -> (i64, i64) {
        (self.dataset.get(), code(self.resolution))
    }

    /// The key, and the bounds of a span.
    pub(super) fn within(self, span: Span) -> (i64, i64, i64, i64) {
        let (dataset, resolution) = self.key();
        (dataset, resolution, span.first.micros(), span.last.micros())
    }

    /// How its chunks are written when they change. Most buckets become chunks when they are old.
    pub(super) const fn packing(self) -> Packing {
        match self.resolution {
            Resolution::Raw => Packing::Quick,
            _ => Packing::Small,
        }
    }
}

/// The number by which a resolution is stored: the length of a bucket in seconds.
pub(super) fn code(resolution: Resolution) -> i64 {
    resolution.bucket().map_or(0, |length| i64::try_from(length.as_secs()).unwrap_or(i64::MAX))
}

/// What follows a column in `ORDER BY`.
pub(super) const fn direction(order: Order) -> &'static str {
    match order {
        Order::Ascending => "ASC",
        Order::Descending => "DESC",
    }
}

/// How long a bucket is.
pub(super) fn micros(resolution: Resolution) -> i64 {
    code(resolution).saturating_mul(1_000_000)
}

/// The timestamps of the bucket that starts at `start`.
pub(super) fn span(resolution: Resolution, start: Timestamp) -> Span {
    let last = start.micros().saturating_add(micros(resolution) - 1);
    Span { first: start, last: Timestamp::from_micros(last) }
}
