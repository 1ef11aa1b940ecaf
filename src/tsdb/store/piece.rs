//! What a scan shows piece by piece, and which pieces never change.

use std::{fmt, ops::ControlFlow};

use model::block::Rows;

use super::StoreError;

/// Names a piece whose rows never change: whoever sees the same name again sees the same rows, of
/// the same dataset, in the same order, with the same numbers and creation moments, also after the
/// store was opened anew.
///
/// Columns that were added to the dataset since are not in the rows; what is made of a piece and kept
/// under its name must be kept under the dataset's columns, too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PieceId {
    /// The life of the store: another one after it was restored from a copy.
    pub era: i64,
    /// The piece's number, which is never given twice.
    pub number: i64,
}

/// A run of rows or buckets, read when it is asked for.
pub struct Piece<'a> {
    /// The name of a sealed piece that lies within the span of the scan as a whole; none for rows
    /// that may change, for the part of a piece at an end of the span, and for buckets.
    ///
    /// A piece that late rows lie over has no name until they are merged into it, and another one
    /// after that. Whether a piece is packed on the disk changes neither its rows nor its name.
    pub identity: Option<PieceId>,
    /// How many rows it has, at least one.
    pub n_rows: usize,
    rows: Box<dyn FnOnce() -> Result<Rows, StoreError> + 'a>,
}

/// Takes pieces in the order of their moments, and says whether to go on. An error of its own, or of
/// [`Piece::rows`], ends the scan with it.
pub type VisitPiece<'a> = &'a mut dyn FnMut(Piece<'_>) -> Result<ControlFlow<()>, StoreError>;

impl<'a> Piece<'a> {
    /// A piece whose rows are read by `rows`.
    pub(crate) fn stored(
        identity: Option<PieceId>,
        n_rows: usize,
        rows: impl FnOnce() -> Result<Rows, StoreError> + 'a,
    ) -> Self {
        Self { identity, n_rows, rows: Box::new(rows) }
    }

    /// A piece without a name, whose rows are here.
    pub(crate) fn ready(rows: Rows) -> Self {
        let n_rows = match &rows {
            Rows::Raw(block) => block.len(),
            Rows::Buckets(buckets) => buckets.len(),
        };
        Self { identity: None, n_rows, rows: Box::new(|| Ok(rows)) }
    }

    /// Reads the rows, oldest first. A piece that is not asked for them costs no reading.
    ///
    /// # Errors
    /// [`StoreError::Damaged`] if what is stored is not what was written.
    pub fn rows(self) -> Result<Rows, StoreError> {
        (self.rows)()
    }
}

impl fmt::Debug for Piece<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Piece")
            .field("identity", &self.identity)
            .field("n_rows", &self.n_rows)
            .finish_non_exhaustive()
    }
}
