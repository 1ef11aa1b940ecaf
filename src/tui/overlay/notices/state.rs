//! The notices there were: which of them is read.

use crate::{action::Action, overlay};

/// The list of notices, as it is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Notices {
    /// The notice pointed at, counted from the newest.
    pub(crate) row: usize,
}

impl Notices {
    /// Takes an action, in a list of `n_rows`.
    pub(crate) fn act(&mut self, action: Action, n_rows: usize) {
        self.row = overlay::moved(action, self.row, n_rows);
    }
}
