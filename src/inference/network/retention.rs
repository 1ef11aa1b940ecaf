//! How much of a topic's past is kept.

use std::time::Duration;

/// A day, the unit of `keep_days`.
pub const DAY: Duration = Duration::from_hours(24);

/// Limits of a topic's past epochs. The oldest epochs go first; before that, those past half of the
/// bytes lose what takes most room: values of pairs of actors, and forecasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// The most bytes of a topic's closed epochs.
    pub bytes: u64,
    /// The longest that an epoch is kept after it opened; none where age does not matter.
    pub age: Option<Duration>,
}

impl Retention {
    /// Where nobody says otherwise: 2 GB, which is 10 000 epochs of two hundred actors, and less than
    /// a day of a thousand inferers and fifty forecasters.
    pub const USUAL: Self = Self { bytes: 2_000_000_000, age: None };

    /// The least bytes that can be asked for: some epochs of a few dozen actors, without which a topic
    /// would forget them before their truth is known.
    pub const BYTES_MIN: u64 = 1_000_000;

    /// How many bytes of epochs are kept with everything in them.
    pub const fn full_bytes(self) -> u64 {
        self.bytes / 2
    }
}
