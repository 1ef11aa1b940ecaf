//! The list of past notices.

use crate::{action::Action, overlay};

/// The selection in the list of past notices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Notices {
    /// The selected notice, counted from the newest.
    pub(crate) row: usize,
}

impl Notices {
    /// Handles an action, in a list of `n_rows` rows.
    pub(crate) fn act(&mut self, action: Action, n_rows: usize) {
        self.row = overlay::moved(action, self.row, n_rows);
    }
}
