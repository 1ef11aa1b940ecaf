//! Digests of datasets, which are equal for a dataset and its copy in a store of another engine.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::ControlFlow;

use model::block::{Block, Rows, Series};
use model::resolution::Resolution;
use model::row::Bucket;
use model::timestamp::Timestamp;

use super::columns;
use crate::span::Span;
use crate::store::Result;
use crate::store::copying::{CatalogEntry, CopyStore};

/// Resolutions that are compared. The buckets of the others follow from them.
const STORED: [Resolution; 3] = [Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

/// Hashes of the parts of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) n_rows: u64,
    pub(super) n_buckets: u64,
    /// Timestamp before which rows were pruned.
    pub(super) kept_from: Option<Timestamp>,
    rows: Days,
    /// Buckets of five minutes.
    buckets: Days,
    longer_buckets: u64,
    /// The catalog entry.
    entry: u64,
}

impl Digest {
    /// Reads all of a dataset. If `on_rows`, which is called with the number of rows so far, stops
    /// it, the digest is incomplete.
    ///
    /// # Errors
    /// [`StoreError`](crate::store::StoreError).
    pub(super) fn read(
        store: &dyn CopyStore,
        entry: &CatalogEntry,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        let id = entry.dataset.id;
        let shown: Vec<usize> = columns::list_visible(&entry.columns).map(|(idx, _)| idx).collect();
        let mut rows = DayHasher::new(entry.kept_from);
        let mut buckets = DayHasher::new(entry.kept_from);
        let mut longer_buckets = DefaultHasher::new();
        let (mut n_rows, mut n_buckets) = (0, 0);
        for resolution in [Resolution::Raw].into_iter().chain(STORED) {
            store.scan(id, resolution, Span::ALL, &mut |batch| {
                match batch.rows()? {
                    Rows::Raw(block) => {
                        n_rows += u64::try_from(block.len()).unwrap_or(u64::MAX);
                        for (row_idx, time) in block.times.iter().enumerate() {
                            hash_row(&block, row_idx, &shown, rows.open_day(*time));
                        }
                    }
                    Rows::Buckets(all) => {
                        n_buckets += u64::try_from(all.len()).unwrap_or(u64::MAX);
                        for bucket in &all {
                            let is_finest = resolution == Resolution::FiveMinutes;
                            let day = is_finest.then(|| buckets.open_day(bucket.timestamp));
                            hash_bucket(bucket, day.unwrap_or(&mut longer_buckets));
                        }
                    }
                }
                Ok(on_rows(n_rows))
            })?;
        }
        Ok(Self {
            n_rows,
            n_buckets,
            kept_from: entry.kept_from,
            rows: rows.finish(),
            buckets: buckets.finish(),
            longer_buckets: longer_buckets.finish(),
            entry: hash_entry(entry),
        })
    }

    /// Returns the days with different rows or buckets of five minutes, as [`day_of`] returns them.
    pub(super) fn days_that_differ(&self, other: &Self) -> BTreeSet<Timestamp> {
        [(&self.rows, &other.rows), (&self.buckets, &other.buckets)]
            .into_iter()
            .flat_map(|(ours, theirs)| {
                let days = ours.keys().chain(theirs.keys());
                days.filter(|day| ours.get(day) != theirs.get(day))
            })
            .copied()
            .collect()
    }

    /// Returns the part that differs, if any.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        let buckets = |digest: &Self| (digest.n_buckets, digest.longer_buckets);
        if self.rows != other.rows {
            Some("rows")
        } else if self.buckets != other.buckets || buckets(self) != buckets(other) {
            Some("buckets")
        } else if self.entry != other.entry {
            Some("name, metadata, columns or tags")
        } else {
            None
        }
    }

    /// Returns a checksum of all parts.
    pub(super) fn checksum(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.n_rows, self.n_buckets, &self.rows, &self.buckets).hash(&mut hasher);
        (self.longer_buckets, self.entry).hash(&mut hasher);
        hasher.finish()
    }
}

/// Hash of each day with rows or buckets.
type Days = BTreeMap<Timestamp, u64>;

/// Hashes rows or buckets, which are in ascending order, by day.
struct DayHasher {
    kept_from: Option<Timestamp>,
    days: Days,
    /// Latest day.
    open: Option<(Timestamp, DefaultHasher)>,
}

impl DayHasher {
    const fn new(kept_from: Option<Timestamp>) -> Self {
        Self { kept_from, days: Days::new(), open: None }
    }

    /// Returns the hasher of the day of `time` and finishes the days before.
    fn open_day(&mut self, time: Timestamp) -> &mut DefaultHasher {
        let day = day_of(time, self.kept_from);
        if self.open.as_ref().is_none_or(|(open, _)| *open != day) {
            self.close();
        }
        let (_, hasher) = self.open.get_or_insert_with(|| (day, DefaultHasher::new()));
        hasher
    }

    fn close(&mut self) {
        self.days.extend(self.open.take().map(|(day, hasher)| (day, hasher.finish())));
    }

    fn finish(mut self) -> Days {
        self.close();
        self.days
    }
}

/// Returns the start of the day of `time`. The day of `kept_from` consists of two parts, the second
/// of which begins at `kept_from`.
fn day_of(time: Timestamp, kept_from: Option<Timestamp>) -> Timestamp {
    let day = Resolution::Day.bucket_start(time);
    kept_from.filter(|kept_from| *kept_from <= time).map_or(day, |kept_from| day.max(kept_from))
}

fn hash_row(block: &Block, row_idx: usize, shown: &[usize], to: &mut DefaultHasher) {
    block.times.get(row_idx).hash(to);
    block.created.get(row_idx).hash(to);
    // A column that was added after the rows may be missing, or without values.
    for series in shown.iter().map(|idx| block.columns.get(*idx)) {
        match series {
            Some(Series::Float(values)) => {
                values.get(row_idx).copied().flatten().map(f64::to_bits).hash(to);
            }
            Some(Series::Integer(values)) => values.get(row_idx).copied().flatten().hash(to),
            Some(Series::String(values)) => {
                values.get(row_idx).and_then(Option::as_ref).hash(to);
            }
            Some(Series::Boolean(values)) => values.get(row_idx).copied().flatten().hash(to),
            None => None::<bool>.hash(to),
        }
    }
}

fn hash_bucket(bucket: &Bucket, to: &mut DefaultHasher) {
    let Bucket { timestamp, open, high, low, close, volume, count } = bucket;
    // Stores do not keep the sign of zero.
    let bits = [open, high, low, close, volume].map(|number| (number + 0.0).to_bits());
    (timestamp, bits, count).hash(to);
}

fn hash_entry(entry: &CatalogEntry) -> u64 {
    let mut hasher = DefaultHasher::new();
    let CatalogEntry { dataset, owner, columns, tags, newest, kept_from } = entry;
    (dataset.id, &dataset.name, &dataset.description, &dataset.metadata).hash(&mut hasher);
    (dataset.created_at, owner, newest, kept_from).hash(&mut hasher);
    for (_, column) in columns::list_visible(columns) {
        (&column.name, column.dtype.to_string()).hash(&mut hasher);
    }
    for tag in tags {
        (&tag.name, tag.is_public, tag.owner).hash(&mut hasher);
    }
    hasher.finish()
}
