//! The timestamps of a chunk's rows.

use std::ops::Range;

use model::timestamp::Timestamp;

use super::{DecodeError, bit_packing::PackedNumbers, check_sum};

/// Timestamps in ascending order, unpacked on access: most readers want few of them.
#[derive(Debug)]
pub(crate) struct Timestamps<'a>(PackedNumbers<'a>);

impl<'a> Timestamps<'a> {
    /// Reads the timestamps of `n` rows.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not `n` timestamps.
    pub(crate) fn read(bytes: &'a [u8], n: usize) -> Result<Self, DecodeError> {
        PackedNumbers::read(check_sum(bytes)?.bytes, n).map(Self)
    }

    pub(crate) const fn len(&self) -> usize {
        self.0.len()
    }

    /// The timestamp of row `row_idx`; `None` past the end.
    pub(crate) fn get(&self, row_idx: usize) -> Option<Timestamp> {
        self.0.get(row_idx).map(Timestamp::from_micros)
    }

    /// The index of the first timestamp for which `is_before` is false.
    pub(crate) fn partition_point(&self, is_before: impl Fn(Timestamp) -> bool) -> usize {
        let mut left = 0..self.len();
        while !left.is_empty() {
            let middle = left.start.midpoint(left.end);
            if self.get(middle).is_some_and(&is_before) {
                left.start = middle + 1;
            } else {
                left.end = middle;
            }
        }
        left.start
    }

    pub(crate) fn contains(&self, timestamp: Timestamp) -> bool {
        let place = self.partition_point(|other| other < timestamp);
        self.get(place) == Some(timestamp)
    }

    /// Adds the timestamps of `rows` to `to`.
    pub(crate) fn extend(&self, to: &mut Vec<Timestamp>, rows: &Range<usize>) {
        self.0.extend(to, rows, Timestamp::from_micros);
    }
}
