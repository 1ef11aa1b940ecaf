//! The timestamps of a chunk's rows.

use std::ops::Range;

use model::timestamp::Timestamp;

use super::{DecodeError, check_rows, check_sum, numbers::read_numbers};

/// Timestamps in ascending order.
#[derive(Debug)]
pub(crate) struct Timestamps(Vec<Timestamp>);

impl Timestamps {
    /// Reads the timestamps of `n` rows.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not `n` timestamps.
    pub(crate) fn read(bytes: &[u8], n: usize) -> Result<Self, DecodeError> {
        check_rows(n)?;
        let mut timestamps = Vec::new();
        let bytes = check_sum(bytes)?.bytes;
        read_numbers(&mut timestamps, bytes, n, &(0..n), Timestamp::from_micros)?;
        Ok(Self(timestamps))
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the timestamp of row `row_idx`; `None` past the end.
    pub(crate) fn get(&self, row_idx: usize) -> Option<Timestamp> {
        self.0.get(row_idx).copied()
    }

    /// Returns the index of the first timestamp for which `is_before` is false.
    pub(crate) fn partition_point(&self, is_before: impl Fn(Timestamp) -> bool) -> usize {
        self.0.partition_point(|timestamp| is_before(*timestamp))
    }

    pub(crate) fn contains(&self, timestamp: Timestamp) -> bool {
        self.0.binary_search(&timestamp).is_ok()
    }

    /// Appends the timestamps of `rows` to `to`.
    pub(crate) fn extend(&self, to: &mut Vec<Timestamp>, rows: &Range<usize>) {
        to.extend_from_slice(self.0.get(rows.clone()).unwrap_or_default());
    }
}
