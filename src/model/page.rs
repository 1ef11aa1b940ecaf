//! Limits on the number of rows in a response.

/// Default number of rows in a page of `/api/rows/`, as in the upstream dataset service.
pub const ROWS_DEFAULT: usize = 250;

/// Maximum number of rows in a page of `/api/rows/`, and of lines in a response of `/api/rows/live/`, as
/// in the upstream dataset service.
pub const ROWS_MAX: usize = 10_000;

/// Default number of lines in a response of `/api/rows/live/`, as in the upstream dataset service.
pub const LIVE_ROWS_DEFAULT: usize = 100;

/// Number of rows that a stream replays when it is opened, as in the upstream dataset service.
pub const REPLAY_ROWS: usize = 100;

/// Maximum number of rows in a response, from 1 to [`ROWS_MAX`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Limit(usize);

impl Limit {
    /// Returns `requested` clamped to the range 1 to [`ROWS_MAX`].
    #[must_use]
    pub fn clamp(requested: usize) -> Self {
        Self(requested.clamp(1, ROWS_MAX))
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0
    }
}
