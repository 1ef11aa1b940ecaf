//! Folds rows into buckets and buckets into longer buckets.
//!
//! Rows are folded in the order of their timestamps, not in the order of their arrival, so that a sum of
//! floats does not depend on late rows.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::catalog::Refusal;
use model::block::{Block, Series};
use model::dataset::{BAR_COLUMNS, Column, Dtype, VALUE_COLUMN};
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

/// Columns of a dataset from which its buckets are computed, as column positions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fold {
    /// Columns of `open`, `high`, `low` and `close`. All four are the same column if rows have a single
    /// value.
    pub(crate) prices: [usize; 4],
    /// Column of the volume, if the dataset has one.
    pub(crate) volume: Option<usize>,
}

impl Fold {
    /// Chooses the columns to fold. A dataset with columns `open`, `high`, `low` and `close` is folded
    /// as bars. Otherwise the column that [`VALUE_COLUMN`] names is folded, or else the first float
    /// column. Returns `None` if there is no such column. Such a dataset has no buckets.
    pub(crate) fn for_dataset(
        columns: &[Column],
        metadata: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let columns: Vec<(&str, Dtype)> =
            columns.iter().map(|column| (column.name.as_str(), column.dtype)).collect();
        Self::choose(&columns, metadata.get(VALUE_COLUMN).map(String::as_str))
    }

    /// Chooses the columns to fold like [`Self::for_dataset`], from the names and types of all columns.
    /// The name of a deleted column is empty.
    pub(crate) fn choose(columns: &[(&str, Dtype)], value_column: Option<&str>) -> Option<Self> {
        let is_number = |dtype: Dtype| matches!(dtype, Dtype::Float | Dtype::Integer);
        let named = |wanted: &str| {
            columns.iter().position(|(name, dtype)| *name == wanted && is_number(*dtype))
        };
        let [open, high, low, close, volume] = BAR_COLUMNS.map(named);
        if let [Some(open), Some(high), Some(low), Some(close)] = [open, high, low, close] {
            return Some(Self { prices: [open, high, low, close], volume });
        }
        let first_float =
            || columns.iter().position(|(name, dtype)| *dtype == Dtype::Float && !name.is_empty());
        value_column
            .filter(|name| !name.is_empty())
            .and_then(named)
            .or_else(first_float)
            .map(|value| Self::of_value(value, volume.filter(|volume| *volume != value)))
    }

    /// Folds a column of single values, and a column of volumes if there is one.
    pub(crate) const fn of_value(value: usize, volume: Option<usize>) -> Self {
        Self { prices: [value; 4], volume }
    }

    /// Returns true if this fold and `old` give the same buckets for existing rows. Existing rows have
    /// no values in a column that was added later.
    pub(crate) fn continues(self, old: Self) -> bool {
        self.prices == old.prices && (old.volume.is_none() || self.volume == old.volume)
    }

    /// Returns the positions of the columns that are folded into buckets: prices first, then the volume.
    pub(crate) fn columns(self) -> Vec<usize> {
        self.prices.into_iter().chain(self.volume).collect()
    }

    /// Folds the rows of `block` into buckets of `resolution`. If the first rows belong to the bucket
    /// `last`, they are added to it.
    pub(crate) fn buckets(
        self,
        block: &Block,
        resolution: Resolution,
        last: Option<Bucket>,
    ) -> Vec<Bucket> {
        let mut folding = Folding::new(self, resolution, last);
        folding.add(block, None);
        folding.buckets
    }
}

/// Checks that a change of columns or metadata leaves the stored buckets of a dataset valid. Existing
/// rows have no values in new columns.
pub(crate) fn check_refold(
    old: (&[Column], &BTreeMap<String, String>),
    new: (&[Column], &BTreeMap<String, String>),
    is_empty: bool,
) -> Result<(), Refusal> {
    let (before, after) = (Fold::for_dataset(old.0, old.1), Fold::for_dataset(new.0, new.1));
    let is_continued = new.0.len() > old.0.len()
        && before.is_none_or(|before| after.is_some_and(|after| after.continues(before)));
    if is_empty || before == after || is_continued { Ok(()) } else { Err(Refusal::Refolds) }
}

