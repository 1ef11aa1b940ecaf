//! What the market's tests ask of the generator.

use super::*;

impl Generator {
    /// Whether the market is wholly in a trend from an hour before `minute` to an hour after.
    pub(in super::super) fn is_trending(&self, minute: i64) -> bool {
        [minute - 60, minute + 60].iter().all(|minute| self.regime(SPELL, *minute).trend >= 1.0)
    }

    /// Whether the market is wholly in a range from an hour before `minute` to an hour after.
    pub(in super::super) fn is_ranging(&self, minute: i64) -> bool {
        [minute - 60, minute + 60].iter().all(|minute| self.regime(SPELL, *minute).range >= 1.0)
    }
}
