//! State of a dataset that all engines store.

use model::block::Block;
use model::timestamp::Timestamp;

use super::{AppendMode, Appended, Removed, Result, StoreError};

/// State that the writers of a dataset change.
#[derive(Debug, Clone, Copy)]
pub(super) struct State {
    pub(super) revision: u64,
    /// Timestamp of the latest row.
    pub(super) newest: Option<Timestamp>,
    /// Timestamp before which rows were pruned.
    pub(super) kept_from: Option<Timestamp>,
    /// Revision of the latest commit that removed rows.
    pub(super) removed: u64,
    /// End of the latest month that was ever archived.
    pub(super) archived_until: Option<Timestamp>,
    /// Timestamp of the latest archived row.
    pub(super) newest_archived: Option<Timestamp>,
}

/// Position of new rows relative to stored and pruned rows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// True if the new rows come after all existing rows.
    pub(super) is_after: bool,
    /// Number of new rows at the start that copied buckets already include.
    pub(super) n_folded: usize,
}

impl State {
    /// Returns true if the dataset never had rows.
    pub(super) fn is_empty(&self) -> bool {
        self.newest.or(self.kept_from).is_none()
    }

    /// Returns the position of new rows.
    ///
    /// # Errors
    /// [`StoreError::Pruned`] if a row lies in the time for which rows were pruned.
    pub(super) fn place(&self, rows: &Block, mode: AppendMode) -> Result<Place> {
        let first = rows.times.first();
        let is_after = first.is_none_or(|first| self.newest.is_none_or(|newest| newest < *first));
        let n_folded = self.kept_from.map_or(0, |kept_from| rows.first_not_before(kept_from));
        match self.kept_from {
            Some(kept_from) if n_folded > 0 && !(is_after && mode == AppendMode::Copy) => {
                Err(StoreError::Pruned { kept_from })
            }
            _ => Ok(Place { is_after, n_folded }),
        }
    }

    /// Returns the result of an append of `n_rows`.
    pub(super) fn appended(&self, n_rows: usize) -> Appended {
        Appended { n_rows: u64::try_from(n_rows).unwrap_or(u64::MAX), revision: self.revision }
    }

    /// Returns the result of a removal of `n_rows`.
    pub(super) const fn removed(&self, n_rows: u64) -> Removed {
        Removed { n_rows, revision: self.revision }
    }
}