/// Unfinished buckets, to which rows are added in the order of their timestamps.
pub(crate) struct Folding {
    fold: Fold,
    resolution: Resolution,
    buckets: Vec<Bucket>,
    /// Start and end of the bucket that contains the last row.
    here: Range<Timestamp>,
}

impl Folding {
    pub(crate) fn new(fold: Fold, resolution: Resolution, last: Option<Bucket>) -> Self {
        let here = Timestamp::default()..Timestamp::default();
        Self { fold, resolution, buckets: last.into_iter().collect(), here }
    }

    /// Returns the finished buckets in ascending order.
    pub(crate) fn finish(self) -> Vec<Bucket> {
        self.buckets
    }

    /// Adds the rows of `under`, merged with the given rows of the block `over`. At equal
    /// timestamps, the row of `over` is used.
    pub(crate) fn add(&mut self, under: &Block, over: Option<(&Block, Range<usize>)>) {
        let mut left = under.times.iter().copied().enumerate().peekable();
        let samples = self.samples(under);
        if let Some((over, rows)) = over {
            let over_samples = self.samples(over);
            let timestamps = over.times.get(rows.clone()).unwrap_or_default();
            for (over_idx, timestamp) in rows.zip(timestamps.iter().copied()) {
                while let Some((row_idx, earlier)) = left.next_if(|(_, time)| *time < timestamp) {
                    self.add_row(&samples, row_idx, earlier);
                }
                left.next_if(|(_, time)| *time == timestamp);
                self.add_row(&over_samples, over_idx, timestamp);
            }
        }
        for (row_idx, timestamp) in left {
            self.add_row(&samples, row_idx, timestamp);
        }
    }

    fn samples<'a>(&self, block: &'a Block) -> Samples<'a> {
        let column = |place: usize| block.columns.get(place);
        Samples { prices: self.fold.prices.map(column), volume: self.fold.volume.and_then(column) }
    }

    fn add_row(&mut self, samples: &Samples<'_>, row_idx: usize, timestamp: Timestamp) {
        if !self.here.contains(&timestamp) {
            let start = self.resolution.bucket_start(timestamp);
            self.here = start..self.resolution.bucket_end(timestamp);
        }
        let Some(sample) = samples.bucket(row_idx, self.here.start) else { return };
        match self.buckets.last_mut() {
            Some(bucket) if bucket.timestamp == sample.timestamp => join(bucket, &sample),
            _ => self.buckets.push(sample),
        }
    }
}

/// Columns of a block that the fold reads.
struct Samples<'a> {
    prices: [Option<&'a Series>; 4],
    volume: Option<&'a Series>,
}

impl Samples<'_> {
    /// Converts row `row_idx` to a bucket that starts at `start`. Returns `None` if the row has no
    /// price. A missing price is replaced by another price of the row.
    fn bucket(&self, row_idx: usize, start: Timestamp) -> Option<Bucket> {
        let number = |series: Option<&Series>| series?.number(row_idx);
        let [open, high, low, close] = self.prices.map(number);
        let open_or = open.or(close).or(high).or(low)?;
        let close_or = close.unwrap_or(open_or);
        Some(Bucket {
            timestamp: start,
            open: open_or,
            high: high.unwrap_or_else(|| open_or.max(close_or)),
            low: low.unwrap_or_else(|| open_or.min(close_or)),
            close: close_or,
            volume: number(self.volume).filter(|volume| !volume.is_nan()).unwrap_or(0.0),
            count: 1,
        })
    }
}

/// Folds sorted buckets into a longer bucket that starts at `start`. Returns `None` if there are no
/// buckets.
pub(crate) fn coarser(start: Timestamp, finer: impl IntoIterator<Item = Bucket>) -> Option<Bucket> {
    let mut finer = finer.into_iter();
    let mut whole = Bucket { timestamp: start, ..finer.next()? };
    for later in finer {
        join(&mut whole, &later);
    }
    Some(whole)
}

