//! Pages: how many rows a response may hold.

/// Rows in a page of `/api/rows/` where the query names no number, by document 2.
pub const ROWS_DEFAULT: usize = 250;

/// The most rows in a page of `/api/rows/` or lines of `/api/rows/live/`, by document 2.
pub const ROWS_MAX: usize = 10_000;

/// Lines of `/api/rows/live/` where the query names no number, by document 2.
pub const LIVE_ROWS_DEFAULT: usize = 100;

/// Rows that a stream sends again when it opens, by document 2.
pub const REPLAY_ROWS: usize = 100;

/// A number of rows asked for: at least 1, at most [`ROWS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit(usize);

impl Limit {
    /// Returns `asked` held between 1 and [`ROWS_MAX`].
    #[must_use]
    pub fn clamp(asked: usize) -> Self {
        Self(asked.clamp(1, ROWS_MAX))
    }

    /// The number of rows.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}
