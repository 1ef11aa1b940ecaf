//! Small enums that keys step through: panes, orders, kinds of charts.

use strum::VariantArray;

/// An enum whose variants keys step through, in the order in which they are written.
pub(crate) trait Steps: VariantArray + Copy + PartialEq {
    /// The index in [`Self::VARIANTS`]; click targets name panes by it.
    fn number(self) -> usize {
        Self::VARIANTS.iter().position(|it| *it == self).unwrap_or(0)
    }

    /// The variant at this index in [`Self::VARIANTS`].
    fn numbered(number: usize) -> Option<Self> {
        Self::VARIANTS.get(number).copied()
    }

    /// The variant `n` further, or back, wrapping around.
    fn cycled(self, n: isize) -> Self {
        Self::numbered(cycled(Some(self.number()), n, Self::VARIANTS.len())).unwrap_or(self)
    }

    /// The variant `n` further, or back, stopping at both ends.
    fn shifted(self, n: isize) -> Self {
        let last = Self::VARIANTS.len().saturating_sub(1);
        Self::numbered(self.number().saturating_add_signed(n).min(last)).unwrap_or(self)
    }
}

impl<T: VariantArray + Copy + PartialEq> Steps for T {}

/// The index `by` further than `idx` among `n`, or back, wrapping around; the first from none.
pub(crate) fn cycled(idx: Option<usize>, by: isize, n: usize) -> usize {
    let len = n.max(1).cast_signed();
    idx.map_or(0, |idx| (idx.cast_signed() + by).rem_euclid(len).cast_unsigned())
}
