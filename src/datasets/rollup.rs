//! Folding rows into buckets, and buckets into longer ones.
//!
//! Every fold goes through its rows in the order of their moments, never in the order of their
//! arrival, so that a sum of floats does not depend on who came late. Nothing here knows a store.

use std::collections::BTreeMap;

use model::{
    dataset::{Column, Dtype},
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};

use crate::block::Block;

/// The metadata field that names the column to be folded where there is no `open` to `close`.
pub(crate) const VALUE_COLUMN: &str = "value_column";

/// Which columns of a dataset, by their place, go into its buckets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fold {
    /// Rows are bars themselves.
    Bars {
        /// The place of `open`, `high`, `low` and `close`.
        prices: [usize; 4],
        /// The place of `volume`.
        volume: Option<usize>,
    },
    /// Rows hold one value that matters.
    Value {
        /// Its place.
        value: usize,
        /// The place of `volume`.
        volume: Option<usize>,
    },
    /// Nothing in the rows is a number: there are no buckets.
    Nothing,
}

impl Fold {
    /// How a dataset with these columns and metadata folds: as bars if it has `open`, `high`, `low`
    /// and `close`; else by the column that [`VALUE_COLUMN`] names, else by its first float column.
    pub(crate) fn of(columns: &[Column], metadata: &BTreeMap<String, String>) -> Self {
        let is_number = |column: &&Column| matches!(column.dtype, Dtype::Float | Dtype::Integer);
        let named = |name: &str| {
            columns.iter().position(|column| column.name == name && is_number(&column))
        };
        let volume = named("volume");
        let prices = [named("open"), named("high"), named("low"), named("close")];
        if let [Some(open), Some(high), Some(low), Some(close)] = prices {
            return Self::Bars { prices: [open, high, low, close], volume };
        }
        metadata
            .get(VALUE_COLUMN)
            .and_then(|name| named(name))
            .or_else(|| columns.iter().position(|column| column.dtype == Dtype::Float))
            .map_or(Self::Nothing, |value| Self::Value {
                value,
                volume: volume.filter(|volume| *volume != value),
            })
    }

    /// The places of the columns that it needs.
    pub(crate) fn columns(self) -> Vec<usize> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Value { value, volume } => [Some(value), volume].into_iter().flatten().collect(),
            Self::Bars { prices, volume } => prices.into_iter().chain(volume).collect(),
        }
    }

    /// Row `row_idx` as a bucket of its own, at the moment `start`; none if it has no number.
    ///
    /// A bar that lacks one of its prices takes the nearest other one.
    fn sample(self, block: &Block, row_idx: usize, start: Timestamp) -> Option<Bucket> {
        let number = |place: usize| block.columns.get(place)?.number(row_idx);
        let (open, high, low, close, volume) = match self {
            Self::Nothing => return None,
            Self::Value { value, volume } => {
                let value = number(value)?;
                (value, value, value, value, volume)
            }
            Self::Bars { prices, volume } => {
                let [open, high, low, close] = prices.map(number);
                let open_or = open.or(close).or(high).or(low)?;
                let close_or = close.unwrap_or(open_or);
                let highest = high.unwrap_or_else(|| open_or.max(close_or));
                let lowest = low.unwrap_or_else(|| open_or.min(close_or));
                (open_or, highest, lowest, close_or, volume)
            }
        };
        let volume = volume.and_then(number).unwrap_or(0.0);
        Some(Bucket { timestamp: start, open, high, low, close, volume, count: 1 })
    }

    /// Folds the rows of `block` into buckets of `resolution`, in order, going on from `last`.
    ///
    /// `last` is the bucket so far that the first rows may still belong to.
    pub(crate) fn buckets(
        self,
        block: &Block,
        resolution: Resolution,
        last: Option<Bucket>,
    ) -> Vec<Bucket> {
        let mut buckets: Vec<Bucket> = last.into_iter().collect();
        for (row_idx, moment) in block.times.iter().enumerate() {
            let start = resolution.bucket_start(*moment);
            let Some(sample) = self.sample(block, row_idx, start) else { continue };
            match buckets.last_mut() {
                Some(bucket) if bucket.timestamp == start => *bucket = joined(*bucket, sample),
                _ => buckets.push(sample),
            }
        }
        buckets
    }
}

/// Folds buckets, in order, into one that starts at `start`; none if there are none.
pub(crate) fn coarser(start: Timestamp, finer: impl IntoIterator<Item = Bucket>) -> Option<Bucket> {
    let whole = finer.into_iter().reduce(joined)?;
    Some(Bucket { timestamp: start, ..whole })
}

/// `earlier` and then `later`, as one bucket that starts with `earlier`.
fn joined(earlier: Bucket, later: Bucket) -> Bucket {
    Bucket {
        timestamp: earlier.timestamp,
        open: earlier.open,
        high: earlier.high.max(later.high),
        low: earlier.low.min(later.low),
        close: later.close,
        volume: earlier.volume + later.volume,
        count: earlier.count.saturating_add(later.count),
    }
}

#[cfg(test)]
mod tests;
