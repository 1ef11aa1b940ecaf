//! Digests of datasets. A dataset and its copy have equal digests even if they are in stores of
//! different engines.

use std::hash::{DefaultHasher, Hash, Hasher as _};
use std::ops::ControlFlow;

use model::block::{Block, Rows, Series};
use model::resolution::Resolution;
use model::timestamp::Timestamp;

use crate::rollup::stored_bits;
use crate::span::Span;
use crate::store::engine::CatalogEntry;
use crate::store::{Result, Store};

/// Resolutions that are compared. The remaining resolutions are computed from these.
const COMPARED: [Resolution; 4] =
    [Resolution::Raw, Resolution::FiveMinutes, Resolution::Hour, Resolution::Day];

/// Hashes of a dataset, one for each of its parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Digest {
    pub(super) n_rows: u64,
    pub(super) n_buckets: u64,
    rows: u64,
    buckets: u64,
    /// Hash of the buckets that contain the last timestamp of the digest. Separate from other buckets,
    /// since later rows change them.
    last_buckets: u64,
    /// Hash of the catalog entry without the timestamp of the latest row.
    entry: u64,
}

impl Digest {
    /// Computes the digest of a dataset up to `until`. Calls `on_rows` with the number of rows read so
    /// far. If `on_rows` stops the read, the digest is incomplete.
    ///
    /// # Errors
    /// [`StoreError`](crate::store::StoreError).
    pub(super) fn read(
        store: &dyn Store,
        entry: &CatalogEntry,
        until: Timestamp,
        on_rows: &mut dyn FnMut(u64) -> ControlFlow<()>,
    ) -> Result<Self> {
        let shown: Vec<usize> = entry.visible().map(|(place, _)| place).collect();
        let [mut rows, mut buckets, mut last_buckets] = <[DefaultHasher; 3]>::default();
        let (mut n_rows, mut n_buckets) = (0, 0);
        for resolution in COMPARED {
            let span = Span { last: until, ..Span::ALL };
            store.scan(entry.dataset.id, resolution, span, &mut |batch| {
                match batch.rows()? {
                    Rows::Raw(block) => {
                        n_rows += block.len() as u64;
                        for row_idx in 0..block.len() {
                            hash_row(&block, row_idx, &shown, &mut rows);
                        }
                    }
                    Rows::Buckets(all) => {
                        n_buckets += all.len() as u64;
                        for bucket in &all {
                            let is_last = bucket.timestamp == resolution.bucket_start(until);
                            let hasher = if is_last { &mut last_buckets } else { &mut buckets };
                            stored_bits(bucket).hash(hasher);
                        }
                    }
                }
                Ok(on_rows(n_rows))
            })?;
        }
        Ok(Self {
            n_rows,
            n_buckets,
            rows: rows.finish(),
            buckets: buckets.finish(),
            last_buckets: last_buckets.finish(),
            entry: hash_entry(entry),
        })
    }

    /// Returns the name of the first part in which a copy differs from its source, if any. `is_ahead` is
    /// true if the source has later rows.
    pub(super) fn difference(&self, copy: &Self, is_ahead: bool) -> Option<&'static str> {
        if self.rows != copy.rows {
            Some("rows")
        } else if self.buckets != copy.buckets
            || !is_ahead && self.last_buckets != copy.last_buckets
        {
            Some("buckets")
        } else if self.entry != copy.entry {
            Some("name, metadata, columns or tags")
        } else {
            None
        }
    }

    /// Returns a checksum of all parts.
    pub(super) fn checksum(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

fn hash_row(block: &Block, row_idx: usize, shown: &[usize], to: &mut DefaultHasher) {
    block.times.get(row_idx).hash(to);
    block.created.get(row_idx).hash(to);
    // A chunk that is older than the column either lacks the column or has no values in it. Both have
    // the same hash.
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

fn hash_entry(entry: &CatalogEntry) -> u64 {
    let mut hasher = DefaultHasher::new();
    let CatalogEntry { dataset, owner, tags, kept_from, .. } = entry;
    (dataset.id, &dataset.name, &dataset.description, &dataset.metadata).hash(&mut hasher);
    (dataset.created_at, owner, kept_from).hash(&mut hasher);
    for (_, column) in entry.visible() {
        (&column.name, column.dtype.to_string()).hash(&mut hasher);
    }
    for tag in tags {
        (&tag.name, tag.is_public, tag.owner).hash(&mut hasher);
    }
    hasher.finish()
}
