//! Retention of a topic's past epochs.

use std::time::Duration;

/// A day, the unit of `keep_days`.
pub const DAY: Duration = Duration::from_hours(24);

/// Limits on a topic's past epochs. The oldest epochs are deleted first. Beyond half of the maximum
/// size, epochs lose their largest parts: forecasts and values of pairs of actors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Maximum size of a topic's closed epochs, in bytes.
    pub bytes: u64,
    /// Maximum age since the opening, or `None` for no limit.
    pub age: Option<Duration>,
}

impl Retention {
    /// Default limits: 2 GB, which is 10 000 epochs with two hundred actors, or less than a day
    /// with a thousand inferers and fifty forecasters.
    pub const USUAL: Self = Self { bytes: 2_000_000_000, age: None };

    /// Minimum size limit, in bytes: some epochs of a few dozen actors, which must not be deleted
    /// before their ground truth is known.
    pub const BYTES_MIN: u64 = 1_000_000;

    /// Returns the maximum size of complete epochs, in bytes.
    pub const fn full_bytes(self) -> u64 {
        self.bytes / 2
    }
}
