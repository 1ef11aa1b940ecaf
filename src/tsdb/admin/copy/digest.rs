//! What a dataset is, in a few numbers: equal for a dataset and its copy in a store of another engine.

use std::{
    hash::{DefaultHasher, Hash, Hasher as _},
    ops::ControlFlow,
};

use model::{
    block::{Block, Rows, Series},
    resolution::Resolution,
    row::Bucket,
    timestamp::Timestamp,
};

use crate::{
    span::Span,
    store::{
        Result,
        copying::{CatalogEntry, CopyStore},
    },
};

/// The resolutions whose buckets are stored. Those of the others follow from them.
const STORED: [Resolution; 3] = [Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

/// A dataset's parts, each as a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Digest {
    pub(super) n_rows: u64,
    pub(super) n_buckets: u64,
    rows: u64,
    buckets: u64,
    /// The name and what else the catalog has.
    entry: u64,
}

impl Digest {
    /// Reads all of a dataset; what was read where `on_rows`, which takes the number of rows so far,
    /// ends it early.
    ///
    /// # Errors
    /// [`StoreError`](crate::store::StoreError).
    pub(super) fn read(
        store: &dyn CopyStore,
        entry: &CatalogEntry,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        let id = entry.dataset.id;
        let all = Span { first: Timestamp::MIN, last: Timestamp::MAX };
        let columns = entry.columns.iter().enumerate();
        let shown: Vec<usize> =
            columns.filter(|(_, column)| !column.is_deleted()).map(|(idx, _)| idx).collect();
        let (mut rows, mut buckets) = (DefaultHasher::new(), DefaultHasher::new());
        let (mut n_rows, mut n_buckets) = (0, 0);
        for resolution in [Resolution::Raw].into_iter().chain(STORED) {
            store.scan(id, resolution, all, &mut |batch| {
                match batch.rows()? {
                    Rows::Raw(block) => {
                        n_rows += u64::try_from(block.len()).unwrap_or(u64::MAX);
                        for row_idx in 0..block.len() {
                            hash_row(&block, row_idx, &shown, &mut rows);
                        }
                    }
                    Rows::Buckets(all) => {
                        n_buckets += u64::try_from(all.len()).unwrap_or(u64::MAX);
                        for bucket in &all {
                            hash_bucket(bucket, &mut buckets);
                        }
                    }
                }
                Ok(on_rows(n_rows))
            })?;
        }
        let (rows, buckets) = (rows.finish(), buckets.finish());
        Ok(Self { n_rows, n_buckets, rows, buckets, entry: hash_entry(entry) })
    }

    /// Which part differs, if one does.
    pub(super) fn difference(&self, other: &Self) -> Option<&'static str> {
        if (self.n_rows, self.rows) != (other.n_rows, other.rows) {
            Some("rows")
        } else if (self.n_buckets, self.buckets) != (other.n_buckets, other.buckets) {
            Some("buckets")
        } else if self.entry != other.entry {
            Some("name, metadata, columns or tags")
        } else {
            None
        }
    }

    /// All parts as one number.
    pub(super) fn checksum(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.n_rows, self.n_buckets, self.rows, self.buckets, self.entry).hash(&mut hasher);
        hasher.finish()
    }
}

fn hash_row(block: &Block, row_idx: usize, shown: &[usize], to: &mut DefaultHasher) {
    block.times.get(row_idx).hash(to);
    block.created.get(row_idx).hash(to);
    for series in shown.iter().filter_map(|idx| block.columns.get(*idx)) {
        match series {
            Series::Float(values) => {
                values.get(row_idx).copied().flatten().map(f64::to_bits).hash(to);
            }
            Series::Integer(values) => values.get(row_idx).hash(to),
            Series::String(values) => values.get(row_idx).hash(to),
            Series::Boolean(values) => values.get(row_idx).hash(to),
        }
    }
}

fn hash_bucket(bucket: &Bucket, to: &mut DefaultHasher) {
    let Bucket { timestamp, open, high, low, close, volume, count } = bucket;
    // Zero has two signs, of which stores keep one.
    let bits = [open, high, low, close, volume].map(|number| (number + 0.0).to_bits());
    (timestamp, bits, count).hash(to);
}

fn hash_entry(entry: &CatalogEntry) -> u64 {
    let mut hasher = DefaultHasher::new();
    let CatalogEntry { dataset, owner, columns, tags, newest, kept_from } = entry;
    (dataset.id, &dataset.name, &dataset.description, &dataset.metadata).hash(&mut hasher);
    (dataset.created_at, owner, newest, kept_from).hash(&mut hasher);
    for column in columns.iter().filter(|column| !column.is_deleted()) {
        (&column.name, column.dtype.to_string()).hash(&mut hasher);
    }
    for tag in tags {
        (&tag.name, tag.is_public, tag.owner).hash(&mut hasher);
    }
    hasher.finish()
}
