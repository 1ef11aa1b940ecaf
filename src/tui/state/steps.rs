//! Small enums that keys step through: panes, orders, kinds of charts.

/// An enum whose variants keys step through.
pub(crate) trait Steps: Copy + PartialEq + 'static {
    /// All variants, in the order of the steps.
    const ALL: &'static [Self];

    /// The index in [`Self::ALL`]; click targets name panes by it.
    fn number(self) -> usize {
        Self::ALL.iter().position(|it| *it == self).unwrap_or(0)
    }

    /// The variant at this index in [`Self::ALL`].
    fn numbered(number: usize) -> Option<Self> {
        Self::ALL.get(number).copied()
    }

    /// The variant `n` further, or back, wrapping around.
    fn cycled(self, n: isize) -> Self {
        let len = Self::ALL.len().max(1).cast_signed();
        let number = (self.number().cast_signed() + n).rem_euclid(len);
        Self::numbered(number.cast_unsigned()).unwrap_or(self)
    }

    /// The variant `n` further, or back, stopping at both ends.
    fn shifted(self, n: isize) -> Self {
        let last = Self::ALL.len().saturating_sub(1);
        Self::numbered(self.number().saturating_add_signed(n).min(last)).unwrap_or(self)
    }
}