/// Folds finer buckets, which are sorted, into buckets of `resolution`.
pub(crate) fn coarsen(finer: &[Bucket], resolution: Resolution) -> Vec<Bucket> {
    let mut rest = finer;
    let mut buckets = Vec::new();
    while let Some(first) = rest.first() {
        let end = resolution.bucket_end(first.timestamp);
        // At the end of the calendar, `end` can be equal to the start of `first`. The group nevertheless
        // contains `first`.
        let n_within = rest.partition_point(|bucket| bucket.timestamp < end).max(1);
        let (group, later) = rest.split_at(n_within);
        let start = resolution.bucket_start(first.timestamp);
        buckets.extend(coarser(start, group.iter().copied()));
        rest = later;
    }
    buckets
}

/// Returns the starts of the buckets that contain `times`, which are sorted.
pub(crate) fn starts_of(
    resolution: Resolution,
    times: impl IntoIterator<Item = Timestamp>,
) -> Vec<Timestamp> {
    let mut starts: Vec<Timestamp> =
        times.into_iter().map(|time| resolution.bucket_start(time)).collect();
    starts.dedup();
    starts
}

/// Returns the bucket that starts at `start`, if it is one of `buckets`, which are sorted.
pub(crate) fn bucket_at(buckets: &[Bucket], start: Timestamp) -> Option<Bucket> {
    let found = buckets.binary_search_by_key(&start, |bucket| bucket.timestamp);
    found.ok().and_then(|idx| buckets.get(idx)).copied()
}

/// Changed buckets, sorted by start. `None` removes a bucket that no longer has any numbers.
pub(crate) type Refolded = Vec<(Timestamp, Option<Bucket>)>;

/// Computes the buckets of `resolution` that contain any of the `changed` buckets of the next finer
/// resolution or any of `times`. The computed buckets are folded from the `changed` buckets, and from
/// the `stored` buckets of the finer resolution that did not change.
pub(crate) fn coarsen_changed(
    stored: &[Bucket],
    changed: &[(Timestamp, Option<Bucket>)],
    times: &[Timestamp],
    resolution: Resolution,
) -> Refolded {
    let mut finer: BTreeMap<Timestamp, Bucket> =
        stored.iter().map(|bucket| (bucket.timestamp, *bucket)).collect();
    for (start, bucket) in changed {
        match bucket {
            Some(bucket) => finer.insert(*start, *bucket),
            None => finer.remove(start),
        };
    }
    let longer = coarsen(&finer.into_values().collect::<Vec<_>>(), resolution);
    let times = changed.iter().map(|(start, _)| start).chain(times);
    let starts: BTreeSet<Timestamp> = times.map(|time| resolution.bucket_start(*time)).collect();
    starts.into_iter().map(|start| (start, bucket_at(&longer, start))).collect()
}

/// Returns the bits of a bucket as stored: zero without its sign, since not all engines store it.
pub(crate) fn stored_bits(bucket: &Bucket) -> (Timestamp, [u64; 5], u64) {
    let Bucket { timestamp, open, high, low, close, volume, count } = *bucket;
    let bits = [open, high, low, close, volume].map(|number| (number + 0.0).to_bits());
    (timestamp, bits, count)
}

/// Joins a bucket or row to an earlier bucket. A sum of volumes that overflows in both directions becomes
/// 0 instead of NaN, which SQLite would store as null. Doing this for each sum makes the result
/// independent of the number of rows that are joined at a time.
#[inline]
fn join(bucket: &mut Bucket, later: &Bucket) {
    bucket.high = bucket.high.max(later.high);
    bucket.low = bucket.low.min(later.low);
    bucket.close = later.close;
    let volume = bucket.volume + later.volume;
    bucket.volume = if volume.is_nan() { 0.0 } else { volume };
    bucket.count = bucket.count.saturating_add(later.count);
}

#[cfg(test)]
mod tests;
