//! The moments of a block's rows.

use std::ops::Range;

use model::timestamp::Timestamp;

use super::{DecodeError, ints::Packed, sealed};

/// Moments in their order, which are read as they are asked for: most readers want few of them.
#[derive(Debug)]
pub(crate) struct Moments<'a>(Form<'a>);

/// How they are written.
#[derive(Debug)]
enum Form<'a> {
    Plain(&'a [[u8; 8]]),
    Packed(Packed<'a>),
}

impl<'a> Moments<'a> {
    /// The moments of `n` rows.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not so many moments.
    pub(crate) fn read(bytes: &'a [u8], n: usize) -> Result<Self, DecodeError> {
        // Those of version 2 are never as long.
        let is_plain = bytes.len() == n.saturating_mul(8);
        Ok(Self(if is_plain {
            Form::Plain(bytes.as_chunks::<8>().0)
        } else {
            Form::Packed(sealed::open_times(bytes, n)?)
        }))
    }

    /// How many there are.
    pub(crate) const fn len(&self) -> usize {
        match &self.0 {
            Form::Plain(moments) => moments.len(),
            Form::Packed(packed) => packed.len(),
        }
    }

    /// The moment of row `row_idx`.
    pub(crate) fn get(&self, row_idx: usize) -> Option<Timestamp> {
        let micros = match &self.0 {
            Form::Plain(moments) => i64::from_le_bytes(*moments.get(row_idx)?),
            Form::Packed(packed) => packed.get(row_idx)?,
        };
        Some(Timestamp::from_micros(micros))
    }

    /// How many of the first ones are as `is_before` says.
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

    /// Whether one of them is `moment`.
    pub(crate) fn contains(&self, moment: Timestamp) -> bool {
        let place = self.partition_point(|other| other < moment);
        self.get(place) == Some(moment)
    }

    /// Adds those of `rows` to `to`.
    pub(crate) fn extend(&self, to: &mut Vec<Timestamp>, rows: &Range<usize>) {
        match &self.0 {
            Form::Plain(moments) => {
                let moments = moments.get(rows.clone()).unwrap_or_default().iter();
                to.extend(moments.map(|bytes| Timestamp::from_micros(i64::from_le_bytes(*bytes))));
            }
            Form::Packed(packed) => packed.extend(to, rows, Timestamp::from_micros),
        }
    }
}
